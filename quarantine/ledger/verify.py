"""Verify: read the corpus again and compare with the digests that the trainers recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ...loader.arrays import Int64Array, concatenate
from ...loader.lineage import Span
from ...loader.pieces import Piece
from ...loader.schedule import BatchSchedule
from .as_found import AsFound, ChangedDocument
from .database import Database
from .derive import Deriver
from .views import condition

RECORDS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A step of a rank whose documents today are not what was recorded.

    `document` is the first of them that changed, or None where every document is what was indexed:
    then it is not the corpus that differs, but what was recorded, or what follows from revision
    and plan.
    """

    piece: int
    step: int
    rank: int
    recorded: str
    found: str
    document: ChangedDocument | None

    def __str__(self) -> str:
        where = f"step {self.step} of piece {self.piece}, rank {self.rank}: "
        first = self.document
        if first is None:
            return (
                f"{where}every document is what was indexed, and yet the digest is {self.found}, "
                f"recorded is {self.recorded}: compare revision files and journals with a copy"
            )
        place = f"document {first.doc} (shard {first.shard}, row {first.row})"
        if first.among > 1:
            place = f"one of {first.among} documents, the first is {place},"
        return f"{where}{place} is no longer what was recorded: {first.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How many records were compared, and those that differ, in the order of steps."""

    records: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class _Record:
    rank: int
    digest: bytes
    positions: Int64Array


@dataclass(frozen=True, slots=True)
class _Step:
    piece: int
    step: int
    epoch: int
    ranks: list[_Record]


def verify(
    database: Database,
    deriver: Deriver,
    corpus: AsFound,
    pieces: Sequence[Piece],
    spans: tuple[Span, ...],
    *,
    stop_after: int = 1,
    advance: Callable[[int], object] | None = None,
) -> Verification:
    """Compare the recorded digests in `spans` with what the corpus holds now.

    Args:
        database: the recorded digests and positions.
        deriver: reads `corpus`.
        corpus: the run's corpus.
        pieces: all pieces of the run.
        spans: the steps to verify.
        stop_after: stop at this many differences.
        advance: called with 1 after each step.
    """
    records = 0
    differences: list[Difference] = []
    for one in _steps(database, spans):
        words = _found(database, deriver, pieces[one.piece - 1], one)
        records += len(one.ranks)
        differences += [
            Difference(
                piece=one.piece,
                step=one.step,
                rank=record.rank,
                recorded=record.digest.hex(),
                found=word,
                document=_first_changed(deriver, corpus, pieces[one.piece - 1], one, record),
            )
            for record, word in zip(one.ranks, words, strict=True)
            if record.digest.hex() != word
        ]
        if advance is not None:
            advance(1)
        if len(differences) >= stop_after:
            break
    return Verification(records=records, differences=tuple(differences[:stop_after]))


def _first_changed(
    deriver: Deriver, corpus: AsFound, piece: Piece, one: _Step, record: _Record
) -> ChangedDocument | None:
    rows = deriver.segments(piece, one.epoch, record.positions)
    return corpus.first_changed(rows["doc"].to_numpy())


def _found(database: Database, deriver: Deriver, piece: Piece, one: _Step) -> list[str]:
    """Return for each rank the digest that the corpus gives now."""
    positions = [record.positions for record in one.ranks]
    padding = padding_of(piece, one.step, [len(part) for part in positions])
    found = deriver.digests(piece, one.epoch, positions, padding)
    for index, record in enumerate(one.ranks):
        if found[index] == record.digest:
            continue
        blocks = lost_blocks(database, piece.piece, record.rank, one.step)
        if not blocks:
            continue
        # What was unreadable in training, and masked, may be readable now.
        part = slice(index, index + 1)
        (masked,) = deriver.digests(piece, one.epoch, positions[part], padding[part], lost=blocks)
        found[index] = masked if masked == record.digest else found[index]
    return [digest.hex() for digest in found]


def padding_of(piece: Piece, step: int, samples: Sequence[int]) -> list[int]:
    """Return how many rows of padding each rank of a step got beside its `samples`."""
    if piece.terms.get("end") != "pad":
        return [0] * len(samples)
    share = BatchSchedule.of(piece.terms["batch"]).size_at(step) // piece.dp_size
    return [share - count for count in samples]


def lost_blocks(database: Database, piece: int, rank: int, step: int) -> tuple[int, ...]:
    """Return the blocks that `rank` could not read in `piece` up to `step`, and masked."""
    rows = database.rows(
        "SELECT DISTINCT TRY_CAST(content->>'block' AS BIGINT) AS block FROM events "
        "WHERE piece = ? AND rank = ? AND step <= ? AND event = 'corrupt_block' "
        "AND block IS NOT NULL ORDER BY block",
        [piece, rank, step],
    )
    return tuple(int(block) for (block,) in rows)


def _steps(database: Database, spans: tuple[Span, ...]) -> Iterator[_Step]:
    """Yield the steps, with the records of their ranks, in order."""
    for first, last in _parts(database, spans):
        yield from _steps_between(database, spans, first, last)


def _parts(database: Database, spans: tuple[Span, ...]) -> Iterator[tuple[int, int]]:
    """Yield ranges of steps whose records together are few enough to be held in memory."""
    where = condition(spans)
    rows = database.rows(
        "SELECT min(step), max(step), count(*) FROM deliveries "  # noqa: S608 (numbers only)
        f"WHERE replica = 0 AND {where}"
    )
    first, last, records = rows[0]
    if not records:
        return
    share = max(1, RECORDS_AT_ONCE * (last - first + 1) // records)
    for low in range(first, last + 1, share):
        yield low, min(low + share - 1, last)


def _steps_between(
    database: Database, spans: tuple[Span, ...], first: int, last: int
) -> Iterator[_Step]:
    where = f"step BETWEEN {first} AND {last} AND {condition(spans)}"
    rows = database.rows(
        "SELECT piece, step, epoch, rank, digest, (SELECT list((r.first_position, r.samples) "  # noqa: S608
        "ORDER BY r.first_position) FROM sample_runs r WHERE r.piece = d.piece "
        "AND r.step = d.step AND r.rank = d.rank) FROM deliveries d "
        f"WHERE replica = 0 AND {where} ORDER BY step, piece, rank"
    )
    for (piece, step, epoch), group in groupby(rows, key=lambda row: row[:3]):
        ranks = [_Record(rank, digest, _positions(runs or [])) for *_, rank, digest, runs in group]
        yield _Step(piece, step, epoch, ranks)


def _positions(runs: Sequence[Sequence[int]]) -> Int64Array:
    return concatenate([np.arange(run[0], run[0] + run[1], dtype=np.int64) for run in runs])
