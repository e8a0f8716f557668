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
    wide = np.ascontiguousarray(tokens, dtype="<u4")
    length, data = wide.shape[1] * 4, wide.reshape(-1).data.cast("B")
    heads = memoryview(
        np.column_stack((segments.doc, segments.start, segments.end)).astype("<i8").tobytes()
    )
    slices = segments.slices(positions.size).tolist()
    total = 0
    for row, (position, size) in enumerate(zip(positions.tolist(), sizes.tolist(), strict=True)):
        low, high = slices[row], slices[row + 1]
        start = row * length
        sample = b"".join(
            (
                _HEAD.pack(position, high - low),
                heads[low * _SEGMENT_BYTES : high * _SEGMENT_BYTES],
                data[start : start + size * 4],
            )
        )
        total += xxhash.xxh3_128_intdigest(sample)
    return (total & MASK128).to_bytes(16, "big")
