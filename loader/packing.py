"""The sample table of one window: which pieces of which documents each position holds.

The window's documents are shuffled, laid end to end with the separator, cut into `seq_len`, and the
cut samples are shuffled again. Every lookup is arithmetic on cumulative lengths; nothing is
replayed. In document mode a sample is one whole document.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .arrays import BoolArray, Int64Array
from .permutation import Permutation
from .plan import Plan
from .segments import Segments


class WindowTable:
    """Positions, segments and documents of one window of one epoch.

    Args:
        plan: the plan that the order belongs to.
        first_position: of the window in its epoch.
        docs: int64[n], ordinals in block order; sorted within each block.
        lengths: int64[n], their tokens without separators.
        held_out: bool[n], documents that training never sees.
        document_key, sample_key: keys of the two shuffles.

    Attributes:
        stream_docs: int64[m], the documents in stream order.
        stream_starts: int64[m + 1], where each begins in the stream; the last is its length.
        samples: number of samples in the window.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        first_position: int,
        docs: Int64Array,
        lengths: Int64Array,
        held_out: BoolArray,
        document_key: int,
        sample_key: int,
    ) -> None:
        self.plan = plan
        self.first_position = first_position
        shuffled = Permutation(docs.size, document_key).all()
        streamed = lengths + plan.separator_tokens
        # A document without a token has no place in a packed stream, but is a sample by itself.
        present = ~held_out if plan.seq_len is None else ~held_out & (streamed > 0)
        shuffled = shuffled[present[shuffled]]
        self.stream_local = shuffled
        self._docs = docs
        self.stream_docs = docs[shuffled]
        self.stream_starts = np.zeros(shuffled.size + 1, dtype=np.int64)
        np.cumsum(streamed[shuffled], out=self.stream_starts[1:])
        self.samples = (
            shuffled.size if plan.seq_len is None else -(-self.stream_tokens // plan.seq_len)
        )
        # Documents of a window are already shuffled, so only cut samples need a second shuffle.
        self._sample_order = None if plan.seq_len is None else Permutation(self.samples, sample_key)

    @property
    def stream_tokens(self) -> int:
        """Tokens in the window's stream, separators included, padding not."""
        return int(self.stream_starts[-1])

    @property
    def end_position(self) -> int:
        """One past the window's last position."""
        return self.first_position + self.samples

    @cached_property
    def runs(self) -> Int64Array:
        """First and last ordinal of each run of documents that follow one another, int64[2, k]."""
        starts = np.flatnonzero(np.diff(self._docs, prepend=-2) != 1)
        # Before the first start stands, by index -1, the end of the last run.
        first, last = self._docs[starts], np.roll(self._docs[starts - 1], -1)
        return np.stack([first, last])

    def stream_samples(self, positions: Int64Array) -> Int64Array:
        """Return where each position's sample stands in the stream, int64[n] in [0, samples)."""
        rows = positions - self.first_position
        return rows if self._sample_order is None else self._sample_order.forward(rows)

    def segments(self, positions: Int64Array, *, lookahead: int = 0) -> Segments:
        """Return the pieces that make up the samples at `positions`.

        `lookahead` more tokens of the stream are taken per sample. `sample` in the result is the
        index into `positions`.
        """
        samples = self.stream_samples(positions)
        if self.plan.seq_len is None:
            return self._whole_documents(samples)
        low = samples * self.plan.seq_len
        high = np.minimum(low + self.plan.seq_len + lookahead, self.stream_tokens)
        # In the order of the stream each search begins where the one before ended, in the cache.
        order = np.argsort(samples)
        first, after = np.empty_like(samples), np.empty_like(samples)
        first[order] = np.searchsorted(self.stream_starts, low[order], side="right") - 1
        after[order] = np.searchsorted(self.stream_starts, high[order], side="left")
        count = after - first
        row = np.repeat(np.arange(samples.size, dtype=np.int64), count)
        before = np.cumsum(count) - count
        place = np.arange(row.size, dtype=np.int64) - np.repeat(before - first, count)
        begin = np.maximum(self.stream_starts[place], low[row])
        finish = np.minimum(self.stream_starts[place + 1], high[row])
        return Segments(
            sample=row,
            doc=self.stream_docs[place],
            start=begin - self.stream_starts[place],
            end=finish - self.stream_starts[place],
            offset=begin - low[row],
        )

    def positions_of(self, docs: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return `(index into docs, position)` for every sample with a piece of a document.

        Both are int64[k]. Documents that are held out or not in this window yield nothing.
        """
        order = np.argsort(self.stream_docs, kind="stable")
        slot = np.searchsorted(self.stream_docs, docs, sorter=order)
        inside = slot < order.size
        place = order[np.where(inside, slot, 0)] if order.size else np.zeros_like(docs)
        known = np.flatnonzero(inside)
        known = known[self.stream_docs[place[known]] == docs[known]]
        place = place[known]
        if self.plan.seq_len is None or self._sample_order is None:
            return known, place + self.first_position
        first = self.stream_starts[place] // self.plan.seq_len
        last = (self.stream_starts[place + 1] - 1) // self.plan.seq_len
        count = last - first + 1
        before = np.cumsum(count) - count
        sample = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(before - first, count)
        return np.repeat(known, count), self._sample_order.inverse(sample) + self.first_position

    def _whole_documents(self, samples: Int64Array) -> Segments:
        zeros = np.zeros(samples.size, dtype=np.int64)
        return Segments(
            sample=np.arange(samples.size, dtype=np.int64),
            doc=self.stream_docs[samples],
            start=zeros,
            end=np.diff(self.stream_starts)[samples],
            offset=zeros,
        )
