"""Candidates: which rows of an index share a band with the query, or agree in their signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels_search import best_places, mark_members

ROWS_AT_ONCE = 1 << 16
PLACES = 8
"""Query documents that a candidate is compared with: those whose signatures agree most."""
MOST_CANDIDATES = 1 << 20
"""Candidates of one shard whose text is read; a search says how many more there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSet:
    """A set of uint32 values as a bitmap over their top bits and an open-addressing table."""

    bitmap: NDArray[np.uint64]
    shift: np.uint32
    table: NDArray[np.uint64]
    mask: np.uint32


def value_set(values: NDArray[np.uint32]) -> ValueSet:
    """Return the set of `values`; the bitmap is kept within the second-level cache."""
    distinct = np.unique(values)
    bits = 16 if distinct.size < 2000 else 20 if distinct.size < 60_000 else 24
    shift = np.uint32(32 - bits)
    tops = (distinct >> shift).astype(np.int64)
    bitmap = np.zeros(1 << (bits - 6), dtype=np.uint64)
    np.bitwise_or.at(bitmap, tops >> 6, np.uint64(1) << (tops & 63).astype(np.uint64))
    size = 1 << max(4, int(4 * distinct.size - 1).bit_length())
    table = np.zeros(size, dtype=np.uint64)
    for value in distinct.tolist():
        slot = (value * 0x9E3779B1 & 0xFFFFFFFF) >> 8 & (size - 1)
        while table[slot]:
            slot = (slot + 1) & (size - 1)
        table[slot] = 1 << 32 | value
    return ValueSet(bitmap=bitmap, shift=shift, table=table, mask=np.uint32(size - 1))


def rows_sharing_a_band(
    bands: tuple[NDArray[np.uint32], ...], sets: tuple[ValueSet, ...]
) -> NDArray[np.int64]:
    """Return the sorted rows whose value in some band, uint32[N] each, is in its set."""
    marks = np.zeros(len(bands[0]), dtype=np.uint8)
    for column, members in zip(bands, sets, strict=True):
        column = _fixed(column)  # noqa: PLW2901
        mark_members(column, members.bitmap, members.shift, members.table, members.mask, marks)
    return np.flatnonzero(marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Rows whose signature agrees with one of the query's.

    Attributes:
        rows: int64[C], ascending.
        places: int32[C, PLACES], the query places that agree most, the best first, then -1.
        cut: how many rows more there were, of which none agrees better than those kept.
    """

    rows: NDArray[np.int64]
    places: NDArray[np.int32]
    cut: int


def agreeing_rows(
    low: NDArray[np.uint8],
    rows: NDArray[np.int64],
    query: NDArray[np.uint8],
    least: int,
    *,
    most: int = MOST_CANDIDATES,
) -> Candidates:
    """Return the rows out of `rows` that agree with a query signature in `least` slots or more.

    `low` is uint8[N, 128], `query` uint8[Q, 128]. Of more than `most` rows the best are kept.
    """
    low, query = _fixed(low), _fixed(query)
    found = [(np.zeros(0, np.int64), np.zeros((0, PLACES), np.int32), np.zeros(0, np.uint8))]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        places = np.full((len(part), PLACES), -1, dtype=np.int32)
        equals = np.zeros((len(part), PLACES), dtype=np.uint8)
        best_places(low, part, query, np.uint32(least), places, equals)
        agree = np.flatnonzero(places[:, 0] >= 0)
        found.append((part[agree], places[agree], equals[agree, 0]))
    kept, places, equals = (np.concatenate(column) for column in zip(*found, strict=True))
    cut = max(0, len(kept) - most)
    if cut:
        best = np.sort(np.argsort(-equals.astype(np.int16), kind="stable")[:most])
        kept, places = kept[best], places[best]
    return Candidates(rows=kept, places=places, cut=cut)


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view: one kind of array for the kernels, mapped or not."""
    view = array.view()
    view.flags.writeable = False
    return view
