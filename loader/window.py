"""One window in memory: any of its samples as rows of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array, UInt16Array, members
from .blocks import BlockData
from .exclusion import Exclusion
from .order import EpochOrder
from .segments import Segments


class Window:
    """The decoded blocks of one window of one epoch, with the table of its samples.

    Args:
        order: the epoch's order.
        index: number of the window.
        blocks: in the order of `order.blocks(index)`; None for one that could not be read.
        codes: source code of each document, in the same order, one array per block.

    Attributes:
        table: sample table.
        lost: int64[n], sorted ordinals of documents in blocks that could not be read.
    """

    def __init__(
        self,
        order: EpochOrder,
        index: int,
        blocks: Sequence[BlockData | None],
        codes: Sequence[UInt16Array],
    ) -> None:
        self.index = index
        self._order = order
        self.epoch = order.epoch
        self.plan = order.layout.plan
        self.table = order.window(index)
        self._blocks = blocks
        self._codes = codes
        first = order.layout.geometry.first_document
        numbers = order.blocks(index)
        # An empty block starts where the next one does, and would hide it from a search.
        filled = np.flatnonzero(first[numbers + 1] > first[numbers])
        self._slot_order = filled[np.argsort(first[numbers[filled]])]
        self._slot_first = first[numbers[self._slot_order]]
        gone = [number for number, block in zip(numbers, blocks, strict=True) if block is None]
        parts = [np.arange(first[number], first[number + 1]) for number in sorted(gone)]
        self.lost = np.concatenate(parts) if parts else np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded tokens."""
        return sum(block.values.nbytes for block in self._blocks if block is not None)

    def segments(self, positions: Int64Array) -> Segments:
        """Return the pieces at `positions`, the lookahead token included."""
        return self.table.segments(positions, lookahead=self.plan.lookahead)

    def blanked(self, segments: Segments, positions: Int64Array, exclusion: Exclusion) -> BoolArray:
        """Return which segments are excluded or lost, bool[k]."""
        blanked = exclusion.blanked(segments, positions, self.epoch)
        if self.lost.size:
            blanked |= members(segments.doc, self.lost)
        return blanked

    def delivered_tokens(self, positions: Int64Array, exclusion: Exclusion) -> int:
        """Return how many tokens of the samples at `positions` count in the loss."""
        if not self.lost.size and not exclusion.touches(self._order, self.index):
            return int(self._sample_sizes(positions).sum())
        segments = self.table.segments(positions)
        kept = ~self.blanked(segments, positions, exclusion)
        return int(segments.tokens()[kept].sum())

    def sources(self, docs: Int64Array) -> UInt16Array:
        """Return the source code of each document, uint16[k]."""
        slots, rows = self._place(docs)
        codes = np.empty(docs.size, np.uint16)
        for slot in np.unique(slots):
            chosen = slots == slot
            codes[chosen] = self._codes[slot][rows[chosen]]
        return codes

    def fill(self, tokens: NDArray[Any], segments: Segments) -> None:
        """Write the tokens of `segments` into rows `segments.sample` of `tokens`.

        Args:
            tokens: [n, length], filled with pad already.
            segments: delivered pieces of this window.
        """
        slots, rows = self._place(segments.doc)
        flat, length = tokens.reshape(-1), tokens.shape[1]
        at = segments.sample * length + segments.offset
        begin, count, ends_in_separator = self._spans(segments, slots, rows)
        for slot, source, target, size in zip(
            slots.tolist(), begin.tolist(), at.tolist(), count.tolist(), strict=True
        ):
            block = self._blocks[slot]
            if size and block is not None:
                flat[target : target + size] = block.values[source : source + size]
        if self.plan.separator is not None:
            flat[(at + count)[ends_in_separator]] = self.plan.separator

    def _spans(
        self, segments: Segments, slots: Int64Array, rows: Int64Array
    ) -> tuple[Int64Array, Int64Array, BoolArray]:
        """Return (first value in its block, values, whether a separator follows) per segment."""
        base, size = np.zeros(len(segments), np.int64), np.zeros(len(segments), np.int64)
        for slot in np.unique(slots):
            block, chosen = self._blocks[slot], slots == slot
            if block is not None:
                base[chosen] = block.offsets[rows[chosen]]
                size[chosen] = block.offsets[rows[chosen] + 1] - base[chosen]
        ends_in_separator = segments.end > size
        return base + segments.start, segments.tokens() - ends_in_separator, ends_in_separator

    def _sample_sizes(self, positions: Int64Array) -> Int64Array:
        samples = self.table.stream_samples(positions)
        if self.plan.seq_len is None:
            sizes: Int64Array = np.diff(self.table.stream_starts)[samples]
            return sizes
        left = self.table.stream_tokens - samples * self.plan.seq_len
        return np.minimum(left, self.plan.seq_len)

    def _place(self, docs: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return (slot of the block, row in it) of each document."""
        found = np.searchsorted(self._slot_first, docs, side="right") - 1
        return self._slot_order[found], docs - self._slot_first[found]
