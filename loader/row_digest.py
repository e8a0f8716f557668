"""The digest of one rank's rows, the same bytes as `digest.batch_digest` with fewer copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .arrays import Int64Array, UInt32Array
from .digest import MASK128
from .segments import Segments

_CHUNK = 1 << 17  # tokens widened at a time, so that they are hashed out of the cache
_WORD = 4
_HEAD_WORDS, _SEGMENT_WORDS = 3, 6


def rows_digest(
    positions: Int64Array, segments: Segments, tokens: NDArray[Any], sizes: Int64Array
) -> bytes:
    """Return the sum of the rows' sample digests modulo 2^128, 16 bytes, big-endian.

    Args:
        positions: int64[n], -1 for padded rows.
        segments: delivered pieces; `sample` is the row.
        tokens: [n, length].
        sizes: int64[n], tokens of each row that belong to its sample: `seq_len` when packed; what
            lies after them (lookahead, padding to the longest document) is not digested.
    """
    heads, used = _heads(positions, segments)
    rows, room = heads.shape
    length = tokens.shape[1]
    share = max(1, min(_CHUNK // max(length, 1), rows))
    # One row after the other, each with its head right before its tokens.
    chunk = np.empty((share, room + length), "<u4")
    data = chunk.reshape(-1).data.cast("B")
    first = np.arange(rows) % share * (room + length)
    begin = ((first + room - used) * _WORD).tolist()
    end = ((first + room + sizes) * _WORD).tolist()
    total = 0
    for row in range(0, rows, share):
        part = tokens[row : row + share]
        chunk[: len(part), :room] = heads[row : row + share]
        np.copyto(chunk[: len(part), room:], part, casting="unsafe")
        samples = map(slice, begin[row : row + share], end[row : row + share])
        total += sum(map(xxhash.xxh3_128_intdigest, map(data.__getitem__, samples)))
    return (total & MASK128).to_bytes(16, "big")


def _heads(positions: Int64Array, segments: Segments) -> tuple[UInt32Array, Int64Array]:
    """Return what goes before the tokens of each row, flush right, and how many words it has.

    It is the position, the number of segments, and for each segment document, start and end.
    """
    rows = np.arange(positions.size)
    slices = segments.slices(positions.size)
    counts = np.diff(slices)
    used = _HEAD_WORDS + _SEGMENT_WORDS * counts
    room = int(used.max(initial=_HEAD_WORDS))
    heads = np.zeros((positions.size, room), "<u4")
    begin = (rows + 1) * room - used
    numbered = np.empty(positions.size, [("position", "<i8"), ("segments", "<u4")])
    numbered["position"], numbered["segments"] = positions, counts
    _put(heads, begin, numbered, _HEAD_WORDS)
    place = np.arange(len(segments)) - slices[segments.sample]
    at = begin[segments.sample] + _HEAD_WORDS + _SEGMENT_WORDS * place
    columns = np.column_stack((segments.doc, segments.start, segments.end)).astype("<i8")
    _put(heads, at, columns, _SEGMENT_WORDS)
    return heads, used


def _put(heads: UInt32Array, at: Int64Array, items: NDArray[Any], words: int) -> None:
    """Write item i, `words` words long, at word `at[i]` of `heads`."""
    heads.reshape(-1)[at[:, None] + np.arange(words)] = items.view("<u4").reshape(-1, words)
