"""One window in memory: all its samples laid out once, any run of them handed out by slicing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array, UInt16Array
from .blocks import BlockData
from .exclusion import Exclusion
from .layout_plain import PlainLayout
from .layout_views import ViewLayout
from .order import EpochOrder
from .segments import Segments


class Window:
    """The decoded blocks of one window of one epoch, with the table of its samples.

    Rows are positions counted from the window's first.

    Args:
        order: the epoch's order.
        index: number of the window.
        blocks: in the order of `order.blocks(index)`; None for one that could not be read.
        codes: source code of each document, in the same order, one array per block.
        exclusion: the revision in force.
        dtype: of the tokens.

    Attributes:
        table: sample table.
        segments: delivered pieces of all rows, without lookahead; `sample` is the row.
        sources: uint16[k], source code of each of them.
        target_by_row, blanked_by_row: int64[rows], tokens delivered and taken out.
        size_by_row: int64[rows], tokens of each sample before exclusion.
        partial: whether a block could not be read, so that plan and revision do not tell what was
            delivered.
    """

    def __init__(
        self,
        order: EpochOrder,
        index: int,
        blocks: Sequence[BlockData | None],
        codes: Sequence[UInt16Array],
        *,
        exclusion: Exclusion,
        dtype: np.dtype[Any],
    ) -> None:
        plan = order.layout.plan
        self.table = order.window(index)
        self.nbytes = sum(block.values.nbytes for block in blocks if block is not None)
        positions = np.arange(self.table.first_position, self.table.end_position)
        reaching = self.table.segments(positions, lookahead=plan.lookahead)
        places = _Places(order, index)
        slots, rows = places.find(reaching.doc)
        blanked = exclusion.blanked(self.table, reaching, positions, order.epoch)
        self.partial = any(block is None for block in blocks)
        if self.partial:
            blanked |= np.array([block is None for block in blocks])[slots]
        inside = _without_lookahead(reaching, plan.seq_len) if plan.lookahead else reaching
        kept = ~blanked & (inside.end > inside.start)
        self.segments = inside if kept.all() else inside.select(kept)
        self.sources = _codes(codes, slots[kept], rows[kept])
        self._slices = self.segments.slices(positions.size)
        self.size_by_row = _sum_by_row(inside.tokens(), reaching.slices(positions.size))
        self.target_by_row = _sum_by_row(self.segments.tokens(), self._slices)
        self.blanked_by_row = self.size_by_row - self.target_by_row
        layout = PlainLayout if plan.seq_len is None else ViewLayout
        self._layout = layout(
            plan=plan,
            blocks=blocks,
            pieces=reaching,
            slots=slots,
            rows=rows,
            blanked=blanked,
            samples=positions.size,
            dtype=dtype,
        )

    def rows_of(self, positions: Int64Array) -> Int64Array:
        """Return the row of each position of this window, int64[n]."""
        return positions - self.table.first_position

    def tokens(self, low: int, high: int, out: NDArray[Any]) -> None:
        """Write the tokens of rows low..high-1 into `out`, [high - low, length], pad if blanked."""
        self._layout.tokens(low, high, out)

    def pieces(self, low: int, high: int) -> slice:
        """Return which of `segments` belong to rows low..high-1."""
        return slice(int(self._slices[low]), int(self._slices[high]))

    def mask(self, low: int, high: int, out: BoolArray) -> None:
        """Write into `out` where rows low..high-1 have a delivered token."""
        self._layout.mask(low, high, out)


def runs(rows: Int64Array) -> Iterator[tuple[int, int]]:
    """Yield (first, one past the last) of each run of consecutive values."""
    if not rows.size:
        return
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    for part in np.split(rows, cuts) if cuts.size else [rows]:
        yield int(part[0]), int(part[-1]) + 1


class _Places:
    """Where documents of a window lie: slot of the block, and row in it."""

    def __init__(self, order: EpochOrder, index: int) -> None:
        first = order.layout.geometry.first_document
        numbers = order.blocks(index)
        # An empty block starts where the next one does, and would hide it from a search.
        filled = np.flatnonzero(first[numbers + 1] > first[numbers])
        self._slots = filled[np.argsort(first[numbers[filled]])]
        self._first = first[numbers[self._slots]]

    def find(self, docs: Int64Array) -> tuple[Int64Array, Int64Array]:
        found = np.searchsorted(self._first, docs, side="right") - 1
        return self._slots[found], docs - self._first[found]


def _without_lookahead(segments: Segments, seq_len: int | None) -> Segments:
    """Cut pieces off at `seq_len`; those that begin after it become empty."""
    if seq_len is None:
        return segments
    limit = segments.start + np.maximum(seq_len - segments.offset, 0)
    return Segments(
        sample=segments.sample,
        doc=segments.doc,
        start=segments.start,
        end=np.minimum(segments.end, limit),
        offset=segments.offset,
    )


def _sum_by_row(tokens: Int64Array, slices: Int64Array) -> Int64Array:
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(tokens)])
    return np.diff(before[slices])


def _codes(codes: Sequence[UInt16Array], slots: Int64Array, rows: Int64Array) -> UInt16Array:
    first = np.cumsum([0, *(part.size for part in codes)])
    joined: UInt16Array = np.concatenate([*codes, np.empty(0, np.uint16)])
    return joined[first[slots] + rows]
