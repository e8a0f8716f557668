"""What one process records of its run, and which step its trainer has completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .cursor import Cursor
from .errors import NotFound, ShardwardError, UsageError
from .journal import JournalWriter
from .journal_frame import Kind, Prepared
from .records import NoteRecord, prepare_note
from .topology import Topology

REMEMBERED_CURSORS = 4096
ANNOUNCED = "announced"
"""The event of a planned change; `what` says which."""
FORGOTTEN_REPORTS = 8


class Recorder:
    """Journals deliveries and reports, and keeps the cursors of recent steps.

    Args:
        writer: the process's journal, None to record nothing.
        piece: branch piece of the records.
        topology: the process's place.
        loaded: cursor that the loader started from.

    Attributes:
        delivered: last step handed out.
        completed: last step that the trainer reported.
    """

    def __init__(
        self, writer: JournalWriter | None, piece: int | None, topology: Topology, loaded: Cursor
    ) -> None:
        self._writer = writer
        self._piece = piece
        self._topology = topology
        self._loaded = loaded.step
        self.completed = self.delivered = loaded.step
        self._cursors = {loaded.step: loaded}
        self._reports: dict[int, Prepared] = {}
        self._spoiled: tuple[int, ShardwardError] | None = None

    def deliver(
        self, frame: Prepared | None, cursor: Cursor, report: Prepared | None = None
    ) -> None:
        """Write a delivered record and remember the cursor after its step.

        Args:
            frame: the record, None without a run.
            cursor: after the step.
            report: the record of the step's completion, made ahead.

        Raises:
            UsageError: the step is not the one after the last delivered.
        """
        if cursor.step != self.delivered + 1:
            raise UsageError(
                f"step {cursor.step} was made ready, step {self.delivered + 1} is next; "
                "hand out the steps of one source in order"
            )
        if self._writer is not None and frame is not None:
            self._writer.append(frame)
        self.delivered = cursor.step
        self._cursors[cursor.step] = cursor
        self._cursors.pop(cursor.step - REMEMBERED_CURSORS, None)
        if report is not None:
            self._reports[cursor.step] = report
            self._reports.pop(cursor.step - REMEMBERED_CURSORS, None)

    def complete(
        self, step: int, signals: Mapping[str, Any], sample_loss: Sequence[float] | None
    ) -> None:
        """Record that `step` and all before it are done; see `ShardLoader.observe`."""
        self._check_whole(step)
        if not self.completed <= step <= self.delivered:
            raise UsageError(
                f"step {step} was reported; steps up to {self.completed} are complete and up to "
                f"{self.delivered} delivered: report each step once, in order, after it is done"
            )
        losses = None if sample_loss is None else [float(loss) for loss in sample_loss]
        for done in range(self.completed + 1, step + 1):
            report = self._reports.pop(done, None)
            if report is None or self._writer is None:
                self.note(Kind.COMPLETED, done, {})
            else:
                self._writer.append(report)
            self.completed = done  # a disk that fills up here has taken this one
        if signals:
            self.note(Kind.TELEMETRY, step, signals)
        if losses is not None:
            self.note(Kind.SAMPLE_LOSS, step, {"loss": losses})

    def latest(self) -> Cursor:
        """Return the cursor of the last completed step; see `ShardLoader.state_dict`."""
        silent = self.completed == self._loaded
        if silent and self.delivered - self.completed >= FORGOTTEN_REPORTS:
            raise ShardwardError(
                f"steps {self.completed + 1} to {self.delivered} were delivered and none was "
                "reported as completed; call observe(step) after each optimizer step, or save "
                "batch.cursor_after"
            )
        return self.at(self.completed)

    def at(self, step: int) -> Cursor:
        """Return the cursor of a recent step.

        Raises:
            NotFound: the step is not delivered yet, or too long ago.
        """
        if step not in self._cursors:
            raise NotFound(
                f"no cursor of step {step} is kept; the latest is of step {self.delivered}"
            )
        return self._cursors[step]

    def checkpoint(self, step: int, path: Path | str | None) -> Cursor:
        """Record a checkpoint durably; see `ShardLoader.checkpoint`."""
        self._check_whole(step)
        if step > self.completed:
            raise UsageError(
                f"a checkpoint of step {step} was announced, step {self.completed} is the last "
                "completed one; call observe(step) first"
            )
        cursor = self.at(step)
        place = None if path is None else str(path)
        self.note(Kind.CHECKPOINT, step, {"cursor": cursor.to_json(), "path": place})
        if self._writer is not None:
            self._writer.sync()
        return cursor

    def spoil(self, why: ShardwardError) -> None:
        """Take no report of the step delivered last: a part of it was not handed out, for `why`."""
        self._spoiled = (self.delivered, why)

    def _check_whole(self, step: int) -> None:
        if self._spoiled is not None and step >= self._spoiled[0]:
            raise self._spoiled[1]

    def event(self, name: str, step: int, values: Mapping[str, Any]) -> None:
        """Record something that happened at `step`."""
        self.note(Kind.EVENT, step, {"event": name, **values})

    def announce(self, what: str) -> None:
        """Record that a planned change begins with the step after the last completed one."""
        said = what.encode(errors="backslashreplace").decode()  # half a surrogate pair stops no run
        self.event(ANNOUNCED, self.completed + 1, {"what": said})

    def note(self, kind: Kind, step: int, values: Mapping[str, Any]) -> None:
        """Write a JSON record."""
        if self._writer is None or self._piece is None:
            return
        note = NoteRecord(
            kind=kind,
            piece=self._piece,
            step=step,
            rank=self._topology.dp_rank,
            replica=self._topology.replica,
            values=values,
        )
        self._writer.append(prepare_note(note))

    def close(self) -> None:
        """Make the journal durable and free the run."""
        if self._writer is not None:
            self._writer.close()

    def abandon(self) -> None:
        """Do as `close` does, but for publishing: nobody is there to wait for a store."""
        if self._writer is not None:
            self._writer.close(publish=False)


def not_recorded(step: int, error: BaseException) -> ShardwardError:
    """Return why no step can follow `step`, whose recording `error` cut off.

    Its record may stand in the journal in part, or in full and nobody was given the step.
    """
    if isinstance(error, (OSError, ShardwardError)):
        return ShardwardError(
            f"the journal could not be written ({error}) at step {step}; make room, then make a "
            "new loader from the last checkpoint"
        )
    return ShardwardError(
        f"{error!r} came while step {step} was recorded, and it was not handed out; make a new "
        "loader from the last checkpoint"
    )
