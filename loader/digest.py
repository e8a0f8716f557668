"""The digest of what was delivered: additive over samples, so equal at any world size.

Per sample it is XXH3-128 over the raw position, its delivered segments and its tokens after
blanking; a step's digest is the sum of its samples' modulo 2**128. `docs/order.md` gives the bytes.
"""

from __future__ import annotations

import struct

import numpy as np
import xxhash
from numpy.typing import NDArray

from .arrays import Int64Array
from .segments import Segments

MASK128 = (1 << 128) - 1

_HEAD = struct.Struct("<qI")


def sample_digest(
    position: int, doc: Int64Array, start: Int64Array, end: Int64Array, tokens: NDArray[np.uint32]
) -> int:
    """Return the 128-bit digest of one sample.

    Args:
        position: raw position in the epoch; -1 for a padded row.
        doc, start, end: int64[k], its delivered segments in order.
        tokens: little-endian uint32[seq_len], after blanking.
    """
    rows = np.column_stack((doc, start, end)).astype("<i8", copy=False)
    data = _HEAD.pack(position, doc.size) + rows.tobytes() + tokens.astype("<u4").tobytes()
    return int(xxhash.xxh3_128_intdigest(data))


def batch_digest(
    positions: Int64Array, segments: Segments, tokens: NDArray[np.unsignedinteger]
) -> int:
    """Return the sum of the digests of a batch's samples, modulo 2**128.

    Args:
        positions: int64[n].
        segments: the delivered segments, `sample` indexing into positions.
        tokens: [n, seq_len] of any unsigned type, after blanking.
    """
    wide = np.ascontiguousarray(tokens, dtype="<u4")
    slices = segments.slices(positions.size).tolist()
    rows = np.column_stack((segments.doc, segments.start, segments.end)).astype("<i8")
    heads = rows.tobytes()
    total = 0
    for index, position in enumerate(positions.tolist()):
        low, high = slices[index], slices[index + 1]
        data = _HEAD.pack(position, high - low) + heads[low * 24 : high * 24]
        total += xxhash.xxh3_128_intdigest(data + wide[index].tobytes())
    return total & MASK128


def add_digests(*digests: int) -> int:
    """Return the digest of samples whose parts have `digests`."""
    return sum(digests) & MASK128
