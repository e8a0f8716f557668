"""A long curve by the lowest and the highest point of each of many bins, so that spikes stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .series import Series

BINS = 4800


class Thinned:
    """Thins a curve of a known number of points as they come.

    A curve of at most 9,600 points is kept as it is. Points that are not finite count for their
    place, and are kept only where the curve is kept as it is.
    """

    def __init__(self, points: int) -> None:
        self._whole = points <= 2 * BINS
        self._edges = np.arange(1, BINS + 1) * points // BINS
        self._bin = self._taken = 0
        self._steps: list[NDArray[np.int64]] = []
        self._values: list[NDArray[np.float64]] = []
        self._rest = (np.empty(0, np.int64), np.empty(0))

    def add(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Take the next points, int64 [n] and float64 [n]."""
        if self._whole:
            self._keep(steps, values)
            return
        steps = np.concatenate([self._rest[0], steps])
        values = np.concatenate([self._rest[1], values])
        start = 0
        while self._bin < BINS and (end := int(self._edges[self._bin]) - self._taken) <= len(steps):
            self._keep_ends(steps[start:end], values[start:end])
            self._bin, start = self._bin + 1, end
        self._taken += start
        self._rest = (steps[start:], values[start:])

    def series(self, name: str) -> Series:
        """Return the curve; the points of a last bin that is not full are all in it."""
        steps, values = [*self._steps, self._rest[0]], [*self._values, self._rest[1]]
        return Series(name=name, steps=np.concatenate(steps), values=np.concatenate(values))

    def _keep_ends(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        finite = np.flatnonzero(np.isfinite(values))
        if not len(finite):
            return
        ends = {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
        places = np.array(sorted(ends))
        self._keep(steps[places], values[places])

    def _keep(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        self._steps.append(steps)
        self._values.append(values)
