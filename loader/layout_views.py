"""Rows of tokens by views: a whole window is laid out once, and Arrow copies the runs.

Each piece of a document is one 16-byte Arrow binary view (length, prefix, buffer, offset) into the
decoded block; a separator is a view of its own, held inline; padding and blanked pieces are views
into a buffer of pad tokens. Views stand in the order of delivery, so a run of rows is a slice of
them, and casting the slice to large_binary copies its bytes end to end in compiled code, without
the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array
from .blocks import BlockData
from .layout_plain import document_spans, fill_mask
from .plan import Plan
from .segments import Segments

INLINE = 12
"""Bytes that a view holds itself; Arrow requires shorter values to be inline."""
MAX_BUFFER = (1 << 31) - 1
HALF_BUFFER = 1 << 30
COPIED = 1 << 19
"""Bytes that Arrow copies at a time: they are still in the cache when they go to their place."""

_VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])


class ViewLayout:
    """All samples of a window as views. Arguments as in `PlainLayout`; the plan is packed."""

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
        assert plan.seq_len is not None
        self._dtype = dtype
        self._length = plan.seq_len + plan.lookahead
        self._pieces, self._blanked = pieces, blanked
        self._slices = slices = pieces.slices(samples)
        size = np.diff(np.concatenate([[0], np.cumsum(pieces.tokens())])[slices])
        self._whole = size == self._length
        self._whole[pieces.sample[blanked]] = False
        # Views per row: two for each piece (its tokens, its separator), one for padding.
        self._first_view = 2 * slices + np.arange(samples + 1)
        views = np.zeros(int(self._first_view[-1]), _VIEW)
        number = np.arange(len(pieces))
        at = self._first_view[pieces.sample] + 2 * (number - slices[pieces.sample])
        base, sizes = document_spans(blocks, slots, rows)
        ends = (pieces.end > sizes) & ~blanked
        count = pieces.tokens() - ends
        writer = _ViewWriter(blocks, plan.pad, self._length, dtype)
        first = np.where(blanked, 0, base + pieces.start)
        writer.write(views, at, np.where(blanked, len(blocks), slots), first, count)
        if plan.separator is not None:
            views["length"][at + 1] = ends * dtype.itemsize
            views["prefix"][at + 1] = ends * plan.separator
        last = self._first_view[1:] - 1
        pad = np.full(samples, len(blocks), np.int64)
        writer.write(views, last, pad, np.zeros(samples, np.int64), self._length - size)
        self._array = pa.Array.from_buffers(
            pa.binary_view(), len(views), [None, pa.py_buffer(views), *writer.buffers]
        )

    def tokens(self, low: int, high: int, out: NDArray[Any]) -> None:
        """Write rows low..high-1 into `out`, [high - low, length]."""
        assert out.shape[1] == self._length
        share = max(1, COPIED // (self._length * self._dtype.itemsize))
        for row in range(low, high, share):
            rows = out[row - low : row - low + share]
            first, last = (int(self._first_view[n]) for n in (row, row + len(rows)))
            view = self._array.slice(first, last - first)
            data = pc.cast(view, pa.large_binary()).buffers()[2]
            rows[:] = np.frombuffer(data, self._dtype, rows.size).reshape(rows.shape)

    def mask(self, low: int, high: int, out: BoolArray) -> None:
        """Write into `out` where rows low..high-1 have a token that was not blanked."""
        if self._whole[low:high].all():
            out.fill(True)
            return
        chosen = slice(int(self._slices[low]), int(self._slices[high]))
        fill_mask(self._pieces, ~self._blanked, chosen, low, out)


class _ViewWriter:
    """Fills views over the blocks' buffers; slot `len(blocks)` is a run of pad tokens."""

    def __init__(
        self, blocks: Sequence[BlockData | None], pad: int, length: int, dtype: np.dtype[Any]
    ) -> None:
        self._item = dtype.itemsize
        padding = np.full(length, pad, dtype)
        values = [padding[:0] if block is None else block.values for block in blocks]
        self._values = [np.ascontiguousarray(part, dtype) for part in [*values, padding]]
        self._first_buffer, self.buffers = _cut(self._values)

    def write(
        self,
        views: NDArray[Any],
        at: Int64Array,
        slots: Int64Array,
        first: Int64Array,
        count: Int64Array,
    ) -> None:
        """Let view `at[i]` stand for values first[i]..first[i]+count[i]-1 of slot `slots[i]`."""
        size = count * self._item
        views["length"][at] = size
        long = np.flatnonzero(size > INLINE)
        offset = first[long] * self._item
        views["buffer"][at[long]] = self._first_buffer[slots[long]] + offset // HALF_BUFFER
        views["offset"][at[long]] = offset % HALF_BUFFER
        short = np.flatnonzero((size > 0) & (size <= INLINE))
        inline = views.view(np.uint8).reshape(-1, _VIEW.itemsize)
        columns = (at[short], slots[short], first[short], count[short])
        for view, slot, start, number in zip(*(c.tolist() for c in columns), strict=True):
            piece = self._values[slot][start : start + number].view(np.uint8)
            inline[view, 4 : 4 + piece.size] = piece


def _cut(values: Sequence[NDArray[Any]]) -> tuple[Int64Array, list[pa.Buffer]]:
    """Return (first buffer of each array, buffers).

    Offsets are 31 bits, so an array is cut into buffers that start every 2^30 bytes and overlap by
    as much: a piece shorter than 2^30 bytes lies whole in the buffer where it starts.
    """
    buffers: list[pa.Buffer] = []
    first = np.zeros(len(values), np.int64)
    for number, array in enumerate(values):
        first[number] = len(buffers)
        whole = pa.py_buffer(array)
        starts = range(0, max(whole.size, 1), HALF_BUFFER)
        buffers += [whole.slice(start, min(MAX_BUFFER, whole.size - start)) for start in starts]
    return first, buffers
