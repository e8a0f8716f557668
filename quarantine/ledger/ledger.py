"""The ledger of a run: every question about which data fed which step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from ...loader.arrays import Int64Array
from ...loader.recorder import ANNOUNCED
from .as_found import AsFound
from .check import Problem, check
from .derive import Deriver
from .documents import document_steps
from .export import export
from .history import diff, stats, timeline
from .journal_health import journal_problems, lost_steps
from .ledger_file import LedgerFile
from .losses import Loss, losses
from .masked import masked_in_runs
from .names import excerpts, with_names
from .places import shard_of, shard_steps, source_steps
from .repair import repairing
from .samples import sample_rows
from .step_answer import StepAnswer, joined_answers, not_recorded, step_answer
from .steps import owners, steps_table
from .verify import Verification, verify
from .views import View, condition, view_of, window

EXCERPTS = pa.schema({"before": pa.string(), "span": pa.string(), "after": pa.string()})


class Ledger(LedgerFile):
    """An open ledger; its methods may be called from any thread of the process that opened it.

    `branch` is None for the history of the run's head, the number of a branch piece for the
    history that leads to it, or a `View`. `open` opens it; see `LedgerFile`.
    """

    @repairing
    def step(self, step: int, branch: int | View | None = None) -> StepAnswer:
        """Return what `step_documents` does, with the ranks that have recorded the step.

        Raises:
            NotFound, IntegrityError: as there.
        """
        pieces = owners(self.run, view_of(branch), step)
        answers = [
            step_answer(self.database, self.run, piece, step, self._deriver) for piece in pieces
        ]
        found = [answer for answer in answers if answer is not None]
        if not found:
            raise not_recorded(self.run, pieces, step)
        return joined_answers(found)

    def step_documents(self, step: int, branch: int | View | None = None) -> pa.Table:
        """Return one row per segment of `step`, whether it has been ingested or not.

        Columns, all int64: step, piece, rank, epoch, sample_position, doc, token_start,
        token_end; in the order of rank and position.

        Raises:
            NotFound: the history does not reach the step, or nothing is recorded of it.
            IntegrityError: two replicas of a rank recorded different data, or the record is lost.
        """
        return self.step(step, branch).rows

    @repairing
    def sample(self, position: int, epoch: int = 0, branch: int | View | None = None) -> pa.Table:
        """Return what was delivered at raw `position` of `epoch`, whenever that was.

        One row per segment with the columns of `step_documents`; a sample that was delivered
        without a surviving segment has one row with doc and tokens null. Empty where the position
        was passed over, or is still to come.

        Raises:
            NotFound: the history has no step of the epoch, or the epoch no such position.
        """
        return sample_rows(
            self.database,
            self.run,
            position=position,
            epoch=epoch,
            spans=self.spans(branch),
            deriver=self._deriver,
        )

    @repairing
    def window_documents(self, first: int, last: int, branch: int | View | None = None) -> pa.Table:
        """Return one row per document in steps `first`..`last`: doc, segments, tokens, steps."""
        spans = self.spans(branch)
        return self.database.table(
            "SELECT doc, count(*) AS segments, sum(token_count)::BIGINT AS tokens, "  # noqa: S608
            "min(step) AS first_step, max(step) AS last_step FROM segments "
            f"WHERE step BETWEEN ? AND ? AND {condition(spans)} GROUP BY doc ORDER BY doc",
            [first, last],
        )

    @repairing
    def steps(self, first: int, last: int, branch: int | View | None = None) -> pa.Table:
        """Return one row per step in `first`..`last`, both included.

        Columns: step, piece, epoch, first_position, end_position, ranks, dp_size, complete,
        completed (by all ranks), completed_ranks, samples, segments, target_tokens, blanked_tokens,
        mode, record, revision, time (of the first delivery, UTC) and digest (16 bytes over all
        ranks).
        """
        return steps_table(self.database, self.spans(branch), first, last)

    @repairing
    def last_step(self, branch: int | View | None = None) -> int:
        """Return the last step that the history has a record of, 0 if none."""
        where = condition(self.spans(branch))
        rows = self.database.rows(
            f"SELECT coalesce(max(step), 0) FROM deliveries WHERE {where}"  # noqa: S608
        )
        return int(rows[0][0])

    @repairing
    def document_steps(
        self, docs: int | Sequence[int] | Int64Array, branch: int | View | None = None
    ) -> pa.Table:
        """Return one row per recorded segment of `docs`, ordered by document and step.

        Columns, all int64: doc, step, piece, rank, epoch, sample_position, token_start, token_end.
        """
        wanted = [docs] if isinstance(docs, int) else docs
        return document_steps(
            self.database, wanted, self.spans(branch), self.run.pieces(), self._deriver
        )

    def named(self, rows: pa.Table) -> pa.Table:
        """Return `rows` with the columns shard, row and source of their column `doc`.

        Raises:
            NotFound: the manifest is not there.
        """
        return with_names(self.manifest, rows)

    def texts(self, rows: pa.Table) -> pa.Table:
        """Return the text of each row's token span as before, span and after; see `excerpts`.

        Null where the corpus has no such document.

        Raises:
            NotFound: the manifest is not there.
            CorruptBlock: a shard no longer holds what was indexed.
        """
        empty = {"before": None, "span": None, "after": None}
        found = [asdict(one) if one else empty for one in excerpts(self.manifest, rows)]
        return pa.Table.from_pylist(found, schema=EXCERPTS)

    @repairing
    def shard_steps(self, uri: str, branch: int | View | None = None) -> pa.Table:
        """Return one row per step that the shard fed: step, piece, documents, segments, tokens."""
        return shard_steps(self.database, shard_of(self.manifest, uri), self.spans(branch))

    @repairing
    def source_steps(self, name: str, branch: int | View | None = None) -> pa.Table:
        """Return one row per step that the source fed: step, piece, documents, segments, tokens."""
        return source_steps(self.database, self.manifest, name, self.spans(branch))

    @repairing
    def telemetry(self, *names: str, branch: int | View | None = None) -> pa.Table:
        """Return the signals as rows (step, piece, name, value), those of the lowest rank.

        With no `names` all of them; ordered by step, piece and name.
        """
        chosen = "" if not names else f"AND name IN ({', '.join('?' * len(names))})"
        return self.database.table(
            "SELECT step, piece, name, arg_min(value, rank) AS value FROM signals "  # noqa: S608
            f"WHERE value IS NOT NULL AND {condition(self.spans(branch))} {chosen} "
            "GROUP BY step, piece, name ORDER BY step, piece, name",
            list(names),
        )

    @repairing
    def sample_losses(self, step: int, branch: int | View | None = None) -> pa.Table:
        """Return per-sample losses of `step` as rows (step, piece, rank, sample, loss)."""
        return self.database.table(
            "SELECT step, piece, rank, sample, loss FROM sample_losses "  # noqa: S608
            f"WHERE step = ? AND {condition(self.spans(branch))} ORDER BY piece, rank, sample",
            [step],
        )

    @repairing
    def announced(self, branch: int | View | None = None) -> dict[int, str]:
        """Return by step, in order, which planned changes were announced to begin with it."""
        rows = self.database.table(
            "SELECT step, string_agg(DISTINCT what, ', ' ORDER BY what) AS what "  # noqa: S608
            "FROM (SELECT *, content->>'what' AS what FROM events) "
            f"WHERE event = '{ANNOUNCED}' AND {condition(self.spans(branch))} "
            "GROUP BY step ORDER BY step"
        )
        return dict(zip(rows["step"].to_pylist(), rows["what"].to_pylist(), strict=True))

    @repairing
    def checkpoints(self, branch: int | View | None = None) -> pa.Table:
        """Return the recorded checkpoints as rows (step, piece, path, cursor as JSON)."""
        return self.database.table(
            "SELECT step, piece, any_value(path) AS path, any_value(cursor) AS cursor "  # noqa: S608
            f"FROM checkpoints WHERE {condition(self.spans(branch))} "
            "GROUP BY step, piece ORDER BY step, piece"
        )

    @repairing
    def check(self, branch: int | View | None = None) -> tuple[Problem, ...]:
        """Return what is wrong with a history; see `Problem`.

        Of everything, each piece is checked by itself, since branches repeat each other's samples.
        """
        spans = self.spans(branch)
        parts = [(span,) for span in spans] if view_of(branch).everything else [spans]
        found = [problem for part in parts for problem in check(self.database, part)]
        found += masked_in_runs(self.database, spans, self.run.pieces(), self._deriver)
        return tuple(dict.fromkeys([*found, *journal_problems(self.database, self.run)]))

    @repairing
    def journal_problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with the journal files of all pieces, as `check` does too."""
        return journal_problems(self.database, self.run)

    @repairing
    def losses(self, branch: int | View | None = None) -> tuple[Loss, ...]:
        """Return which journals of a history are damaged, and the steps that are lost; see `Loss`.

        Quick, for each question to tell; `check` looks closer. A live trainer's tail is no loss.
        """
        return losses(self.database, self.run, self.spans(branch))

    @repairing
    def lost_steps(self, branch: int | View | None = None) -> tuple[Problem, ...]:
        """Return which steps of a history something names and no journal has; ingest all first."""
        spans = self.spans(branch)
        return tuple(
            problem
            for problem in lost_steps(self.database, self.run)
            if any(span.piece == problem.piece and (problem.step or 0) in span for span in spans)
        )

    def sql(self, query: str, *, most: int | None = None, seconds: float | None = None) -> pa.Table:
        """Return the rows of one SELECT over the tables and views of `schemas/ledger.sql`.

        Args:
            query: the SELECT.
            most: rows that are fetched at most; None fetches all.
            seconds: time after which it is stopped; None lets it run.

        Raises:
            UsageError: it is anything else than one SELECT, or refused by DuckDB.
            OutOfTime: its time was over.
            Unstoppable: its time was over, or Ctrl-C came, and DuckDB did not react.
            Damaged: the file is damaged; unlike the other questions, this one repairs nothing.
        """
        return self.database.select(query, most=most, seconds=seconds)

    @repairing
    def diff(self, piece: int, other: int) -> pa.Table:
        """Return one row per step that the histories of two pieces both have and that differs.

        Columns: step, piece, other, only_piece and only_other (documents that only one had).
        """
        return diff(self.database, self.spans(piece), self.spans(other))

    @repairing
    def timeline(self) -> pa.Table:
        """Return one row per branch piece: where it came from, what it recorded, what is kept."""
        return timeline(self.database, self.run)

    @repairing
    def stats(self) -> dict[str, object]:
        """Return counts and sizes of ledger and journals."""
        return stats(self.database, self.run)

    @repairing
    def export(self, table: str, form: str, out: Path) -> int:
        """Write a table or view to the new file `out` as parquet, csv or jsonl; return its rows.

        Raises:
            UsageError: no such table or format, or `out` exists.
        """
        return export(self.database, table, form, out)

    @repairing
    def verify(
        self,
        branch: int | View | None = None,
        *,
        first: int = 1,
        last: int | None = None,
        stop_after: int = 1,
        advance: Callable[[int], object] | None = None,
    ) -> Verification:
        """Read the corpus again and compare with the recorded digests of steps first..last.

        A step that differs comes with the first of its documents that changed; see `Difference`.

        Raises:
            NotFound: the manifest is not there.
            UnreachableShard: a shard is missing.
        """
        end = self.last_step(branch) if last is None else last
        spans = window(self.spans(branch), first, end)
        corpus = AsFound(self.manifest)
        return verify(
            self.database,
            Deriver(self.run, corpus),
            corpus,
            self.run.pieces(),
            spans,
            stop_after=stop_after,
            advance=advance,
        )
