"""How surprising a deviation is in this run, and how surprising several in a row are.

Data outliers make the tail of a loss far heavier than a normal one, and differently in every
run, so the chance of a deviation is read from the run's own counts, on top of a prior that
fades. Chances of neighbouring points are combined by Fisher's method: minus the sum of their
logarithms is gamma distributed when they are independent. Each chance is held above a floor,
which keeps a pair of giant outliers from looking like a spike, whatever their height.
"""

from __future__ import annotations

import math
from typing import Any

GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)
# The tail that is assumed before a run has shown its own: normal in the middle, then one point
# in a few hundred far out, as real curves have.
PRIOR = (0.5, 0.31, 0.16, 0.068, 0.025, 0.0095, 0.0045, 0.003, 0.0022, 0.0015, 0.001, 0.0006)
PRIOR_POINTS = 500.0
FLOOR = 1e-3
LOWER_FLOOR = 1e-4
MEMORY = 20_000.0


class Tail:
    """The run's own distribution of positive deviations, constant in size."""

    def __init__(self) -> None:
        self._counts = [0.0] * len(GRID)
        self._total = 0.0
        self._surprise = self._table(FLOOR)

    def add(self, z: float) -> None:
        """Count a deviation that belongs to no event."""
        if self._total >= MEMORY:
            self._counts = [count / 2 for count in self._counts]
            self._total /= 2
        self._total += 1
        for place, edge in enumerate(GRID):
            if z <= edge:
                break
            self._counts[place] += 1
        if z > 2 or self._total % 64 == 0:
            self._surprise = self._table(FLOOR)

    def surprise(self, z: float) -> float:
        """Return minus the log of the chance of at least `z`, between 0 and -log(FLOOR)."""
        if z <= 0:
            return -math.log1p(-0.5) * math.exp(z)
        table = self._surprise
        for place in range(1, len(GRID)):
            if z < GRID[place]:
                low, high = GRID[place - 1], GRID[place]
                share = (z - low) / (high - low)
                return table[place - 1] * (1 - share) + table[place] * share
        return table[-1]

    def state_dict(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        return {
            "counts": list(self._counts),
            "total": self._total,
            "surprise": list(self._surprise),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the counts of `state_dict` back."""
        self._counts = [float(count) for count in state["counts"]]
        self._total = float(state["total"])
        # The table is not renewed at every point, so the one in use is part of the state.
        self._surprise = [float(each) for each in state["surprise"]]

    def rarity(self, z: float) -> float:
        """Return the surprise of at least `z` with a lower floor, for one that stands by itself."""
        place = sum(z > edge for edge in GRID[1:])
        return self._table(LOWER_FLOOR)[place]

    def _table(self, floor: float) -> list[float]:
        table, least = [], 0.0
        for count, prior in zip(self._counts, PRIOR, strict=True):
            chance = (count + PRIOR_POINTS * prior) / (self._total + PRIOR_POINTS)
            least = max(least, -math.log(max(min(chance, 1.0), floor)))
            table.append(least)
        return table


def combined_chance(surprise: float, points: int) -> float:
    """Return the chance that `points` independent deviations add up to `surprise` or more."""
    term = total = 1.0
    for order in range(1, points):
        term *= surprise / order
        total += term
    return math.exp(-surprise) * total


def surprise_needed(chance: float, points: int) -> float:
    """Return the sum of surprises whose combined chance is `chance` (bisection, pure)."""
    low, high = 0.0, 200.0
    for _ in range(60):
        middle = (low + high) / 2
        if combined_chance(middle, points) > chance:
            low = middle
        else:
            high = middle
    return high
