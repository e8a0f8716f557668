"""Steps made ready: positions, tokens, digest and journal frame, by one function of the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .arrays import Int64Array
from .blocks import token_dtype
from .buffers import Buffers
from .cursor import Cursor, Mode
from .exclusion import Exclusion
from .journal_frame import Kind, Prepared
from .manifest import Manifest
from .order import EpochOrder, Layout
from .plan import Plan
from .prepared import PreparedStep, split_rows
from .rank_check import Share
from .records import (
    DOCUMENTS,
    DeliveredRecord,
    NoteRecord,
    prepare_delivered,
    prepare_note,
)
from .revision import Revision
from .row_digest import rows_digest
from .rows import Rows, make_rows
from .schedule import BatchSchedule
from .topology import Topology
from .walk import EpochEnd, Place, StepPositions, Walker
from .window import Window
from .window_feed import WindowFeed


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSource:
    """Everything that decides what a rank is given. It can be pickled into a worker.

    Attributes:
        piece: branch piece that the records are for, None without a run.
        record: `documents` or `runs`.
        threads: readers that work ahead.
        hold_corrupt: mask damaged blocks instead of raising.
        patience: seconds to wait for a shard that the store does not hand out.
        window_bytes: what the rows of a step may take, None for any number of bytes.
        The others are as in `ShardLoader`.
    """

    manifest: Manifest
    plan: Plan
    revision: Revision
    mode: Mode
    schedule: BatchSchedule
    topology: Topology
    micros: int
    epochs: int | None
    end: EpochEnd
    piece: int | None
    record: str
    threads: int
    hold_corrupt: bool
    patience: float
    window_bytes: int | None = None

    @cached_property
    def layout(self) -> Layout:
        """The corpus as the plan lays it out."""
        return Layout(self.plan, self.manifest.geometry(), self.manifest.lengths)

    def for_piece(self, piece: int | None) -> StepSource:
        """Return the same source, recording for `piece`."""
        return replace(self, piece=piece)

    @cached_property
    def _names(self) -> tuple[str, str | None]:
        number = self.revision.number
        return self.plan.plan_id, self.revision.digest if number else None

    def cursor(self, place: Place) -> Cursor:
        """Return the cursor at a boundary of this stretch of the run."""
        plan_id, revision_digest = self._names
        return Cursor(
            plan_id=plan_id,
            epoch=place.epoch,
            position=place.position,
            step=place.step,
            revision=self.revision.number,
            revision_digest=revision_digest,
            mode=self.mode,
            piece=self.piece,
        )

    def terms(self) -> dict[str, Any]:
        """Return what all ranks must bring alike to share out the same samples."""
        return {
            "batch": [list(pair) for pair in self.schedule.pairs],
            "micros": self.micros,
            "epochs": self.epochs,
            "end": self.end,
            "on_corrupt": "hold" if self.hold_corrupt else "stop",
        }

    def exclusion(self) -> Exclusion:
        """Return the revision as the plan sees it."""
        return Exclusion(self.revision, plan_id=self.plan.plan_id, mode=self.mode)

    def walker(self) -> Walker:
        """Return a walker of its own, for one thread."""
        return Walker(
            self.layout, self.exclusion(), self.schedule, epochs=self.epochs, end=self.end
        )

    def steps(self, place: Place, *, offset: int = 0, stride: int = 1) -> StepStream:
        """Return the steps after `place`; with a stride only every stride-th from `offset` on."""
        return StepStream(self, place, offset=offset, stride=stride)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "layout"}


class StepStream(Iterator[PreparedStep]):
    """Makes steps ready one after the other, in the thread that asks."""

    def __init__(self, source: StepSource, place: Place, *, offset: int, stride: int) -> None:
        self._source = source
        self._place = place
        self._skip = offset
        self._stride = stride
        self._walker = source.walker()
        self._lost_seen = self._read_seen = 0
        self._buffers = Buffers()
        self._dtype = token_dtype(source.manifest.header.tokenizer.vocabulary)
        self.feed = WindowFeed(
            source.manifest,
            self._walker.order,
            exclusion=self._walker.exclusion,
            threads=source.threads,
            epochs=source.epochs,
            hold_corrupt=source.hold_corrupt,
            patience=source.patience,
        )

    def __next__(self) -> PreparedStep:
        taken, skip = self._walker.take(self._place), self._skip
        while taken is not None and skip:
            skip -= 1
            taken = self._walker.take(taken.after)
        if taken is None:
            self.feed.close()
            raise StopIteration
        step = self._prepare(taken)
        # Only now: what fails or is interrupted in between is made again, not passed over.
        self._place, self._skip = taken.after, self._stride - 1
        return step

    def close(self) -> None:
        """Let go of the readers."""
        self.feed.close()

    def _prepare(self, taken: StepPositions) -> PreparedStep:
        source = self._source
        mine = source.topology.slice(taken.positions)
        made = make_rows(
            source.plan,
            self._windows(taken),
            mine,
            self._dtype,
            step=taken.positions,
            empty=self._buffers.empty,
            most_bytes=source.window_bytes,
        )
        digest = rows_digest(mine, made.segments, made.tokens, self._digested(made))
        lost = tuple(self.feed.loader.lost[self._lost_seen :])
        self._lost_seen += len(lost)
        read = self.feed.bytes_read - self._read_seen
        self._read_seen += read
        after = source.cursor(taken.after)
        micros = split_rows(made, mine, source.micros, epoch=taken.epoch, after=after)
        target, blanked = int(made.target_by_row.sum()), int(made.blanked_by_row.sum())
        return PreparedStep(
            step=taken.step,
            after=after,
            micros=micros,
            target_tokens=target,
            target_bytes=target * made.tokens.itemsize,
            blanked_tokens=blanked,
            blanked_share=blanked / max(made.tokens.size, 1),
            digest=digest,
            share=Share.made(
                source.topology,
                step=taken.step,
                epoch=taken.epoch,
                end=taken.end,
                positions=mine,
                digest=digest,
                tokens=made.step_tokens,
            ),
            frame=self._frame(taken, mine, made, digest),
            report=self._report(taken.step),
            lost=lost,
            bytes_read=read,
            dropped=taken.dropped,
        )

    def _report(self, step: int) -> Prepared | None:
        """Return the record that the trainer will have completed `step`."""
        source = self._source
        if source.piece is None:
            return None
        return prepare_note(
            NoteRecord(
                kind=Kind.COMPLETED,
                piece=source.piece,
                step=step,
                rank=source.topology.dp_rank,
                replica=source.topology.replica,
                values={},
            )
        )

    def _digested(self, made: Rows) -> Int64Array:
        """Return how many tokens of each row the digest covers."""
        seq_len = self._source.plan.seq_len
        if seq_len is None:
            return made.target_by_row
        return np.full(made.target_by_row.size, seq_len, np.int64)

    def _windows(self, taken: StepPositions) -> Iterator[Window]:
        """Yield the windows of a step, each read only when the one before is done with."""
        order: EpochOrder = self._walker.order(taken.epoch)
        real = taken.positions[taken.positions >= 0]
        first, last = order.window_of(int(real[0])), order.window_of(int(real[-1]))
        # A step may pass over whole windows, which are then not read.
        needed = [
            number
            for number in range(first, last + 1)
            if np.diff(np.searchsorted(real, order.window_starts[number : number + 2]))[0]
        ]
        for number in needed:
            yield self.feed.window(taken.epoch, number, oldest=number)

    def _frame(
        self, taken: StepPositions, mine: Int64Array, made: Rows, digest: bytes
    ) -> Prepared | None:
        """Return the journal record, with its documents where only it can tell which they were."""
        source = self._source
        if source.piece is None:
            return None
        real = mine >= 0
        record = DeliveredRecord(
            piece=source.piece,
            step=taken.step,
            rank=source.topology.dp_rank,
            replica=source.topology.replica,
            epoch=taken.epoch,
            start=taken.start,
            end=taken.end,
            positions=mine[real],
            digest=digest,
            micros=source.micros,
            target_tokens=int(made.target_by_row.sum()),
            blanked_tokens=int(made.blanked_by_row.sum()),
            mode=source.mode,
            record=DOCUMENTS if made.partial else source.record,
            sample_index=made.segments.sample,
            doc=made.segments.doc,
            token_start=made.segments.start,
            token_end=made.segments.end,
        )
        return prepare_delivered(record)
