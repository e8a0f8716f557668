"""Kernels that compare a small query with the columns of an index."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Int32s, Int64s, Number, UInt8s, UInt32s, UInt64s, kernel

U32 = np.uint32
U64 = np.uint64
SPREAD = U32(0x9E3779B1)
USED = U64(1 << 32)


@kernel
def mark_members(
    column: UInt32s,
    bitmap: UInt64s,
    shift: Number,
    table: UInt64s,
    mask: Number,
    marks: UInt8s,
) -> None:
    """Set `marks[i]` where `column[i]` is in the set of `bitmap` (a filter) and `table` (exact).

    The bitmap is indexed by the value's top bits, the table by open addressing; an entry is the
    value with bit 32 set.
    """
    for i in range(U64(column.size)):
        value = column[i]
        top = value >> shift
        if (bitmap[top >> U32(6)] >> U64(top & U32(63))) & U64(1):
            slot = (value * SPREAD >> U32(8)) & mask
            while table[slot] != U64(0):
                if table[slot] == (USED | U64(value)):
                    marks[i] = np.uint8(1)
                    break
                slot = (slot + U32(1)) & mask


@kernel
def best_places(
    low: UInt8s,
    rows: Int64s,
    query: UInt8s,
    least: Number,
    places: Int32s,
    equals: UInt8s,
) -> None:
    """Find for each row the query signatures that agree most, in `least` bytes or more.

    `places` int32[R, T] gets their places, the best first and of equals the first, -1 where there
    are no more; `equals` uint8[R, T] how many bytes agree.
    """
    width = U64(low.shape[1])
    kept = places.shape[1]
    for i in range(rows.size):
        row = low[rows[i]]
        for j in range(query.shape[0]):
            other = query[j]
            equal = np.uint32(0)
            for q in range(width):
                equal += np.uint32(row[q] == other[q])
            if equal < least or equal <= equals[i, kept - 1]:
                continue
            place = kept - 1
            while place > 0 and equals[i, place - 1] < equal:
                equals[i, place] = equals[i, place - 1]
                places[i, place] = places[i, place - 1]
                place -= 1
            equals[i, place] = np.uint8(equal)
            places[i, place] = np.int32(j)
