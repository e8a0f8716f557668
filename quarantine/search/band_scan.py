"""Candidates: which rows of an index share a band with the query, or agree in their signature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .kernels_search import mark_members, similar_pairs

PAIRS_AT_ONCE = 1 << 20


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
        mark_members(column, members.bitmap, members.shift, members.table, members.mask, marks)
    return np.flatnonzero(marks)


def agreeing_pairs(
    low: NDArray[np.uint8], rows: NDArray[np.int64], query: NDArray[np.uint8], least: int
) -> NDArray[np.int64]:
    """Return int64[P, 2]: (row, query place) whose signatures agree in `least` slots or more."""
    step = max(1, PAIRS_AT_ONCE // max(1, len(query)))
    found = [np.zeros((0, 2), dtype=np.int64)]
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        pairs = np.empty((len(part) * len(query), 2), dtype=np.int64)
        count = similar_pairs(low, part, query, np.uint32(least), pairs)
        found.append(pairs[: int(count)].copy())
    return np.concatenate(found)
