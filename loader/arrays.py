"""The array types that the loader passes around."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
Int64Array = NDArray[np.int64]
UInt16Array = NDArray[np.uint16]
UInt32Array = NDArray[np.uint32]
UInt64Array = NDArray[np.uint64]


def members(values: Int64Array, sorted_set: Int64Array) -> BoolArray:
    """Return whether each of `values` is in `sorted_set`, bool[n]; O(n log m)."""
    if not sorted_set.size:
        return np.zeros(values.size, dtype=np.bool_)
    slot = np.searchsorted(sorted_set, values)
    slot[slot == sorted_set.size] = 0
    found: BoolArray = sorted_set[slot] == values
    return found


def concatenate(parts: list[Int64Array]) -> Int64Array:
    """Return the parts joined; int64[0] for none."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
