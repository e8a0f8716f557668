"""From positions to rows of tokens: one rank's slice of a step, cut out of its windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array, UInt16Array
from .errors import CorpusError
from .plan import Plan
from .segments import Segments
from .window import Window, runs

Empty = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""Makes an array of a shape and dtype, like `np.empty`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """One rank's samples of one step, or its part of them that lies in one window.

    Attributes:
        tokens: [n, length], pad where nothing is delivered.
        loss_mask: bool[n, length].
        segments: delivered pieces, without lookahead; `sample` is the row.
        sources: uint16[k].
        target_by_row, blanked_by_row: int64[n], tokens delivered and taken out.
        step_tokens: tokens delivered to all ranks.
        partial: whether a window has a block that could not be read.
    """

    tokens: NDArray[Any]
    loss_mask: BoolArray
    segments: Segments
    sources: UInt16Array
    target_by_row: Int64Array
    blanked_by_row: Int64Array
    step_tokens: int
    partial: bool


def make_rows(
    plan: Plan,
    windows: Iterable[Window],
    positions: Int64Array,
    dtype: np.dtype[Any],
    *,
    step: Int64Array | None = None,
    empty: Empty = np.empty,
    most_bytes: int | None = None,
) -> Rows:
    """Return the rows for `positions`, all of which lie in `windows`.

    Args:
        plan: of the windows.
        windows: increasing; each is left before the next is asked for.
        positions: increasing int64[n], -1 at the end for padded rows.
        dtype: of the tokens.
        step: the positions of all ranks, `positions` if there is one rank.
        empty: makes the arrays for tokens and mask.
        most_bytes: what tokens and mask may take; None is no limit.

    Raises:
        CorpusError: they would take more, since one document is so long.
    """
    everyone = positions if step is None else step
    cutter = _Cutter(plan, positions, everyone, dtype, empty, most_bytes)
    # Not a loop: its variable would keep a window alive while the next one is made.
    parts = list(map(cutter.cut, windows))
    filled = [part for part in parts if len(part.tokens)]
    whole = len(filled) == 1 and len(filled[0].tokens) == positions.size
    return replace(
        filled[0] if whole else cutter.stack(filled),
        step_tokens=sum(part.step_tokens for part in parts),
        partial=any(part.partial for part in parts),
    )


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts one step's rows out of windows; the fields are the arguments of `make_rows`."""

    plan: Plan
    positions: Int64Array
    step: Int64Array
    dtype: np.dtype[Any]
    empty: Empty
    most_bytes: int | None

    def cut(self, window: Window) -> Rows:
        """Return the rows that lie in `window`."""
        found = list(runs(_inside(window, self.positions)))
        slices, pieces = [slice(*run) for run in found], [window.pieces(*run) for run in found]
        counts = [high - low for low, high in found]
        tokens, mask = self._arrays(sum(counts), self._length(window, slices))
        first = np.cumsum([0, *counts]).tolist()
        for (low, high), row, end in zip(found, first, first[1:], strict=False):
            window.tokens(low, high, tokens[row:end])
            window.mask(low, high, mask[row:end])
        segments = window.segments
        sample = [
            segments.sample[piece] + (row - low)
            for piece, (low, _), row in zip(pieces, found, first, strict=False)
        ]
        return Rows(
            tokens=tokens,
            loss_mask=mask,
            segments=Segments(
                sample=_joined(sample, np.int64),
                doc=_cut(segments.doc, pieces),
                start=_cut(segments.start, pieces),
                end=_cut(segments.end, pieces),
                offset=_cut(segments.offset, pieces),
            ),
            sources=_cut(window.sources, pieces),
            target_by_row=_cut(window.target_by_row, slices),
            blanked_by_row=_cut(window.blanked_by_row, slices),
            step_tokens=int(window.target_by_row[_inside(window, self.step)].sum()),
            partial=window.partial,
        )

    def stack(self, parts: Sequence[Rows]) -> Rows:
        """Return the rows of all `parts`, then padded ones."""
        first = np.cumsum([0, *(len(part.tokens) for part in parts)]).tolist()
        length = max([_fixed(self.plan) or 1, *(part.tokens.shape[1] for part in parts)])
        tokens, mask = self._arrays(self.positions.size, length)
        tokens.fill(self.plan.pad)
        mask.fill(False)
        for part, row, end in zip(parts, first, first[1:], strict=False):
            tokens[row:end, : part.tokens.shape[1]] = part.tokens
            mask[row:end, : part.tokens.shape[1]] = part.loss_mask
        nothing = np.zeros(self.positions.size - first[-1], np.int64)
        columns = [part.segments.columns() for part in parts]
        _, doc, start, end_, offset = (
            _joined([part[index] for part in columns], np.int64) for index in range(5)
        )
        sample = [part.segments.sample + row for part, row in zip(parts, first, strict=False)]
        return Rows(
            tokens=tokens,
            loss_mask=mask,
            segments=Segments(
                sample=_joined(sample, np.int64), doc=doc, start=start, end=end_, offset=offset
            ),
            sources=_joined([part.sources for part in parts], np.uint16),
            target_by_row=_joined([*(part.target_by_row for part in parts), nothing], np.int64),
            blanked_by_row=_joined([*(part.blanked_by_row for part in parts), nothing], np.int64),
            step_tokens=0,
            partial=False,
        )

    def _arrays(self, rows: int, length: int) -> tuple[NDArray[Any], BoolArray]:
        need = rows * length * (self.dtype.itemsize + 1)
        if self.most_bytes is not None and need > self.most_bytes:
            raise CorpusError(
                f"a document of {length} tokens pads {rows} rows to {need} bytes, the limit is "
                f"{self.most_bytes}; plan a seq_len, make the batch smaller, split the document, "
                "or raise window_bytes"
            )
        return self.empty((rows, length), self.dtype), self.empty((rows, length), np.bool_)

    def _length(self, window: Window, slices: Sequence[slice]) -> int:
        """Return the length of all samples, or of the longest document."""
        sizes = (int(window.size_by_row[rows].max()) for rows in slices)
        return _fixed(self.plan) or max([1, *sizes])


def _fixed(plan: Plan) -> int | None:
    return None if plan.seq_len is None else plan.seq_len + plan.lookahead


def _inside(window: Window, positions: Int64Array) -> Int64Array:
    """Return the rows of `window` among `positions` (increasing, -1 at the end)."""
    real = positions[positions >= 0]
    edges = (window.table.first_position, window.table.end_position)
    low, high = np.searchsorted(real, edges)
    return window.rows_of(real[low:high])


def _cut(column: NDArray[Any], slices: Sequence[slice]) -> NDArray[Any]:
    return _joined([column[part] for part in slices], column.dtype)


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    """Return the parts end to end; without a copy if there is one."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)
