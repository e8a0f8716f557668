"""Answers about steps: from the database, and for unread steps straight from the journals."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ...loader.arrays import Int64Array, concatenate
from ...loader.digest import add_digests
from ...loader.errors import IntegrityError, NotFound
from ...loader.journal_lookup import find_step
from ...loader.lineage import Span, owner
from ...loader.pieces import Piece
from ...loader.records import RUNS, DeliveredRecord
from ...loader.run import Run
from .database import Database
from .derive import Deriver
from .views import View, condition, window

STEP_DOCUMENTS = pa.schema(
    {
        "step": pa.int64(),
        "piece": pa.int64(),
        "rank": pa.int64(),
        "epoch": pa.int64(),
        "sample_position": pa.int64(),
        "doc": pa.int64(),
        "token_start": pa.int64(),
        "token_end": pa.int64(),
    }
)
_STEP_QUERY = (
    "SELECT step, piece, epoch, first_position, end_position, ranks, dp_size, complete, "
    "completed, completed_ranks, samples, segments, target_tokens, blanked_tokens, mode, record, "
    "revision, time "
    "FROM all_steps WHERE "
)


def owners(run: Run, view: View, step: int) -> tuple[int, ...]:
    """Return the pieces of `view` that own `step`: one, or several in the view of everything.

    Raises:
        NotFound: the history does not reach the step.
    """
    spans = view.spans(run)
    if view.everything:
        found = tuple(span.piece for span in spans if step in span)
    else:
        one = owner(spans, step)
        found = () if one is None else (one.piece,)
    if not found:
        raise NotFound(
            f"step {step} is not in this history, which covers {describe(spans)}; "
            "ask with --all for every branch"
        )
    return found


def describe(spans: Iterable[Span]) -> str:
    """Return the spans in words."""
    words = [
        f"steps {span.first} to {'now' if span.last is None else span.last} of piece {span.piece}"
        for span in spans
    ]
    return ", ".join(words) or "no step yet"


def step_records(run: Run, piece: int, step: int, without: set[int]) -> list[DeliveredRecord]:
    """Return what the journals record for `step` of `piece`, by rank and replica.

    Args:
        run: whose journals are read.
        piece, step: the step.
        without: ranks that are not asked for.

    Raises:
        IntegrityError: two replicas of one rank recorded different data.
    """
    item = run.pieces()[piece - 1]
    found = [
        find_step(run.journal_path(piece, rank, replica), step)
        for rank in range(item.dp_size)
        if rank not in without
        for replica in range(item.replicas)
    ]
    records = [record for record in found if record is not None]
    _compare(piece, step, [(record.rank, record.digest) for record in records])
    return records


def _compare(piece: int, step: int, digests: Iterable[tuple[int, bytes]]) -> None:
    first: dict[int, bytes] = {}
    for rank, digest in digests:
        if first.setdefault(rank, digest) != digest:
            raise IntegrityError(
                f"replicas of rank {rank} recorded different data for step {step} of piece "
                f"{piece}; one of them read or computed wrongly: compare their journals and hosts"
            )


def record_table(run: Run, records: Iterable[DeliveredRecord], deriver: Deriver | None) -> pa.Table:
    """Return the segments of replica 0 of `records` as rows like those of `step_documents`.

    Raises:
        NotFound: a record holds runs only, and there is no manifest to derive from.
    """
    pieces = run.pieces()
    parts = [
        _segments(pieces[record.piece - 1], record, deriver)
        for record in records
        if record.replica == 0
    ]
    return pa.concat_tables(parts) if parts else STEP_DOCUMENTS.empty_table()


def _segments(piece: Piece, record: DeliveredRecord, deriver: Deriver | None) -> pa.Table:
    if record.record == RUNS:
        return derived_rows(
            piece,
            step=record.step,
            rank=record.rank,
            epoch=record.epoch,
            positions=record.positions,
            deriver=deriver,
        )
    keys = (record.step, record.piece, record.rank, record.epoch)
    return pa.table(
        [np.full(len(record.doc), value, dtype=np.int64) for value in keys]
        + [record.sample_positions(), record.doc, record.token_start, record.token_end],
        schema=STEP_DOCUMENTS,
    )


def derived_rows(
    piece: Piece,
    *,
    step: int,
    rank: int,
    epoch: int,
    positions: Int64Array,
    deriver: Deriver | None,
) -> pa.Table:
    """Return what a record of runs stands for, worked out from plan, revision and positions.

    Raises:
        NotFound: there is no manifest to derive from.
    """
    if deriver is None:
        raise NotFound(
            f"piece {piece.piece} recorded runs only, so its documents follow from the corpus "
            "manifest, which is not there; give it with --manifest"
        )
    rows = deriver.segments(piece, epoch, positions)
    for index, value in enumerate((step, piece.piece, rank)):
        name = STEP_DOCUMENTS.names[index]
        rows = rows.add_column(index, name, pa.array(np.full(rows.num_rows, value, np.int64)))
    return rows


def derivable_positions(
    database: Database, piece: int, step: int
) -> list[tuple[int, int, Int64Array]]:
    """Return (rank, epoch, sample positions) of the ingested ranks that recorded runs only.

    A rank that could not read a block records documents at such steps, whatever its piece does.
    """
    found: dict[tuple[int, int], list[Int64Array]] = {}
    for rank, epoch, first, samples in database.rows(
        "SELECT r.rank, r.epoch, r.first_position, r.samples FROM sample_runs r "
        "JOIN deliveries d USING (piece, step, rank) "
        "WHERE r.piece = ? AND r.step = ? AND d.replica = 0 AND d.record = ? "
        "ORDER BY r.rank, r.first_position",
        [piece, step, RUNS],
    ):
        run = np.arange(first, first + samples, dtype=np.int64)
        found.setdefault((rank, epoch), []).append(run)
    return [(rank, epoch, concatenate(parts)) for (rank, epoch), parts in found.items()]


def steps_table(database: Database, spans: tuple[Span, ...], first: int, last: int) -> pa.Table:
    """Return one row per step in `first`..`last` with its counts and the digest of all ranks."""
    spans = window(spans, first, last)
    where = condition(spans)
    table = database.table(_STEP_QUERY + where + " ORDER BY step, piece")
    digests = _digests(database, where)
    keys = zip(table["piece"].to_pylist(), table["step"].to_pylist(), strict=True)
    return table.append_column("digest", pa.array([digests[key] for key in keys], pa.binary()))


def recorded_ranks(database: Database, piece: int, step: int) -> set[int]:
    """Return the ranks of `piece` whose record of `step` is in the database.

    Raises:
        IntegrityError: two replicas of one rank recorded different data.
    """
    rows = database.rows(
        "SELECT rank, replica, digest FROM deliveries WHERE piece = ? AND step = ?", [piece, step]
    )
    _compare(piece, step, [(rank, digest) for rank, _, digest in rows])
    return {rank for rank, replica, _ in rows if replica == 0}


def _digests(database: Database, where: str) -> dict[tuple[int, int], bytes]:
    rows = database.rows(
        "SELECT piece, step, list(digest) FROM deliveries "  # noqa: S608 (numbers only)
        f"WHERE replica = 0 AND {where} GROUP BY piece, step"
    )
    return {
        (piece, step): add_digests(*(int.from_bytes(one) for one in found)).to_bytes(16)
        for piece, step, found in rows
    }
