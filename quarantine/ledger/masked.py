"""Blocks that one rank masked and another trained on, in pieces that recorded runs only.

Such a piece has rows of documents only where a rank masked a block. What the other ranks were given
follows from the plan, so this needs the manifest; `check` finds the same by one query where every
rank recorded its documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...loader.lineage import Span
from ...loader.pieces import Piece
from ...loader.records import DOCUMENTS
from .check import MASKED, Problem, masked_words
from .database import Database
from .derive import Deriver
from .documents import document_steps
from .views import condition


@dataclass(frozen=True, slots=True)
class _Lost:
    """A block that `rank` could not read in `piece`, first noted at step `since`."""

    piece: int
    rank: int
    block: int
    since: int


def masked_in_runs(
    database: Database, spans: tuple[Span, ...], pieces: Sequence[Piece], deriver: Deriver | None
) -> tuple[Problem, ...]:
    """Return a problem for each block that a rank masked and another trained on, at its first step.

    Args:
        database: the recorded steps and events.
        spans: the history.
        pieces: all pieces of the run.
        deriver: knows the documents of a step; without it a note says what is not known.
    """
    lost = list(_lost(database, spans))
    if deriver is None:
        return tuple(_unknown(one) for one in lost)
    found = (_problem(database, spans, pieces, deriver, one) for one in lost)
    return tuple(problem for problem in found if problem is not None)


def _lost(database: Database, spans: tuple[Span, ...]) -> Iterator[_Lost]:
    """Yield what some rank masked in those pieces that have other ranks and recorded runs."""
    for row in database.rows(
        "SELECT piece, rank, TRY_CAST(content->>'block' AS BIGINT) AS block, min(step) "  # noqa: S608
        f"FROM events WHERE {condition(spans)} AND event = 'corrupt_block' AND block IS NOT NULL "
        "AND piece IN (SELECT piece FROM pieces WHERE record = 'runs' AND dp_size > 1) "
        "GROUP BY piece, rank, block ORDER BY piece, rank, block"
    ):
        yield _Lost(*row)


def _problem(
    database: Database,
    spans: tuple[Span, ...],
    pieces: Sequence[Piece],
    deriver: Deriver,
    lost: _Lost,
) -> Problem | None:
    """Return the first step at which another rank trained on what this one masked."""
    own = tuple(span for span in spans if span.piece == lost.piece)
    fed = document_steps(database, deriver.block_documents(lost.block), own, pieces, deriver)
    # A step in which a rank masks something has its documents, whatever the piece records.
    dark = database.rows(
        "SELECT step FROM deliveries WHERE piece = ? AND rank = ? AND step >= ? AND record = ?",
        [lost.piece, lost.rank, lost.since, DOCUMENTS],
    )
    step, rank = (fed[name].to_numpy() for name in ("step", "rank"))
    told = np.flatnonzero((rank != lost.rank) & np.isin(step, [number for (number,) in dark]))
    if not told.size:
        return None
    first = told[np.lexsort((rank[told], step[told]))[0]]
    return Problem(
        kind=MASKED,
        serious=True,
        message=masked_words(
            rank=lost.rank, block=lost.block, reader=int(rank[first]), step=int(step[first])
        ),
        piece=lost.piece,
        step=int(step[first]),
        rank=lost.rank,
    )


def _unknown(lost: _Lost) -> Problem:
    return Problem(
        kind=MASKED,
        serious=False,
        message=f"rank {lost.rank} could not read block {lost.block} and masked it from step "
        f"{lost.since} on; whether other ranks trained on its documents follows from the corpus "
        "manifest, which is not there: give it with --manifest",
        piece=lost.piece,
        step=lost.since,
        rank=lost.rank,
    )
