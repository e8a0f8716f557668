"""Verify: read the corpus again and compare with the digests that the trainers recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ...loader.arrays import Int64Array, concatenate
from ...loader.errors import CorruptBlock
from ...loader.lineage import Span
from ...loader.pieces import Piece
from .database import Database
from .derive import Deriver
from .views import condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A step of a rank whose documents today are not what was recorded."""

    piece: int
    step: int
    rank: int
    recorded: str
    found: str


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


def verify(
    database: Database,
    deriver: Deriver,
    pieces: Sequence[Piece],
    spans: tuple[Span, ...],
    *,
    stop_after: int = 1,
    advance: Callable[[int], object] | None = None,
) -> Verification:
    """Compare the recorded digests in `spans` with what the corpus holds now.

    Args:
        database: the recorded digests and positions.
        deriver: reads the corpus.
        pieces: all pieces of the run.
        spans: the steps to verify.
        stop_after: stop at this many differences.
        advance: called with 1 after each step.
    """
    records = 0
    differences: list[Difference] = []
    before = 0
    for piece, step, epoch, ranks in _steps(database, spans):
        most = max(len(record.positions) for record in ranks)
        padding = _padding(ranks, max(most, before))
        before = most
        try:
            found = deriver.digests(
                pieces[piece - 1], epoch, [record.positions for record in ranks], padding
            )
            # A step that is short on all ranks was padded, or the batch became smaller.
            if found != [record.digest for record in ranks] and any(padding):
                unpadded = deriver.digests(
                    pieces[piece - 1], epoch, [r.positions for r in ranks], _padding(ranks, most)
                )
                found = unpadded if unpadded == [r.digest for r in ranks] else found
            words = [digest.hex() for digest in found]
        except CorruptBlock as error:
            words = [str(error)] * len(ranks)
        records += len(ranks)
        differences += [
            Difference(
                piece=piece, step=step, rank=record.rank, recorded=record.digest.hex(), found=word
            )
            for record, word in zip(ranks, words, strict=True)
            if record.digest.hex() != word
        ]
        if advance is not None:
            advance(1)
        if len(differences) >= stop_after:
            break
    return Verification(records=records, differences=tuple(differences[:stop_after]))


def _padding(ranks: Sequence[_Record], size: int) -> list[int]:
    return [size - len(record.positions) for record in ranks]


def _steps(
    database: Database, spans: tuple[Span, ...]
) -> Iterator[tuple[int, int, int, list[_Record]]]:
    """Yield (piece, step, epoch, records of its ranks) in the order of steps."""
    where = condition(spans)
    rows = database.rows(
        "SELECT piece, step, epoch, rank, digest, (SELECT list((r.first_position, r.samples) "  # noqa: S608
        "ORDER BY r.first_position) FROM sample_runs r WHERE r.piece = d.piece "
        "AND r.step = d.step AND r.rank = d.rank) FROM deliveries d "
        f"WHERE replica = 0 AND {where} ORDER BY step, piece, rank"
    )
    for (piece, step, epoch), group in groupby(rows, key=lambda row: row[:3]):
        yield (
            piece,
            step,
            epoch,
            [_Record(rank, digest, _positions(runs or [])) for *_, rank, digest, runs in group],
        )


def _positions(runs: Sequence[Sequence[int]]) -> Int64Array:
    return concatenate([np.arange(run[0], run[0] + run[1], dtype=np.int64) for run in runs])
