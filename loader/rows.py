"""From positions to rows of tokens: segments, blanking, masks and digest of one rank's slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array, UInt16Array
from .digest import add_digests, batch_digest, sample_digest
from .exclusion import Exclusion
from .plan import Plan
from .segments import Segments
from .window import Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """One rank's samples of one step.

    Attributes:
        tokens: [n, length], pad where nothing is delivered.
        loss_mask: bool[n, length].
        segments: delivered pieces, without lookahead; `sample` is the row.
        sources: uint16[k].
        blanked_by_row: int64[n], tokens taken out of each row, without lookahead.
        digest: 16 bytes, big-endian sum of the sample digests.
    """

    tokens: NDArray[Any]
    loss_mask: BoolArray
    segments: Segments
    sources: UInt16Array
    blanked_by_row: Int64Array
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """The rows that come from one window; `segments` are delivered ones with lookahead."""

    window: Window
    segments: Segments
    longest: int
    blanked: Segments


def by_window(
    windows: Sequence[Window], positions: Int64Array
) -> Iterator[tuple[Window, Int64Array]]:
    """Yield each window with those of `positions` (increasing, -1 at the end) that lie in it."""
    real = positions[positions >= 0]
    for window in windows:
        low, high = np.searchsorted(real, (window.table.first_position, window.table.end_position))
        if high > low:
            yield window, real[low:high]


def make_rows(
    plan: Plan,
    exclusion: Exclusion,
    parts: Iterator[tuple[Window, Int64Array]],
    positions: Int64Array,
    dtype: np.dtype[Any],
) -> Rows:
    """Return the rows for `positions`, which `parts` splits by window in order."""
    found = []
    row = 0
    for window, chosen in parts:
        found.append(_part(window, chosen, exclusion, row))
        row += chosen.size
    length = _length(plan, found)
    tokens = np.full((positions.size, length), plan.pad, dtype=dtype)
    for part in found:
        part.window.fill(tokens, part.segments)
    reaching = _joined([part.segments for part in found])
    segments = reaching if not plan.lookahead else _without_lookahead(reaching, length - 1)
    sources = [part.window.sources(part.segments.doc) for part in found]
    codes = np.concatenate(sources) if sources else np.empty(0, np.uint16)
    if plan.lookahead:
        codes = codes[reaching.offset < length - 1]
    return Rows(
        tokens=tokens,
        loss_mask=_mask(reaching, positions.size, length),
        segments=segments,
        sources=codes,
        blanked_by_row=_blanked_by_row(found, positions.size),
        digest=_digest(plan, positions, segments, tokens),
    )


def _part(window: Window, positions: Int64Array, exclusion: Exclusion, row: int) -> _Part:
    segments = window.segments(positions)
    blanked = window.blanked(segments, positions, exclusion)
    shifted = Segments(
        sample=segments.sample + row,
        doc=segments.doc,
        start=segments.start,
        end=segments.end,
        offset=segments.offset,
    )
    seq_len, taken = window.plan.seq_len, shifted.select(blanked)
    return _Part(
        window=window,
        segments=shifted.select(~blanked) if len(taken) else shifted,
        longest=int(segments.tokens().max(initial=0)),
        blanked=taken if seq_len is None else _without_lookahead(taken, seq_len),
    )


def _length(plan: Plan, parts: Sequence[_Part]) -> int:
    if plan.seq_len is not None:
        return plan.seq_len + plan.lookahead
    # One document is one segment, so the longest sample is the longest segment.
    return max([1, *(part.longest for part in parts)])


def _blanked_by_row(parts: Sequence[_Part], rows: int) -> Int64Array:
    counts = np.zeros(rows, np.int64)
    for part in parts:
        np.add.at(counts, part.blanked.sample, part.blanked.tokens())
    return counts


def _without_lookahead(segments: Segments, seq_len: int) -> Segments:
    kept = segments.select(segments.offset < seq_len)
    return Segments(
        sample=kept.sample,
        doc=kept.doc,
        start=kept.start,
        end=np.minimum(kept.end, kept.start + seq_len - kept.offset),
        offset=kept.offset,
    )


def _joined(parts: Sequence[Segments]) -> Segments:
    if len(parts) == 1:
        return parts[0]
    empty = [np.empty(0, np.int64)]
    sample, doc, start, end, offset = (
        np.concatenate([part.columns()[index] for part in parts] or empty) for index in range(5)
    )
    return Segments(sample=sample, doc=doc, start=start, end=end, offset=offset)


def _mask(segments: Segments, rows: int, length: int) -> BoolArray:
    """Return True where a delivered token stands, bool[rows, length]."""
    if int(segments.tokens().sum()) == rows * length:
        return np.ones((rows, length), np.bool_)
    mask = np.zeros(rows * length, np.bool_)
    begin = segments.sample * length + segments.offset
    for low, high in zip(begin.tolist(), (begin + segments.tokens()).tolist(), strict=True):
        mask[low:high] = True
    return mask.reshape(rows, length)


def _digest(plan: Plan, positions: Int64Array, segments: Segments, tokens: NDArray[Any]) -> bytes:
    if plan.seq_len is not None:
        return batch_digest(positions, segments, tokens[:, : plan.seq_len]).to_bytes(16, "big")
    slices = segments.slices(positions.size)
    sizes = np.zeros(positions.size, np.int64)
    sizes[segments.sample] = segments.tokens()
    total = 0
    for row, position in enumerate(positions.tolist()):
        piece = slice(int(slices[row]), int(slices[row + 1]))
        columns = (segments.doc[piece], segments.start[piece], segments.end[piece])
        # Padding up to the longest document depends on the split over ranks, so it is left out.
        row_tokens = tokens[row, : sizes[row]].astype(np.uint32)
        total = add_digests(total, sample_digest(position, *columns, row_tokens))
    return total.to_bytes(16, "big")
