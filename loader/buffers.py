"""Arrays whose memory is used again as soon as nothing refers to it.

Fresh memory is dear: the kernel clears every page of it, and a virtual machine may first have to
get it from its host. A batch is as large as the one before, so its memory goes round.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 1 << 18
"""Bytes from which reuse pays; smaller arrays come out of the allocator's own free lists."""
SPARE = 4
"""Unused buffers that are always kept."""

_PROBE = [np.empty(0, np.uint8)]
_UNUSED = sys.getrefcount(_PROBE[0])
"""References that an object has which only a list knows, counted in the same way as below."""


class Buffers:
    """Hands out arrays like `np.empty`, for one thread.

    Every view of an array, in numpy, Arrow, torch or a memoryview, keeps a reference to the buffer
    below it. One that only this pool still refers to is handed out again. Of the unused ones about
    as many are kept as are in use, so a consumer that holds on to many batches for a while does
    not leave their memory behind.
    """

    def __init__(self) -> None:
        self._buffers: list[NDArray[np.uint8]] = []

    def __len__(self) -> int:
        return len(self._buffers)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any] | type[Any]) -> NDArray[Any]:
        """Return a writable array of any content that shares memory with no other in use."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < SMALLEST:
            return np.empty(shape, dtype)
        return self._buffer(size)[:size].view(dtype).reshape(shape)

    def _buffer(self, size: int) -> NDArray[np.uint8]:
        places = range(len(self._buffers))
        unused = [n for n in places if sys.getrefcount(self._buffers[n]) == _UNUSED]
        fitting = [n for n in unused if size <= self._buffers[n].size <= 2 * size]
        if fitting:
            chosen = min(fitting, key=lambda n: self._buffers[n].size)
        else:
            chosen = len(self._buffers)
            self._buffers.append(np.empty(size, np.uint8))
        buffer = self._buffers[chosen]
        spare = [n for n in unused if n != chosen]
        excess = 2 * len(spare) - len(self._buffers) - SPARE
        for number in reversed(spare[: max(excess, 0)]):
            del self._buffers[number]
        return buffer
