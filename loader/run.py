"""A run: its plan, its branch pieces, its head and its journals, in one directory."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cursor import Cursor
from .errors import IntegrityError, MismatchError, NotFound, UsageError
from .files import exclusive_lock
from .head import Head, append_head, read_heads
from .journal import JournalWriter
from .journal_frame import Kind
from .journal_lookup import journal_name
from .journal_publish import SegmentPublisher, publish_run_files
from .journal_store import ObjectStore
from .lineage import Span, lineage
from .pieces import Piece, load_pieces, publish_piece
from .plan import Plan
from .records import NoteRecord, prepare_note
from .resume_file import FILE, read_orders
from .revision_store import list_revisions
from .run_file import now, read_plan, read_run, write_run
from .run_launch import launch_token
from .run_locks import RankSlot, released_on_error, take_rank_slot
from .run_rules import check_cursor, check_join, check_load, check_same_cursor
from .topology import Topology

LOG = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """An open run directory.

    Attributes:
        path: the directory.
        run_id, created: as given at creation.
        plan_id, fingerprint: what every cursor and manifest of the run must match.
        manifest_path: where the manifest was at creation.
        remote: URL that pieces and journals are published to at each checkpoint, or None.
        context: free facts about the run, kept as given.
    """

    path: Path
    run_id: str
    created: str
    plan_id: str
    fingerprint: str
    manifest_path: Path
    remote: str | None
    context: Mapping[str, Any]
    _slots: dict[tuple[int, int, int], RankSlot] = field(default_factory=dict, repr=False)

    @classmethod
    def create(
        cls,
        path: Path | str,
        *,
        plan: Plan,
        manifest_path: Path | str,
        context: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        remote: str | None = None,
    ) -> Run:
        """Make a run directory for `plan` and return it open.

        Args:
            path: the directory.
            plan: of the run.
            manifest_path: the plan's manifest.
            context: free facts, kept as given.
            run_id: a name; random by default.
            remote: URL of a directory or object store to publish the run to.

        Raises:
            UsageError: the directory already holds a run.
            IntegrityError: the store at `remote` ignores conditional writes.
        """
        path = Path(path)
        if (path / "run.json").exists():
            raise UsageError(
                f"{path} already holds run {cls.open(path).run_id}; go on with it by "
                f"Run.open({str(path)!r}), or choose another directory"
            )
        if remote is not None:
            ObjectStore(remote).check_condition()
        write_run(
            path, plan, Path(manifest_path), context=context or {}, run_id=run_id, remote=remote
        )
        return cls.open(path)

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open the run in `path`.

        Raises:
            NotFound: there is no run there.
            FormatError: its run.json is malformed or of an unknown version.
        """
        path = Path(path)
        value = read_run(path)
        return cls(
            path=path,
            run_id=value.run_id,
            created=value.created,
            plan_id=value.plan_id,
            fingerprint=value.fingerprint,
            manifest_path=Path(value.manifest),
            remote=value.remote,
            context=value.context,
        )

    def plan(self) -> Plan:
        """Return the run's plan.

        Raises:
            MismatchError: plan.json is not the plan that run.json names.
        """
        return read_plan(self.path, self.plan_id)

    def pieces(self) -> tuple[Piece, ...]:
        """Return the branch pieces, oldest first."""
        return load_pieces(self.path / "pieces")

    def heads(self) -> tuple[Head, ...]:
        """Return every entry of the head log, oldest first; the chain is checked."""
        return read_heads(self.path / "head.log")

    def head(self) -> Head | None:
        """Return where the run stands, or None before its first piece."""
        heads = self.heads()
        return heads[-1] if heads else None

    def lineage(self, piece: int | None = None, step: int | None = None) -> tuple[Span, ...]:
        """Return the spans that lead to `piece` at `step`; by default to the head."""
        if piece is None:
            head = self.head()
            if head is None:
                return ()
            piece, step = head.piece, head.step if step is None else step
            if head.piece not in {item.piece for item in self.pieces()}:
                raise NotFound(
                    f"the head of {self.path} stands in piece {head.piece}, and pieces/ has no "
                    "such file; restore it, or head.log, from a copy"
                )
        return lineage(self.pieces(), piece, step)

    def journal_path(self, piece: int, rank: int, replica: int = 0) -> Path:
        """Return the journal file of one process in one piece."""
        return self.path / "journal" / journal_name(piece, rank, replica)

    def journals(self) -> tuple[Path, ...]:
        """Return the journal files that exist, ordered by piece, rank and replica."""
        return tuple(sorted((self.path / "journal").glob("p*-r*-x*.swj")))

    def open_piece(
        self,
        *,
        cursor: Cursor,
        topology: Topology,
        reason: str = "start",
        mode: str = "compact",
        revision: int = 0,
        revision_digest: str | None = None,
        launch: str | None = None,
        record: str = "documents",
        terms: Mapping[str, Any] | None = None,
        fork: bool = False,
    ) -> Piece:
        """Open the branch piece of this start, or join it if another rank was first.

        The process's rank slot is taken before anything is written, so a run in use stays as it
        is. `reason="trial"` leaves the head alone and may load any cursor of the run. `terms`
        holds what else decides this rank's samples, such as the batch schedule.

        Raises:
            Busy: another live trainer holds the run; its pid is named.
            MismatchError: the cursor is of another plan, or this rank brings something else than
                the rank that opened the piece.
            SupersededCursor: the head has left the cursor behind and `fork` is False.
            IntegrityError: the head's log is gone or was cut.
            TopologyError: several processes without a launch token.
        """
        check_cursor(cursor, self.plan_id)
        token = launch_token(launch, os.environ, processes=topology.processes)
        with exclusive_lock(self.path / "pieces.lock"):
            pieces = self.pieces()
            joined = next((item for item in pieces if item.launch == token), None)
            slot = take_rank_slot(
                self.path / "locks", topology, token, trial=reason == "trial", first=joined is None
            )
            with released_on_error(slot):
                if joined is None:
                    head = self._known_head(pieces)
                    check_load(pieces, head, cursor, reason=reason, revision=revision, fork=fork)
                else:
                    check_same_cursor(joined, cursor)
                ours = Piece(
                    piece=len(pieces) + 1,
                    parent=cursor.piece,
                    fork_step=cursor.step,
                    reason=reason,
                    cursor=cursor.to_json(),
                    topology={"dp_size": topology.dp_size, "replicas": topology.replicas},
                    revision=revision,
                    revision_digest=revision_digest,
                    mode=mode,
                    launch=token,
                    record=record,
                    terms=dict(terms or {}),
                    created=now(),
                )
                piece = self._join(joined, ours)
        self._slots[piece.piece, topology.dp_rank, topology.replica] = slot
        return piece

    def _join(self, joined: Piece | None, ours: Piece) -> Piece:
        """Publish `ours`, or join the piece that another rank of the launch opened."""
        if joined is None:
            publish_piece(self.path / "pieces", ours)
        else:
            check_join(joined, ours)
        piece = joined or ours
        self._head_to(piece)
        return piece

    def journal_writer(
        self, piece: Piece, rank: int = 0, replica: int = 0, *, sync_seconds: float = 0.1
    ) -> JournalWriter:
        """Start the journal of one process in `piece`; closing it frees the rank's slot.

        Raises:
            MismatchError: this rank has already recorded in the piece.
        """
        path = self.journal_path(piece.piece, rank, replica)
        slot = self._slots.pop((piece.piece, rank, replica), None)
        with nullcontext() if slot is None else released_on_error(slot):
            if path.exists():
                raise MismatchError(
                    f"rank {rank} replica {replica} has already recorded in piece {piece.piece} "
                    f"(launch {piece.launch!r}); a restarted process needs a launch token of its "
                    "own"
                )
            writer = JournalWriter(
                path,
                sync_seconds=sync_seconds,
                on_sync=self._publisher(path),
                on_close=None if slot is None else slot.release,
            )
            try:
                writer.append(prepare_note(_branch_note(piece, rank, replica)))
            except BaseException:  # its thread would keep the file, and the slot with it
                writer.close()
                raise
        return writer

    def move_head(
        self,
        *,
        piece: int,
        step: int,
        cursor: Cursor,
        revision: int,
        reason: str = "rewind",
        fork: bool = False,
    ) -> Head:
        """Move the head to `step` of `piece`; what came after it is superseded from now on.

        Raises:
            SupersededCursor: the point is outside the head's lineage and `fork` is False.
            NotFound: there is no such piece.
        """
        check_cursor(cursor, self.plan_id)
        if (cursor.piece, cursor.step) != (piece, step):
            raise MismatchError(
                f"the cursor stands at piece {cursor.piece} step {cursor.step}, the head is to "
                f"move to piece {piece} step {step}; give the cursor of that checkpoint"
            )
        if revision and revision not in list_revisions(self.path):
            raise NotFound(
                f"the head is to move to revision {revision}, which the run does not have; "
                "publish it first"
            )
        with exclusive_lock(self.path / "pieces.lock"):
            check_load(
                self.pieces(), self.head(), cursor, reason=reason, revision=revision, fork=fork
            )
            return self._append_head(piece, step, revision, reason, cursor.to_json())

    def close(self) -> None:
        """Free the slots of pieces that were opened but never recorded in."""
        while self._slots:
            self._slots.popitem()[1].release()

    def _publisher(self, journal: Path) -> Callable[[int], object] | None:
        """Return what publishes `journal` and the files that a reader needs to find it."""
        if self.remote is None:
            return None
        store = ObjectStore(self.remote)
        segments = SegmentPublisher(store, journal)
        known: set[str] = set()

        def publish(end: int) -> None:
            try:
                publish_run_files(store, self.path, known)
                segments.publish(end)
            except OSError as error:
                # The journal is durable here; the next checkpoint publishes what this one missed.
                LOG.warning("publishing to %s failed, trying again later: %s", self.remote, error)

        return publish

    def _head_to(self, piece: Piece) -> None:
        """Let the head follow `piece`, unless it is a trial or the head has been there."""
        if piece.reason == "trial" or any(head.piece == piece.piece for head in self.heads()):
            return
        self._append_head(piece.piece, None, piece.revision, piece.reason, piece.cursor)

    def _known_head(self, pieces: Sequence[Piece]) -> Head | None:
        """Return the head, or refuse a log that is gone or cut: it brings back what was left.

        A piece has its line before anything is recorded in it.
        """
        heads = self.heads()
        known = {head.piece for head in heads}
        recorded = {int(path.name[1:7]) for path in self.journals()}
        for piece in pieces:
            if piece.reason != "trial" and piece.piece in recorded - known:
                raise IntegrityError(
                    f"{self.path / 'head.log'} does not name branch piece {piece.piece}, which has "
                    "recorded steps; the log is gone or was cut, restore it from a copy"
                )
        self._check_rewound(heads)
        return heads[-1] if heads else None

    def _check_rewound(self, heads: Sequence[Head]) -> None:
        """Refuse a log, put back whole, without the rewind that `resume.json` orders."""
        orders, value = self.path / FILE, read_orders(self.path)
        if value is None:
            return
        target, incident = value.get("checkpoint"), value.get("incident")
        step, piece = (
            target.get(n) if isinstance(target, dict) else None for n in ("step", "piece")
        )
        known = (piece, step) in [(head.piece, head.step) for head in heads]
        entries = value.get("heads")  # two rewinds may lead to one step; older orders lack it
        if not known or (isinstance(entries, int) and len(heads) < entries):
            raise IntegrityError(
                f"{orders} says that {incident} rewound the run to step {step} of branch piece "
                f"{piece}, and {self.path / 'head.log'} lacks that entry: it is an older copy, "
                "restore the newest one; or the rewind was stopped half way, then type incident "
                f"rewind {incident} again"
            )

    def _append_head(
        self, piece: int, step: int | None, revision: int, reason: str, cursor: Mapping[str, Any]
    ) -> Head:
        return append_head(
            self.path / "head.log",
            piece=piece,
            step=step,
            revision=revision,
            reason=reason,
            cursor=cursor,
            time=now(),
        )


def _branch_note(piece: Piece, rank: int, replica: int) -> NoteRecord:
    """Return the first record of a journal."""
    return NoteRecord(
        kind=Kind.BRANCH,
        piece=piece.piece,
        step=piece.fork_step,
        rank=rank,
        replica=replica,
        values={**piece.to_json(), "pid": os.getpid(), "host": socket.gethostname()},
    )
