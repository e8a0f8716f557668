"""A block in memory: the tokens of its documents, end to end, and where each one starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from .arrays import Int64Array

LARGEST_DOCUMENT = (1 << 32) - 2  # lengths are u32 and a separator may follow


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockData:
    """Values of consecutive documents.

    Attributes:
        values: one entry per token (or per UTF-8 byte for text), documents end to end.
        offsets: int64[documents + 1]; document i is `values[offsets[i]:offsets[i + 1]]`.
    """

    values: NDArray[np.generic]
    offsets: Int64Array

    def __post_init__(self) -> None:
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != len(self.values):
            raise ValueError("offsets must start at 0 and end at the number of values")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64Array:
        """Tokens of each document, int64[documents]."""
        return np.diff(self.offsets)

    def document(self, index: int) -> NDArray[np.generic]:
        """Return the tokens of the block's document `index` (a view)."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def take(self, rows: Int64Array) -> BlockData:
        """Return a copy of the documents `rows`, int64[n], in that order."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(self.lengths[rows], out=offsets[1:])
        parts = [self.document(row) for row in rows.tolist()]
        values = np.concatenate(parts) if parts else self.values[:0]
        return BlockData(values=values, offsets=offsets)


def joined(documents: Iterable[bytes]) -> BlockData:
    """Return documents of bytes as a block of uint8 values."""
    found = list(documents)
    offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return BlockData(values=np.frombuffer(b"".join(found), np.uint8), offsets=offsets)


def logical_digest(block: BlockData) -> bytes:
    """Return the xxh3-128 of the values, seeded by the xxh3-64 of the little-endian i64 lengths.

    It depends on what the documents hold, not on how a file format cut or encoded them.
    """
    lengths = np.ascontiguousarray(block.lengths, dtype="<i8")
    seed = xxhash.xxh3_64_intdigest(lengths.data)
    little = block.values.dtype.newbyteorder("<")
    values = np.ascontiguousarray(block.values, dtype=little)
    return xxhash.xxh3_128_digest(values.view(np.uint8).data, seed=seed)


def token_dtype(vocabulary: int) -> np.dtype[np.generic]:
    """Return the dtype that holds token ids below `vocabulary`: uint16, else int32."""
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.int32)
