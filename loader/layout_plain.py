"""Rows of tokens by copying one piece after the other: the obvious way, for any sample length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array
from .blocks import BlockData
from .plan import Plan
from .segments import Segments


class PlainLayout:
    """All samples of a window; a run of rows is copied out when it is asked for.

    Args:
        plan: gives separator and pad.
        blocks: decoded blocks by slot, None for unreadable ones.
        pieces: segments of all rows, lookahead included, blanked ones too.
        slots, rows: int64[k], block and row in it of each piece's document.
        blanked: bool[k], pieces to leave as pad.
        samples: number of rows.
        dtype: of the tokens.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        blocks: Sequence[BlockData | None],
        pieces: Segments,
        slots: Int64Array,
        rows: Int64Array,
        blanked: BoolArray,
        samples: int,
        dtype: np.dtype[Any],
    ) -> None:
        self._plan = plan
        self._blocks = blocks
        self._dtype = dtype
        kept = ~blanked
        self._pieces = pieces.select(kept)
        self._slots = slots[kept]
        base, size = document_spans(blocks, self._slots, rows[kept])
        self._separator = self._pieces.end > size
        self._first = base + self._pieces.start
        self._count = self._pieces.tokens() - self._separator
        self._slices = self._pieces.slices(samples)

    def tokens(self, low: int, high: int, out: NDArray[Any]) -> None:
        """Write rows low..high-1 into `out`, [high - low, length]."""
        length = out.shape[1]
        tokens = out.reshape(-1)
        tokens.fill(self._plan.pad)
        chosen = slice(int(self._slices[low]), int(self._slices[high]))
        at = self._begin(low, chosen, length)
        count = self._count[chosen]
        columns = (self._slots[chosen], self._first[chosen], at, count)
        for slot, source, target, size in zip(*(c.tolist() for c in columns), strict=True):
            block = self._blocks[slot]
            if size and block is not None:
                tokens[target : target + size] = block.values[source : source + size]
        if self._plan.separator is not None:
            tokens[(at + count)[self._separator[chosen]]] = self._plan.separator

    def mask(self, low: int, high: int, out: BoolArray) -> None:
        """Write into `out` where rows low..high-1 have a token that was not blanked."""
        chosen = slice(int(self._slices[low]), int(self._slices[high]))
        everything = np.ones(len(self._pieces), np.bool_)
        fill_mask(self._pieces, everything, chosen, low, out)

    def _begin(self, low: int, chosen: slice, length: int) -> Int64Array:
        return (self._pieces.sample[chosen] - low) * length + self._pieces.offset[chosen]


def fill_mask(pieces: Segments, kept: BoolArray, chosen: slice, low: int, out: BoolArray) -> None:
    """Set `out` to where one of the `chosen` pieces that are `kept` lies; its row 0 is `low`."""
    mask, length = out.reshape(-1), out.shape[1]
    mask.fill(False)
    begin = (pieces.sample[chosen] - low) * length + pieces.offset[chosen]
    end = begin + pieces.end[chosen] - pieces.start[chosen]
    keep = kept[chosen]
    for first, last in zip(begin[keep].tolist(), end[keep].tolist(), strict=True):
        mask[first:last] = True


def document_spans(
    blocks: Sequence[BlockData | None], slots: Int64Array, rows: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return (first value in its block, number of values) of each piece's document, int64[k]."""
    sizes = [0 if block is None else block.offsets.size for block in blocks]
    first = np.cumsum([0, *sizes])
    offsets = np.concatenate(
        [*(block.offsets for block in blocks if block is not None), np.zeros(1, np.int64)]
    )
    at = first[slots] + rows
    if all(block is not None for block in blocks):
        base = offsets[at]
        return base, offsets[at + 1] - base
    lost = np.array([block is None for block in blocks], dtype=np.bool_)[slots]
    at = np.where(lost, 0, at)
    base = offsets[at]
    size = np.where(lost, 0, offsets[np.minimum(at + 1, offsets.size - 1)] - base)
    return base, size
