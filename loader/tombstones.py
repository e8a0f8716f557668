"""Rows of a rebuilt corpus in the coordinates of its parent: what was removed leaves its place.

A tombstone is a document whose number and length stay and whose content is gone. A block is read
as its survivors and spread again: text of a tombstone is empty, other columns are null, and its
tokens are filler, which the revision that left it out blanks. Pure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrays import Int64Array, UInt32Array
from .blocks import BlockData

Alive = npt.NDArray[np.bool_]


def spread_rows(table: pa.Table, alive: Alive) -> pa.Table:
    """Return `table`, one row for each survivor, with a row of nulls for each tombstone."""
    places = np.cumsum(alive) - 1
    return table.take(pa.array(places, pa.int64(), mask=~alive))


def spread_text(text: pa.Array, alive: Alive) -> pa.Array:
    """Return the texts of the survivors with an empty one for each tombstone."""
    places = pa.array(np.cumsum(alive) - 1, pa.int64(), mask=~alive)
    return text.take(places).fill_null("")


def spread_tokens(data: BlockData, alive: Alive, lengths: UInt32Array, filler: int) -> BlockData:
    """Return the survivors' tokens with `filler` for each token of a tombstone.

    Args:
        data: tokens of the survivors.
        alive: bool[documents] of the block.
        lengths: uint32[documents], tokens of every document that the block had.
        filler: token id.
    """
    sizes = lengths.astype(np.int64)
    sizes[alive] = data.lengths
    values = np.full(int(sizes.sum()), filler, data.values.dtype)
    values[np.repeat(alive, sizes)] = data.values
    return BlockData(values=values, offsets=_offsets(sizes))


def survivors(data: BlockData, alive: Alive) -> BlockData:
    """Return the documents of `data` that are alive."""
    sizes = data.lengths
    values = data.values[np.repeat(alive, sizes)]
    return BlockData(values=values, offsets=_offsets(sizes[alive]))


def _offsets(sizes: Int64Array) -> Int64Array:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
