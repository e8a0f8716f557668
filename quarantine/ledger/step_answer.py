"""What one step was given: its segments, and which ranks have recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...loader.errors import IntegrityError, NotFound, ShardwardError
from ...loader.journal_lookup import hiding_place, is_torn
from ...loader.pieces import Piece
from ...loader.run import Run
from ...loader.run_locks import is_written
from .database import Database
from .derive import Deriver
from .steps import (
    STEP_DOCUMENTS,
    derivable_positions,
    derived_rows,
    owners,
    record_table,
    recorded_ranks,
    step_records,
)
from .views import View

_DOCUMENT_QUERY = (
    "SELECT step, piece, rank, epoch, sample_position, doc, token_start, "
    "token_start + token_count AS token_end FROM segments WHERE "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Which ranks of a piece recorded a step."""

    piece: int
    dp_size: int
    ranks: int
    complete: bool
    missing_ranks: tuple[int, ...]

    @classmethod
    def of(cls, piece: Piece, recorded: set[int]) -> Delivery:
        """Return it for the ranks that recorded."""
        missing = tuple(rank for rank in range(piece.dp_size) if rank not in recorded)
        return cls(
            piece=piece.piece,
            dp_size=piece.dp_size,
            ranks=piece.dp_size - len(missing),
            complete=not missing,
            missing_ranks=missing,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepAnswer:
    """The segments of a step as rows, and for each piece that has it the ranks that recorded it."""

    rows: pa.Table
    deliveries: tuple[Delivery, ...]


def joined_answers(answers: Sequence[StepAnswer]) -> StepAnswer:
    """Return the answers of several pieces as one."""
    return StepAnswer(
        rows=pa.concat_tables([answer.rows for answer in answers]),
        deliveries=tuple(one for answer in answers for one in answer.deliveries),
    )


def step_answer(
    database: Database, run: Run, piece: int, step: int, deriver: Deriver | None
) -> StepAnswer | None:
    """Return what `piece` recorded of `step`, in the order of delivery; None if nothing.

    Raises:
        IntegrityError: two replicas of a rank recorded different data.
    """
    known = recorded_ranks(database, piece, step)
    records = step_records(run, piece, step, known)
    if not known and not records:
        return None
    item = run.pieces()[piece - 1]
    parts = [
        record_table(run, records, deriver),
        database.table(_DOCUMENT_QUERY + "piece = ? AND step = ?", [piece, step]).cast(
            STEP_DOCUMENTS
        ),
        *(
            derived_rows(
                item, step=step, rank=rank, epoch=epoch, positions=positions, deriver=deriver
            )
            for rank, epoch, positions in derivable_positions(database, piece, step)
        ),
    ]
    rows = pa.concat_tables(parts).sort_by(
        [("rank", "ascending"), ("sample_position", "ascending")]
    )
    found = known | {record.rank for record in records if record.replica == 0}
    return StepAnswer(rows=rows, deliveries=(Delivery.of(item, found),))


def not_recorded(run: Run, pieces: Sequence[int], step: int) -> ShardwardError:
    """Return the error for a step that none of `pieces` recorded, naming the pieces that did.

    It is another one where a record of the step may have been lost.
    """
    lost = _lost(run, pieces, step)
    if lost is not None:
        return IntegrityError(
            f"{lost}, so what step {step} was given is not known; restore the journal from a copy, "
            "and see `shardward ledger check`"
        )
    others = [
        item.piece
        for item in run.pieces()
        if item.piece not in pieces and step_records(run, item.piece, step, set())
    ]
    names = ", ".join(str(piece) for piece in pieces)
    remedy = "see `shardward ledger timeline` for the steps there are"
    if others:
        known = ", ".join(str(piece) for piece in others)
        remedy = f"piece {known} has such a step: ask with --all, or with --branch {others[-1]}"
    return NotFound(f"step {step} has not been recorded in piece {names}; {remedy}")


def _lost(run: Run, pieces: Sequence[int], step: int) -> str | None:
    """Return in words why a record of `step` is thought to be lost, None if it is not."""
    items = run.pieces()
    for piece in pieces:
        item = items[piece - 1]
        for path in (
            run.journal_path(piece, rank, replica)
            for rank in range(item.dp_size)
            for replica in range(item.replicas)
        ):
            place = hiding_place(path, step)
            if place is not None and not (is_torn(path, place[0]) and is_written(run.path)):
                return f"journal {path.name} is damaged at bytes {place[0]} to {place[1]}"
        child = next((one for one in items if one.parent == piece and one.fork_step >= step), None)
        if child is not None:
            return (
                f"no journal of piece {piece} has step {step}, though piece {child.piece} went on "
                f"from step {child.fork_step}"
            )
    return None


def step_from_journals(
    run: Run, view: View, step: int, deriver: Deriver | None = None
) -> StepAnswer:
    """Return what `Ledger.step` would, without a database; for when another process has it.

    Raises:
        NotFound: the history does not reach the step, or nothing is recorded of it.
        IntegrityError: its record is lost.
    """
    pieces = owners(run, view, step)
    found: list[StepAnswer] = []
    for piece in pieces:
        records = step_records(run, piece, step, set())
        if records:
            ranks = {record.rank for record in records if record.replica == 0}
            delivery = Delivery.of(run.pieces()[piece - 1], ranks)
            rows = record_table(run, records, deriver)
            found.append(StepAnswer(rows=rows, deliveries=(delivery,)))
    if not found:
        raise not_recorded(run, pieces, step)
    return joined_answers(found)
