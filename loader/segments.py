"""Segments: the pieces of documents that samples are made of, as parallel columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import BoolArray, Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segments:
    """Pieces of documents, sorted by sample and then by their place in the sample.

    Attributes:
        sample: int64[k], row of the sample in the batch or request that asked.
        doc: int64[k], document ordinal.
        start: int64[k], first token of the piece within its document.
        end: int64[k], one past the last token; `length + 1` where the separator is included.
        offset: int64[k], where the piece begins in its sample.
    """

    sample: Int64Array
    doc: Int64Array
    start: Int64Array
    end: Int64Array
    offset: Int64Array

    def __post_init__(self) -> None:
        sizes = {column.size for column in self.columns()}
        if len(sizes) != 1:
            raise ValueError(f"segment columns differ in length: {sorted(sizes)}")

    def __len__(self) -> int:
        return int(self.doc.size)

    def columns(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return (sample, doc, start, end, offset)."""
        return self.sample, self.doc, self.start, self.end, self.offset

    def select(self, keep: BoolArray | Int64Array) -> Segments:
        """Return the segments chosen by a mask or by indices."""
        sample, doc, start, end, offset = (column[keep] for column in self.columns())
        return Segments(sample=sample, doc=doc, start=start, end=end, offset=offset)

    def tokens(self) -> Int64Array:
        """Return the number of tokens in each segment, int64[k]."""
        return self.end - self.start

    def slices(self, samples: int) -> Int64Array:
        """Return int64[samples + 1]: the segments of sample i are `[slices[i], slices[i + 1])`."""
        return np.searchsorted(self.sample, np.arange(samples + 1))
