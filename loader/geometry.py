"""The shape of a corpus: how many documents and tokens each block holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .arrays import Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Geometry:
    """Counts per block, in manifest order; all that an order needs to know besides lengths.

    Attributes:
        block_documents: int64[blocks], documents in each block; 0 is allowed.
        block_tokens: int64[blocks], tokens in each block, separators not counted.
        first_document: int64[blocks + 1], ordinal of each block's first document.
    """

    block_documents: Int64Array
    block_tokens: Int64Array
    first_document: Int64Array = field(init=False)

    def __post_init__(self) -> None:
        if self.block_documents.shape != self.block_tokens.shape:
            raise ValueError("block_documents and block_tokens differ in length")
        if self.block_documents.size and int(self.block_documents.min()) < 0:
            raise ValueError("a block cannot hold a negative number of documents")
        first = np.zeros(self.block_documents.size + 1, dtype=np.int64)
        np.cumsum(self.block_documents, out=first[1:])
        object.__setattr__(self, "first_document", first)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return int(self.block_documents.size)

    @property
    def documents(self) -> int:
        """Number of documents in the corpus."""
        return int(self.first_document[-1])

    def block_of(self, docs: Int64Array) -> Int64Array:
        """Return the block of each document ordinal, int64[n]; empty blocks are never named."""
        return np.searchsorted(self.first_document, docs, side="right") - 1
