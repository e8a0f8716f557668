"""The trend and noise of one signal over its last points, which outliers cannot move.

A straight line in log(step) is fitted to the last points, each held within four standard
deviations of what was predicted for it (winsorised); the noise is the median absolute deviation
from the line. log(step) is straight where a young run's loss falls steeply, and indistinguishable
from the step itself later on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLIP = 4.0
MAD_TO_SD = 1.4826
SMALL_SAMPLE = 4.0
# A full window is fitted anew at every fourth point: a line through 128 hardly turns sooner.
REFIT = 4
LEAST_AFTER_RESTART = 16


class Baseline:
    """A rolling fit over `window` points; the cost of a point is O(window), the memory too."""

    def __init__(
        self, *, window: int, floor: float, relative: bool, least: int, logarithm: bool = False
    ) -> None:
        self.window = window
        self._least = self._enough = least
        self._floor = floor
        self._relative = relative
        self._logarithm = logarithm
        self._x: NDArray[np.float64] = np.empty(4 * window)
        self._y: NDArray[np.float64] = np.empty(4 * window)
        self._end = 0
        self._last = 0.0
        self._fit: tuple[float, float, float, float] | None = None
        self._stale = 0
        self._trail = Trail()

    @property
    def points(self) -> int:
        """Points held, at most `window`."""
        return min(self._end, self.window)

    @property
    def ready(self) -> bool:
        """Whether there are enough points to judge the next one."""
        return self._end >= self._enough

    def transform(self, value: float) -> float:
        """Return `value` on the baseline's scale: its logarithm for a gradient norm."""
        if self._logarithm:
            return math.log(value if value > 1e-30 else 1e-30)
        return value

    def expect(self, step: int) -> tuple[float, float]:
        """Return the (prediction, standard deviation) for `step`, on the baseline's scale."""
        if self._fit is None:
            self._fit, self._stale = self._refit(), 0
        centre, slope, level, deviation = self._fit
        x = math.log(step + 1.0) if step > 0 else 0.0
        # A line is not trusted far beyond its points: after a gap in the log it would promise
        # a loss that nobody has seen.
        last = self._last
        if x > last:
            first = self._x.item(self._end - self.window if self._end > self.window else 0)
            furthest = last + (last - first) / 4
            x = min(x, furthest)
        return level + slope * (x - centre), deviation

    @property
    def level(self) -> float:
        """The level in the middle of the points, by the latest fit; 0 while there is none."""
        return 0.0 if self._fit is None else self._fit[2]

    def score(self, step: int, value: float) -> float:
        """Return how many standard deviations `value` lies over the trend."""
        predicted, deviation = self.expect(step)
        return ((self.transform(value) if self._logarithm else value) - predicted) / deviation

    def add(self, step: int, value: float) -> None:
        """Take a finite `value` into the baseline, held near the trend once there is one."""
        y = self.transform(value) if self._logarithm else value
        end = self._end
        if end >= self._enough:
            predicted, deviation = self.expect(step)
            away, reach = y - predicted, CLIP * deviation
            if away > reach:
                y = predicted + reach
            elif away < -reach:
                y = predicted - reach
        if end == len(self._x):
            self._compact()
            end = self._end
        self._last = math.log(step + 1.0) if step > 0 else 0.0
        self._x[end] = self._last
        self._y[end] = y
        self._end = end + 1
        self._trail.add(self._last, y)
        self._stale += 1
        if self._stale >= REFIT or self._end < 2 * self._least:
            self._fit = None

    def restart(self, keep: int) -> None:
        """Forget all but the last `keep` points, and judge again from 16 on."""
        held = min(keep, self.points)
        first = self._end - held
        self._x[:held] = self._x[first : self._end]
        self._y[:held] = self._y[first : self._end]
        self._end = held
        self._enough = min(self._least, LEAST_AFTER_RESTART)
        self._fit = None

    def rewind(self, step: int) -> None:
        """Say that the run goes on from `step`, before the points held.

        They are moved to where the run was then, so that it is judged by its level of that time;
        where that is not known any more, it is learned anew.
        """
        x = math.log(step + 1.0) if step > 0 else 0.0
        then, now = self._trail.level(x), self._trail.level(self._last)
        self._trail.cut(x)
        if then is None or now is None:
            self._end, self._fit = 0, None
            return
        held = slice(max(self._end - self.window, 0), self._end)
        self._x[held] += x - self._last
        self._y[held] += then - now
        self._last, self._fit = x, None

    def state_dict(self) -> dict[str, Any]:
        """Return the points held, as JSON."""
        first = self._end - self.points
        return {
            "x": self._x[first : self._end].tolist(),
            "y": self._y[first : self._end].tolist(),
            "enough": self._enough,
            "fit": None if self._fit is None else list(self._fit),
            "stale": self._stale,
            "trail": self._trail.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the points of `state_dict` back."""
        held = len(state["x"])
        self._x[:held] = state["x"]
        self._y[:held] = state["y"]
        self._end, self._enough = held, state["enough"]
        self._last = float(self._x[held - 1]) if held else 0.0
        fit = state["fit"]
        self._fit = None if fit is None else (fit[0], fit[1], fit[2], fit[3])
        self._stale = state["stale"]
        self._trail.load_state_dict(state["trail"])

    def _compact(self) -> None:
        held = self.window
        self._x[:held] = self._x[-held:]
        self._y[:held] = self._y[-held:]
        self._end = held

    def _refit(self) -> tuple[float, float, float, float]:
        first = self._end - self.points
        x, y = self._x[first : self._end], self._y[first : self._end]
        count = len(x)
        centre, mean = float(np.add.reduce(x)) / count, float(np.add.reduce(y)) / count
        away = x - centre
        spread = float(away.dot(away))
        slope = float(away.dot(y)) / spread if spread > 0 else 0.0
        # The arrays of this point are used up in place: allocations are most of the cost.
        away *= slope
        away += mean
        rest = np.subtract(y, away, out=away)
        newest = rest[-max(8, self.window // 8) :].copy()
        middle = _median(rest)
        rest -= middle
        spread = _median(np.abs(rest, out=rest))
        # A scale from few points is often too small; the margin fades as points come in.
        deviation = MAD_TO_SD * spread * (1 + SMALL_SAMPLE / count)
        # Where a steep curve bends away from the line, the newest points lie above it; the
        # prediction follows them up, never down, so a bend is not taken for a rise.
        bend = max(0.0, _median(newest) - middle)
        scale = abs(mean) if self._relative else 1.0
        return centre, slope, mean + middle + bend, max(deviation, self._floor * scale, 1e-12)


class Trail:
    """Where a signal was in the whole run so far: at most `MOST` means of equally many points."""

    EACH, MOST = 16, 256

    def __init__(self) -> None:
        self._marks: list[tuple[float, float]] = []
        self._each = self.EACH
        self._sums = [0.0, 0.0, 0.0]

    def add(self, x: float, y: float) -> None:
        """Take a point."""
        sums = self._sums
        sums[0] += 1
        sums[1] += x
        sums[2] += y
        if sums[0] < self._each:
            return
        self._marks.append((sums[1] / sums[0], sums[2] / sums[0]))
        self._sums = [0.0, 0.0, 0.0]
        if len(self._marks) == self.MOST:
            pairs = zip(self._marks[::2], self._marks[1::2], strict=True)
            self._marks = [((a + c) / 2, (b + d) / 2) for (a, b), (c, d) in pairs]
            self._each *= 2

    def level(self, x: float) -> float | None:
        """Return the level at `x`, None before the first mark."""
        if not self._marks or x < self._marks[0][0]:
            return None
        places, levels = zip(*self._marks, strict=True)
        return float(np.interp(x, places, levels))

    def cut(self, x: float) -> None:
        """Forget what came after `x`."""
        self._marks = [mark for mark in self._marks if mark[0] <= x]
        self._sums = [0.0, 0.0, 0.0]

    def state_dict(self) -> dict[str, Any]:
        """Return the marks as JSON."""
        marks = [list(mark) for mark in self._marks]
        return {"marks": marks, "each": self._each, "sums": list(self._sums)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self._marks = [(float(x), float(y)) for x, y in state["marks"]]
        self._each, self._sums = state["each"], list(state["sums"])


def _median(values: NDArray[np.float64]) -> float:
    """Return the upper median of `values`, and leave them in another order."""
    half = len(values) // 2
    values.partition(half)
    return values.item(half)
