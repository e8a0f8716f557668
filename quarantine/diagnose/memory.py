"""How much of a deviation is left over from the point before it.

Where a run's noise is correlated (small batches, data that come in order), three high points in
a row are less of a surprise than in white noise. The lag-one correlation of the run's own
deviations is kept, and each deviation is judged by what is new in it.
"""

from __future__ import annotations

import math
from typing import Any

OUTLIER = 5.0
# Before a run has shown any: one outlier in a thousand is followed by another.
PRIOR_OUTLIERS = 20.0
PRIOR_PAIRS = 0.02
HELD = 3.0
CARRIED = 4.0
DECAY = 1 - 1 / 2000
PRIOR_WEIGHT = 200.0
LARGEST = 0.95


class Memory:
    """The lag-one correlation of held deviations, over about the last two thousand points."""

    def __init__(self) -> None:
        self._product = 0.0
        self._square = PRIOR_WEIGHT
        self._last: float | None = None

    @property
    def correlation(self) -> float:
        """The correlation of neighbours, from 0 (none, or alternating) to 0.95."""
        correlation = self._product / self._square
        if correlation > 0.0:
            return correlation if correlation < LARGEST else LARGEST
        return 0.0

    def innovation(self, z: float, before: float) -> float:
        """Return what is new in `z` after `before`, in standard deviations of the new part."""
        correlation = self.correlation
        carried = before
        if before > CARRIED:
            carried = CARRIED
        elif before < -CARRIED:
            carried = -CARRIED
        return (z - correlation * carried) / math.sqrt(1 - correlation * correlation)

    def add(self, z: float) -> None:
        """Count a deviation that belongs to no event."""
        held = z
        if z > HELD:
            held = HELD
        elif z < -HELD:
            held = -HELD
        if self._last is not None:
            self._product = DECAY * self._product + held * self._last
            self._square = DECAY * self._square + held * held
        self._last = held

    def interrupt(self) -> None:
        """Say that the next deviation does not follow the last one."""
        self._last = None

    def state_dict(self) -> dict[str, Any]:
        """Return the sums as JSON."""
        return {"product": self._product, "square": self._square, "last": self._last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self._product, self._square = float(state["product"]), float(state["square"])
        self._last = state["last"]


class Pairs:
    """How often one outlier is followed by another: data that come in order bring them in pairs.

    It is asked only for the second of a row; what goes on is no pair of outliers any more.
    """

    def __init__(self) -> None:
        self._outliers = PRIOR_OUTLIERS
        self._pairs = PRIOR_PAIRS
        self._before = self._earlier = False

    @property
    def chance(self) -> float:
        """The chance that an outlier is followed by another."""
        return self._pairs / self._outliers

    def add(self, z: float) -> None:
        """Count a deviation that belongs to no event."""
        now = z > OUTLIER
        self._outliers += now
        self._pairs += now and self._before and not self._earlier
        self._before, self._earlier = now, self._before

    def interrupt(self) -> None:
        """Say that the next deviation does not follow the last one."""
        self._before = self._earlier = False

    def state_dict(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        return {
            "outliers": self._outliers,
            "pairs": self._pairs,
            "before": self._before,
            "earlier": self._earlier,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self._outliers, self._pairs = float(state["outliers"]), float(state["pairs"])
        self._before, self._earlier = bool(state["before"]), bool(state["earlier"])
