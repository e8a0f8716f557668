"""From positions to rows of tokens: one rank's slice of a step, cut out of its windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array, UInt16Array
from .plan import Plan
from .segments import Segments
from .window import Window, runs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """One rank's samples of one step.

    Attributes:
        tokens: [n, length], pad where nothing is delivered.
        loss_mask: bool[n, length].
        segments: delivered pieces, without lookahead; `sample` is the row.
        sources: uint16[k].
        target_by_row, blanked_by_row: int64[n], tokens delivered and taken out.
    """

    tokens: NDArray[Any]
    loss_mask: BoolArray
    segments: Segments
    sources: UInt16Array
    target_by_row: Int64Array
    blanked_by_row: Int64Array


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive rows low..high-1 of a window, delivered from row `row` of the batch on."""

    window: Window
    low: int
    high: int
    row: int

    def pieces(self) -> slice:
        return self.window.pieces(self.low, self.high)


def by_window(
    windows: Sequence[Window], positions: Int64Array
) -> Iterator[tuple[Window, Int64Array]]:
    """Yield each window with its rows among `positions` (increasing, -1 at the end)."""
    real = positions[positions >= 0]
    for window in windows:
        edges = (window.table.first_position, window.table.end_position)
        low, high = np.searchsorted(real, edges)
        if high > low:
            yield window, window.rows_of(real[low:high])


def make_rows(
    plan: Plan, windows: Sequence[Window], positions: Int64Array, dtype: np.dtype[Any]
) -> Rows:
    """Return the rows for `positions`, all of which lie in `windows`."""
    found: list[_Run] = []
    row = 0
    for window, rows in by_window(windows, positions):
        for low, high in runs(rows):
            found.append(_Run(window, low, high, row))
            row += high - low
    length, padding = _length(plan, found), positions.size - row
    tokens = [run.window.tokens(run.low, run.high, length) for run in found]
    masks = [run.window.mask(run.low, run.high, length) for run in found]
    if padding:
        tokens.append(np.full((padding, length), plan.pad, dtype))
        masks.append(np.zeros((padding, length), np.bool_))
    nothing = np.zeros(padding, np.int64)
    return Rows(
        tokens=_joined(tokens),
        loss_mask=_joined(masks),
        segments=_segments(found),
        sources=_joined(
            [*(run.window.sources[run.pieces()] for run in found), np.empty(0, np.uint16)]
        ),
        target_by_row=_joined(
            [*(run.window.target_by_row[run.low : run.high] for run in found), nothing]
        ),
        blanked_by_row=_joined(
            [*(run.window.blanked_by_row[run.low : run.high] for run in found), nothing]
        ),
    )


def _length(plan: Plan, found: Sequence[_Run]) -> int:
    if plan.seq_len is not None:
        return plan.seq_len + plan.lookahead
    return max([1, *(int(run.window.size_by_row[run.low : run.high].max()) for run in found)])


def _segments(found: Sequence[_Run]) -> Segments:
    doc, start, end, offset = (_column(found, name) for name in ("doc", "start", "end", "offset"))
    parts = [run.window.segments.sample[run.pieces()] + (run.row - run.low) for run in found]
    sample = _joined([*parts, np.empty(0, np.int64)])
    return Segments(sample=sample, doc=doc, start=start, end=end, offset=offset)


def _column(found: Sequence[_Run], name: str) -> Int64Array:
    parts = [getattr(run.window.segments, name)[run.pieces()] for run in found]
    return _joined([*parts, np.empty(0, np.int64)])


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the parts end to end; without a copy where only one holds anything."""
    filled = [part for part in parts if part.size] or parts[:1]
    return filled[0] if len(filled) == 1 else np.concatenate(filled)
