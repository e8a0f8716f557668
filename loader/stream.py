"""The loader: batches of a plan in their one order, journalled before the trainer sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from .batch import Batch
from .closing import Closing
from .cursor import Cursor, Mode
from .cursor_check import check_recorded
from .dropped import close_when_dropped
from .errors import ShardwardError, UsageError
from .journal import JournalWriter
from .manifest import Manifest
from .passed import CountsReader
from .passed_store import counts_reader
from .plan import Plan
from .prepared import PreparedStep
from .preview import Preview, preview_step
from .rank_check import RankCheck, check_recorded_ranks
from .recorder import Recorder, not_recorded
from .revision import Revision
from .run import Run
from .run_signals import Gather, numbers
from .sample_seed import Transform
from .schedule import BatchSchedule
from .step_count import StepEstimate, count_steps
from .step_reader import StepReader
from .steps import StepSource
from .stream_load import (
    check_amounts,
    check_plan,
    check_source,
    check_tombstones,
    left_over,
    load_cursor,
    load_loader_revision,
)
from .stream_stats import LoaderStats
from .stream_warnings import StepWarnings, warn_if_left_behind, warn_if_started_over
from .topology import Topology
from .transformed import transformed
from .walk import EpochEnd, Place


class ShardLoader(Closing):
    """An iterator of `Batch`, one per micro-batch.

    It passes once over what lies between its cursor and the end of the last epoch. A step is
    journalled as delivered before its first micro-batch is returned, in the calling thread, and
    as completed when the trainer calls `observe`. `state_dict` is the cursor of the last completed
    step, however many batches are prefetched or in the trainer's hands.

    Args:
        manifest: the corpus.
        plan: made for this manifest.
        run: where to record; None records nothing, for evaluation and dry runs.
        batch: global batch in samples, or a schedule of `(first step, samples)` pairs.
        topology: this process's place.
        micros: micro-batches per step (gradient accumulation).
        cursor: where to go on, as `state_dict` or `Batch.cursor_after` gave it; None is the start.
        revision: quarantine to apply from here on, as object or number in the run; None keeps the
            cursor's.
        mode: `compact` or `hold`; None keeps the cursor's.
        epochs: number of epochs, None for no end.
        end: `drop` or `pad` what is too little for a batch at the end of an epoch.
        prefetch_bytes: ready steps that may wait, in bytes.
        threads: background readers; 0 does everything in the calling thread.
        window_bytes: memory that windows may take; a plan that needs more is refused. In document
            mode the padded rows of a step may take no more either.
        reason: why the cursor is loaded: `start`, `restart`, `rewind` or `trial`.
        fork: go on from a cursor that the run's head has left behind.
        record: `documents` journals every segment, `runs` only positions and digest.
        launch: token that all ranks of this start share.
        on_corrupt: `stop` at a block that stays damaged, or `hold` its slots, masked.
        patience: seconds to wait for a shard that the store does not hand out, then stop.
        transform: applied to each micro-batch with one seed per row; see `sample_seed.Transform`.
        stall_seconds: after this long without data, the shards being read are logged.

    Raises:
        MismatchError: plan, manifest, cursor and run do not belong together.
        TopologyError: a batch that does not split over ranks and micro-batches.
        SupersededCursor: the run's head has left the cursor behind.
        Busy: another trainer holds the run.
    """

    piece: int | None = None
    """Branch piece that is recorded, None without a run."""
    _failure: ShardwardError | None = None
    """Raised by each later call once it is set: nothing is handed out any more."""
    _has_ended = False
    _closed_by: int | None = None
    _micro_batches: Iterator[Batch] = iter(())

    def __init__(
        self,
        manifest: Manifest,
        plan: Plan,
        *,
        batch: int | Sequence[tuple[int, int]] | BatchSchedule,
        run: Run | None = None,
        topology: Topology | None = None,
        micros: int = 1,
        cursor: Cursor | Mapping[str, Any] | None = None,
        revision: Revision | int | None = None,
        mode: Mode | None = None,
        epochs: int | None = 1,
        end: EpochEnd = "drop",
        prefetch_bytes: int = 64 << 20,
        threads: int = 1,
        window_bytes: int = 4 << 30,
        reason: Literal["start", "restart", "rewind", "trial"] | None = None,
        fork: bool = False,
        record: Literal["documents", "runs"] = "documents",
        launch: str | None = None,
        on_corrupt: Literal["stop", "hold"] = "stop",
        patience: float = 300.0,
        transform: Transform | None = None,
        stall_seconds: float = 60.0,
    ) -> None:
        check_plan(manifest, plan, run)
        loaded = load_cursor(cursor, plan)
        chosen = load_loader_revision(revision, loaded, plan, run)
        check_tombstones(manifest, chosen)
        self.manifest, self.plan, self.run = manifest, plan, run
        self.topology, self.micros = topology or Topology(), micros
        self._source = StepSource(
            manifest=manifest,
            plan=plan,
            revision=chosen,
            mode=mode or loaded.mode,
            schedule=BatchSchedule.of(batch),
            topology=self.topology,
            micros=micros,
            epochs=epochs,
            end=end,
            piece=None,
            record=record,
            threads=threads,
            hold_corrupt=on_corrupt == "hold",
            patience=patience,
            window_bytes=window_bytes,
        )
        check_amounts(prefetch_bytes, stall_seconds, patience)
        check_source(self._source, loaded, reason=reason, on_corrupt=on_corrupt)
        writer = self._open_piece(loaded, reason, launch, fork=fork, fresh=cursor is None)
        self._loaded = self._source.cursor(Place(loaded.step, loaded.epoch, loaded.position))
        self._recorder = Recorder(writer, self.piece, self.topology, self._loaded)
        self._reader = StepReader(
            self._source, self.place, prefetch_bytes=prefetch_bytes, stall_seconds=stall_seconds
        )
        self._warnings = StepWarnings(self._source.revision.number)
        self._transform, self.stats, self._ranks = transform, LoaderStats(), RankCheck()
        close_when_dropped(self, self._reader.close, self._recorder.abandon, user=self._reader.user)

    def _open_piece(
        self, loaded: Cursor, reason: str | None, launch: str | None, *, fork: bool, fresh: bool
    ) -> JournalWriter | None:
        """Open or join the branch piece of this load and return its journal."""
        if self.run is None:
            return None
        source = self._source
        check_recorded(self.run, loaded)
        before = self.run.head() if loaded.piece is None else None
        try:
            piece = self.run.open_piece(
                cursor=loaded,
                topology=self.topology,
                reason=reason or ("start" if fresh else "restart"),
                mode=source.mode,
                revision=source.revision.number,
                revision_digest=source.revision.digest if source.revision.number else None,
                launch=launch,
                record=source.record,
                terms=source.terms(),
                fork=fork,
            )
            if before is not None and before.piece != piece.piece:
                warn_if_started_over(self.run, before)
            self.piece = piece.piece
            self._source = source.for_piece(piece.piece)
            return self.run.journal_writer(piece, self.topology.dp_rank, self.topology.replica)
        except BaseException:  # an interrupt too must leave the run to the next start
            self.run.close()
            raise

    @property
    def source(self) -> StepSource:
        """What decides every step; a worker process can make steps from it."""
        return self._source

    @property
    def place(self) -> Place:
        """The boundary that this loader started from."""
        return Place(self._loaded.step, self._loaded.epoch, self._loaded.position)

    def count_steps(self) -> StepEstimate:
        """Return the last step of the last epoch, with its error; no shard is read.

        Exact where the revision's passed counts are stored (`quarantine publish` does so) or where
        it touches at most 256 windows of an epoch.

        Raises:
            UsageError: the epochs have no end.
        """
        return self._estimate

    @cached_property
    def _counts(self) -> CountsReader:
        return counts_reader(self._source.revision, self.plan.plan_id)

    @cached_property
    def _estimate(self) -> StepEstimate:
        return count_steps(self._source.walker(), self.place, counts=self._counts)

    @property
    def total_steps(self) -> int:
        """Last step of the last epoch, counted from step 1; see `count_steps` for its error."""
        return self.count_steps().last_step

    def __len__(self) -> int:
        """Number of batches between the loaded cursor and the end of the last epoch."""
        return (self.total_steps - self._loaded.step) * self.micros

    def __iter__(self) -> ShardLoader:
        return self

    def __next__(self) -> Batch:
        batch = next(self._micro_batches, None)
        if batch is None:
            began = time.perf_counter()
            if self._failure is not None:
                raise self._failure
            try:
                step = self._reader.next(self._recorder.delivered + 1)
            except StopIteration:
                self.ended()
                raise
            micro_batches = self.deliver(step, time.perf_counter() - began)
            self._micro_batches = micro_batches  # a signal handler that closes takes them away
            batch = next(micro_batches)
        return batch

    def deliver(self, step: PreparedStep, waited: float = 0.0) -> Iterator[Batch]:
        """Journal `step` as delivered and return its micro-batches; for adapters.

        Raises:
            UsageError: it is not the step after the last delivered one.
            ShardwardError: the journal could not be written, so the step was not handed out; every
                later call raises too.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._book(step, waited)
        except UsageError:
            raise
        except BaseException as error:  # an interrupt too
            self._failure = not_recorded(step.step, error)
            raise
        if self._transform is None:
            return iter(step.micros)
        return transformed(step.micros, self._transform, self.plan, self._spoil)

    def _book(self, step: PreparedStep, waited: float) -> None:
        """Record `step`, what is known of its data, and what it cost."""
        self._recorder.deliver(step.frame, step.after, step.report)
        for lost in step.lost:
            self._recorder.event("corrupt_block", step.step, lost.to_json())
        if step.dropped:
            self._recorder.event("dropped_samples", step.step, {"samples": step.dropped})
        self.stats.add(step, waited)
        if step.lost or step.blanked_tokens:
            self._warnings.check(step)
        self._ranks.remember(step.share)
        self._reader.refill()
        step.micros[0].book_wait(waited)

    def ended(self) -> None:
        """Record, once, what the last epoch left over, or raise if the plan has more steps."""
        if self._has_ended:
            return
        cursor = self._recorder.at(self._recorder.delivered)
        left = left_over(self._source.walker(), cursor)
        self._has_ended = True
        if left:
            self._recorder.event("dropped_samples", cursor.step, {"samples": left})

    def observe(
        self,
        step: int,
        *,
        sample_loss: Sequence[float] | None = None,
        reduce: Gather | None = None,
        **signals: Any,
    ) -> dict[str, float]:
        """Record that the trainer completed `step` (and all before it), with its telemetry.

        Args:
            step: a delivered step.
            sample_loss: one loss per sample of this rank, in order of delivery.
            reduce: gathers the signals of all ranks, such as a wrapped all_gather_object. Each
                rank then records and gets the same values: the mean over ranks, NaN where any
                rank has one, and `nonfinite_ranks`.
            signals: numbers such as loss=…, grad_norm=…, lr=…; None is not recorded, and a tensor
                of one element is read.

        Returns:
            What was recorded, so that every rank decides by the same numbers.

        Raises:
            UsageError: the step was not delivered, an earlier report was later, or a signal is
                not a number; nothing is recorded then.
            ShardwardError: the transform failed in this step, so nobody was given all of it.
            IntegrityError: with `reduce`, on all ranks: they do not hold the parts of one step.
        """
        values = numbers(signals)
        if reduce is not None:
            values = self._ranks.reduced(step, values, reduce)
        self._recorder.complete(step, values, None if sample_loss is None else list(sample_loss))
        return values

    def announce(self, what: str) -> None:
        """Record that the next step to be reported begins a planned change, such as "mixture".

        Raises:
            UsageError: `what` is no text.
        """
        if not isinstance(what, str):
            raise UsageError(f"announce takes a text, not {what!r}; say what changes: 'mixture'")
        self._recorder.announce(what.strip() or "a change")

    def state_dict(self) -> dict[str, Any]:
        """Return the cursor of the last completed step as JSON, under 1 KB.

        Raises:
            ShardwardError: steps were delivered and none reported, so the cursor would be stale.
        """
        return self._recorder.latest().to_json()

    def cursor_at(self, step: int) -> Cursor:
        """Return the cursor of a step delivered lately, or of the one loaded.

        Raises:
            NotFound: the step is not delivered yet, or too long ago.
        """
        return self._recorder.at(step)

    def checkpoint(self, step: int, path: Path | str | None = None) -> dict[str, Any]:
        """Make the journal durable, record a checkpoint of `step` and return its cursor.

        Args:
            step: a completed step, whose weights the checkpoint holds.
            path: where the trainer puts it, recorded for the rewind.

        Raises:
            UsageError: the step is not completed.
            IntegrityError: on rank 0: the journals of the ranks disagree on the step.
        """
        if self.run is not None and self.piece is not None:
            check_recorded_ranks(self.run, self.piece, step, self.topology)
            warn_if_left_behind(self.run, self.piece, step)
        return self._recorder.checkpoint(step, path).to_json()

    def preview(self, step: int) -> Preview:
        """Return what would feed `step`, without reading data; always exact.

        Raises:
            NotFound: `step` is not after the loaded cursor, or after the last step.
        """
        return preview_step(self._source, self.place, step, counts=self._counts)

    def close(self) -> None:
        """Stop reading, make the journal durable and free the run; twice is harmless."""
        if self._closed_by == threading.get_ident():
            return  # a signal handler asks for it in the middle of it
        self._closed_by = threading.get_ident()
        try:
            self._reader.close()
            self._micro_batches = iter(())
            self._recorder.close()
        finally:
            self._closed_by = None

    def _spoil(self, why: ShardwardError) -> None:
        self._failure = why
        self._recorder.spoil(why)
