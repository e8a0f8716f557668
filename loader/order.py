"""The two-level order: blocks are permuted, then the documents of each window of W blocks.

An epoch's order is a pure function of the plan, the manifest's geometry and the epoch. It takes
memory proportional to the blocks; documents are looked up window by window.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from .arrays import Int64Array, UInt32Array, concatenate, members
from .errors import IntegrityError
from .geometry import Geometry
from .packing import WindowTable
from .permutation import Permutation, derive_key
from .plan import Plan

LengthReader = Callable[[int, int], UInt32Array]

BLOCK_KEY, DOCUMENT_KEY, SAMPLE_KEY = 0, 1, 2


class Layout:
    """What a plan makes of a corpus before any epoch: the stream length of every block.

    Args:
        plan: what moves samples.
        geometry: documents and tokens per block.
        lengths: returns the token lengths of documents lo..hi-1 as uint32[hi - lo].
    """

    def __init__(self, plan: Plan, geometry: Geometry, lengths: LengthReader) -> None:
        self.plan = plan
        self.geometry = geometry
        self.lengths = lengths
        self.held_out = (
            np.empty(0, dtype=np.int64)
            if plan.holdout is None
            else plan.holdout.members(geometry.documents)
        )
        held_documents, held_tokens = self._held_out_per_block()
        self.block_documents = geometry.block_documents - held_documents
        self.block_stream = (
            geometry.block_tokens - held_tokens + plan.separator_tokens * self.block_documents
        )

    def _held_out_per_block(self) -> tuple[Int64Array, Int64Array]:
        blocks = self.geometry.blocks
        if not self.held_out.size:
            return np.zeros(blocks, dtype=np.int64), np.zeros(blocks, dtype=np.int64)
        block = self.geometry.block_of(self.held_out)
        documents = np.bincount(block, minlength=blocks).astype(np.int64)
        tokens = np.zeros(blocks, dtype=np.int64)
        # Held-out ordinals are sorted, so those of one block stand together.
        edges = np.flatnonzero(np.diff(block, prepend=-1, append=blocks))
        for start, end in pairwise(edges.tolist()):
            chosen = self.held_out[start:end]
            low, high = int(chosen[0]), int(chosen[-1]) + 1
            lengths = self.lengths(low, high)[chosen - low]
            tokens[block[start]] = int(lengths.sum(dtype=np.int64))
        return documents, tokens


class EpochOrder:
    """The order of one epoch: position to sample and document to positions, without replay.

    Attributes:
        positions: number of samples in the epoch, before any exclusion.
        windows: number of windows.
        window_starts: int64[windows + 1], first position of each window.
    """

    def __init__(self, layout: Layout, epoch: int) -> None:
        plan, geometry = layout.plan, layout.geometry
        self.layout = layout
        self.epoch = epoch
        self._cipher = Permutation(geometry.blocks, derive_key(plan.seed, epoch, BLOCK_KEY))
        self.block_order = self._cipher.all()
        self.windows = -(-geometry.blocks // plan.window_blocks)
        edges = np.arange(0, geometry.blocks, plan.window_blocks)
        if plan.seq_len is None:
            samples = _sum_by_window(layout.block_documents[self.block_order], edges)
        else:
            stream = _sum_by_window(layout.block_stream[self.block_order], edges)
            samples = -(-stream // plan.seq_len)
        self.window_starts = np.zeros(self.windows + 1, dtype=np.int64)
        np.cumsum(samples, out=self.window_starts[1:])

    @property
    def positions(self) -> int:
        """Number of samples in the epoch, before any exclusion."""
        return int(self.window_starts[-1])

    def window_of(self, position: int) -> int:
        """Return the window that holds `position`; the number of windows if it is past the end."""
        if position >= self.positions:
            return self.windows
        return int(np.searchsorted(self.window_starts, position, side="right")) - 1

    def blocks(self, window: int) -> Int64Array:
        """Return the blocks of `window` in the order in which they are laid out, int64[<=W]."""
        size = self.layout.plan.window_blocks
        return self.block_order[window * size : (window + 1) * size]

    def window(self, window: int) -> WindowTable:
        """Return the sample table of `window`; costs one read of the lengths of its blocks."""
        layout = self.layout
        first = layout.geometry.first_document
        spans = [(int(first[block]), int(first[block + 1])) for block in self.blocks(window)]
        docs = concatenate([np.arange(low, high, dtype=np.int64) for low, high in spans])
        lengths = concatenate([self._lengths(int(block)) for block in self.blocks(window)])
        seed, epoch = layout.plan.seed, self.epoch
        return WindowTable(
            plan=layout.plan,
            first_position=int(self.window_starts[window]),
            docs=docs,
            lengths=lengths,
            held_out=members(docs, layout.held_out),
            document_key=derive_key(seed, epoch, DOCUMENT_KEY, window),
            sample_key=derive_key(seed, epoch, SAMPLE_KEY, window),
        )

    def _lengths(self, block: int) -> Int64Array:
        """Return the token lengths of `block`, int64[documents], checked by their sum."""
        geometry = self.layout.geometry
        low, high = geometry.first_document[block : block + 2]
        lengths = self.layout.lengths(int(low), int(high)).astype(np.int64)
        if int(lengths.sum()) != int(geometry.block_tokens[block]):
            raise IntegrityError(
                f"the length sidecar gives block {block} (documents {low} to {high - 1}) "
                f"{lengths.sum()} tokens, the manifest says {geometry.block_tokens[block]}; "
                "restore the sidecar, or index the corpus anew and compare the fingerprints"
            )
        return lengths

    def window_of_documents(self, docs: Int64Array) -> Int64Array:
        """Return the window of each document, int64[n]; needs no table and no lengths."""
        ranks = self._cipher.inverse(self.layout.geometry.block_of(docs))
        return ranks // self.layout.plan.window_blocks

    def positions_of(self, docs: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return `(index into docs, position)` of every sample that holds a piece of a document.

        Both are int64[k], sorted by index and position. A held-out document has no position, nor
        has an ordinal outside the corpus.
        """
        inside = np.flatnonzero((docs >= 0) & (docs < self.layout.geometry.documents))
        windows = self.window_of_documents(docs[inside])
        found: list[tuple[Int64Array, Int64Array]] = []
        for window in np.unique(windows):
            chosen = inside[windows == window]
            index, position = self.window(int(window)).positions_of(docs[chosen])
            found.append((chosen[index], position))
        index = concatenate([pair[0] for pair in found])
        position = concatenate([pair[1] for pair in found])
        order = np.lexsort((position, index))
        return index[order], position[order]


def _sum_by_window(values: Int64Array, edges: Int64Array) -> Int64Array:
    if not edges.size:
        return np.empty(0, dtype=np.int64)
    sums: Int64Array = np.add.reduceat(values, edges)
    return sums
