"""The digest of one rank's rows, the same bytes as `digest.batch_digest` with fewer copies."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .arrays import Int64Array
from .digest import MASK128
from .segments import Segments

_HEAD = struct.Struct("<qI")
_SEGMENT_BYTES = 24
_CHUNK = 1 << 15  # tokens widened at a time, so that they are hashed out of the cache


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
    heads = memoryview(
        np.column_stack((segments.doc, segments.start, segments.end)).astype("<i8").tobytes()
    )
    slices = segments.slices(positions.size).tolist()
    places, counts, length = positions.tolist(), sizes.tolist(), tokens.shape[1]
    share = max(1, min(_CHUNK // max(length, 1), positions.size))
    wide = np.empty((share, length), "<u4")
    data = wide.reshape(-1).data.cast("B")
    total = 0
    for first in range(0, positions.size, share):
        chunk = tokens[first : first + share]
        np.copyto(wide[: len(chunk)], chunk, casting="unsafe")
        for row in range(first, first + len(chunk)):
            low, high = slices[row], slices[row + 1]
            start = (row - first) * length * 4
            sample = b"".join(
                (
                    _HEAD.pack(places[row], high - low),
                    heads[low * _SEGMENT_BYTES : high * _SEGMENT_BYTES],
                    data[start : start + counts[row] * 4],
                )
            )
            total += xxhash.xxh3_128_intdigest(sample)
    return (total & MASK128).to_bytes(16, "big")
