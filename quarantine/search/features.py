"""Features of text columns: 51 numbers and an 8 by 8 class transition matrix per document."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .columns import TextChunk
from .feature_names import CLASSES, Feature
from .kernels_features import measure_documents
from .letter_pairs import COMMON_PAIRS
from .scripts import script_table

CAPACITY = 1 << 20
"""Words and lines of one document that are compared with each other; the workspace is 100 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """`values` float32[N, len(Feature)], `transitions` float32[N, 64] (rows: from, columns: to)."""

    values: NDArray[np.float32]
    transitions: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.values)

    def column(self, feature: Feature) -> NDArray[np.float32]:
        """Return one feature of all documents, float32[N]."""
        return self.values[:, feature]

    def of(self, row: int) -> dict[str, float]:
        """Return the features of one document by lower-case name."""
        return {f.name.lower(): float(self.values[row, f]) for f in Feature}


def measure(chunk: TextChunk) -> Features:
    """Return the features of a chunk; an empty document has all zeros."""
    values = np.empty((len(chunk), len(Feature)), dtype=np.float32)
    transitions = np.empty((len(chunk), CLASSES * CLASSES), dtype=np.float32)
    longest = int(np.diff(chunk.offsets).max(initial=0))
    capacity = min(CAPACITY, max(1024, longest // 2 + 2))
    measure_documents(
        chunk.data,
        chunk.offsets,
        kernel_tables(),
        np.int64(capacity),
        values,
        transitions,
    )
    return Features(values=values, transitions=transitions)


@cache
def kernel_tables() -> tuple[NDArray[np.generic], ...]:
    """Return what `measure_documents` looks up."""
    scripts = script_table()
    letters = np.full(256, 26, dtype=np.uint8)
    letters[97:123] = letters[65:91] = np.arange(26)
    common = np.full(27, 0xFFFFFFFF, dtype=np.uint32)
    for first, seconds in COMMON_PAIRS.items():
        common[ord(first) - 97] = sum(1 << (ord(second) - 97) for second in seconds)
    return byte_classes(), space_kinds(), letters, common, scripts.cells, scripts.odd


@cache
def byte_classes() -> NDArray[np.uint8]:
    """Return uint8[256], the class of each byte: see `feature_names.CLASSES`."""
    table = np.full(256, 7, dtype=np.uint8)
    table[:128] = 5
    table[:32] = 6
    table[127] = 6
    table[[8, 27]] = 5  # overstrikes and terminal colours are text
    table[97:123] = 0
    table[65:91] = 1
    table[48:58] = 2
    table[[9, 12, 13, 32]] = 3
    table[10] = 4
    return table


@cache
def space_kinds() -> NDArray[np.uint8]:
    """Return uint8[128]: 1 for ASCII white space, 2 for the newline, else 0."""
    table = np.zeros(128, dtype=np.uint8)
    table[[9, 11, 12, 13, 28, 29, 30, 31, 32]] = 1
    table[10] = 2
    return table
