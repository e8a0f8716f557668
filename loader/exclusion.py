"""What a revision takes out of a window: which positions are passed over, which pieces blanked."""

from __future__ import annotations

import numpy as np

from .arrays import BoolArray, Int64Array, concatenate, members
from .cursor import Mode
from .order import EpochOrder
from .packing import WindowTable
from .revision import Revision
from .segments import Segments


class Exclusion:
    """A revision as one plan sees it.

    Args:
        revision: what to leave out.
        plan_id: only skips of this plan apply.
        mode: `compact` passes over samples without a surviving token, `hold` keeps their slot.
    """

    def __init__(self, revision: Revision, *, plan_id: str, mode: Mode) -> None:
        self.revision = revision
        self.mode = mode
        self.documents = revision.documents
        self._skips: dict[int, list[tuple[int, int]]] = {}
        for skip in revision.skips:
            if skip.plan_id == plan_id:
                self._skips.setdefault(skip.epoch, []).append((skip.start, skip.end))

    def touches(self, order: EpochOrder, window: int) -> bool:
        """Return whether anything in `window` is excluded; costs no read of lengths."""
        low, high = order.window_starts[window : window + 2]
        if any(start < high and low < end for start, end in self._skips.get(order.epoch, ())):
            return True
        if not self.documents.size:
            return False
        blocks = order.blocks(window)
        first = order.layout.geometry.first_document
        before = np.searchsorted(self.documents, first[blocks])
        after = np.searchsorted(self.documents, first[blocks + 1])
        return bool((after > before).any())

    def covers(self, low: int, high: int) -> bool:
        """Return whether all of the documents low..high-1 are excluded, and there are any."""
        before, after = np.searchsorted(self.documents, (low, high))
        return bool(after - before == high - low > 0)

    def blanked(
        self, table: WindowTable, segments: Segments, positions: Int64Array, epoch: int
    ) -> BoolArray:
        """Return which segments of the samples at `positions` must not reach the trainer."""
        blanked = members(segments.doc, self._inside(table))
        if epoch in self._skips:
            blanked |= self.skipped(positions, epoch)[segments.sample]
        return blanked

    def skipped(self, positions: Int64Array, epoch: int) -> BoolArray:
        """Return which of `positions` lie in a skipped range, bool[n]."""
        inside = np.zeros(positions.size, dtype=np.bool_)
        for start, end in self._skips.get(epoch, ()):
            inside |= (positions >= start) & (positions < end)
        return inside

    def survivors(self, order: EpochOrder, window: int) -> Int64Array:
        """Return the positions of `window` that take a slot in a step, increasing int64[n]."""
        low, high = (int(edge) for edge in order.window_starts[window : window + 2])
        positions = np.arange(low, high, dtype=np.int64)
        if self.mode == "hold" or not self.touches(order, window):
            return positions
        return positions[~self.passed(order.window(window), order.epoch)]

    def passed(self, table: WindowTable, epoch: int) -> BoolArray:
        """Return which samples of the window have no surviving token, bool[samples] by position."""
        positions = np.arange(table.first_position, table.end_position, dtype=np.int64)
        excluded = members(table.stream_docs, self._inside(table))
        samples = table.stream_samples(positions)
        if table.plan.seq_len is None:
            gone = excluded[samples]
        else:
            gone = _fully_covered(table, excluded, table.plan.seq_len)[samples]
        return gone | self.skipped(positions, epoch)

    def _inside(self, table: WindowTable) -> Int64Array:
        """Return the excluded documents in the window's blocks, sorted int64[m].

        They are few, so a window's documents are found among them sooner than among all.
        """
        first, last = np.sort(table.runs, axis=1)
        before = np.searchsorted(self.documents, first)
        after = np.searchsorted(self.documents, last, side="right")
        some = np.flatnonzero(after > before).tolist()
        return concatenate([self.documents[before[n] : after[n]] for n in some])


def _fully_covered(table: WindowTable, excluded: BoolArray, seq_len: int) -> BoolArray:
    """Return which samples, in stream order, hold tokens of excluded documents only.

    With F(x) the number of excluded tokens before stream place x, sample s is covered when
    F(end) - F(start) equals its size; F is the running sum over documents plus a partial one.
    """
    starts = table.stream_starts
    if not excluded.size:
        return np.zeros(0, dtype=np.bool_)
    covered = np.zeros(starts.size, dtype=np.int64)
    np.cumsum(np.where(excluded, np.diff(starts), 0), out=covered[1:])
    edges = np.minimum(np.arange(table.samples + 1) * seq_len, table.stream_tokens)
    document = np.minimum(np.searchsorted(starts, edges, side="right") - 1, excluded.size - 1)
    before = covered[document] + np.where(excluded[document], edges - starts[document], 0)
    full: BoolArray = np.diff(before) == np.diff(edges)
    return full
