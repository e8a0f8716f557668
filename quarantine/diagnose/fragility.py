"""How fragile a run is: its rate of spikes, the trend of it, and the share of far-out values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .events import Event
from .series import Series

WINDOW = 1000
SIGMAS = 7.0
# What pages, or is counted with a page since it came again.
HURTFUL = ("spike", "divergence", "nonfinite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragility:
    """Figures to compare runs by.

    Attributes:
        spikes_per_thousand: Events that page, or are counted with one that did, per thousand
            logged points.
        trend: The same in the second half of the log minus in the first half.
        far_share: Share of the values at least seven standard deviations from the mean of the
            thousand before them (the spike score of OLMo 2); None with fewer points.
    """

    spikes_per_thousand: float
    trend: float
    far_share: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {
            "spikes_per_thousand": self.spikes_per_thousand,
            "trend": self.trend,
            "far_share": self.far_share,
        }


def fragility(loss: Series, events: Sequence[Event]) -> Fragility:
    """Return how fragile the run was that logged `loss` and had `events`."""
    count = len(loss)
    onsets = [event.onset for event in events if event.kind in HURTFUL]
    middle = int(loss.steps[count // 2]) if count else 0
    early, late = count // 2, count - count // 2
    first = sum(onset < middle for onset in onsets)
    return Fragility(
        spikes_per_thousand=_rate(len(onsets), count),
        trend=_rate(len(onsets) - first, late) - _rate(first, early),
        far_share=far_share(loss.values),
    )


def far_share(values: NDArray[np.float64]) -> float | None:
    """Return the share of `values` far from the rolling mean of the thousand before them."""
    finite = values[np.isfinite(values) & (np.abs(values) < 1e100)]
    if len(finite) <= WINDOW:
        return None
    shifted = finite - finite.mean()
    sums = np.concatenate([[0.0], np.cumsum(shifted)])
    squares = np.concatenate([[0.0], np.cumsum(shifted**2)])
    mean = (sums[WINDOW:-1] - sums[: -WINDOW - 1]) / WINDOW
    variance = (squares[WINDOW:-1] - squares[: -WINDOW - 1]) / WINDOW - mean**2
    away = np.abs(shifted[WINDOW:] - mean)
    far = away >= SIGMAS * np.sqrt(np.maximum(variance, 1e-24))
    return float(far.mean())


def _rate(events: int, points: int) -> float:
    return 1000 * events / points if points else 0.0
