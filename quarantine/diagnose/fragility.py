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
BLOCK = 1 << 16
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
    middle = int(loss.steps[len(loss) // 2]) if len(loss) else 0
    return rated(events, count=len(loss), middle=middle, far=far_share(loss.values))


def rated(
    events: Sequence[Event], *, count: int, middle: int, far: float | None, earlier: int = 0
) -> Fragility:
    """Return how fragile a run was of `count` losses, the middle one at step `middle`.

    `earlier` pages before `events` are only counted, in the first half.
    """
    onsets = [event.onset for event in events if event.kind in HURTFUL]
    early, late = count // 2, count - count // 2
    first = sum(onset < middle for onset in onsets) + earlier
    total = len(onsets) + earlier
    return Fragility(
        spikes_per_thousand=_rate(total, count),
        trend=_rate(total - first, late) - _rate(first, early),
        far_share=far,
    )


def far_share(values: NDArray[np.float64]) -> float | None:
    """Return the share of `values` far from the rolling mean of the thousand before them."""
    far = FarShare()
    far.add(values)
    return far.share()


class FarShare:
    """The share of values far from the mean of the thousand before them, in little memory.

    However the values come in parts, they are counted in the same blocks, so that the answer is
    the same.
    """

    def __init__(self) -> None:
        self._waiting: list[NDArray[np.float64]] = []
        self._count = self._seen = self._far = 0

    def add(self, values: NDArray[np.float64]) -> None:
        """Take the next values, float64 [n]; those that are not finite do not count."""
        finite = values[np.isfinite(values) & (np.abs(values) < 1e100)]
        self._waiting.append(finite)
        self._count += len(finite)
        while self._count >= BLOCK:
            waiting = np.concatenate(self._waiting)
            self._judge(waiting[:BLOCK])
            self._waiting = [waiting[BLOCK - WINDOW :]]
            self._count = len(self._waiting[0])

    def share(self) -> float | None:
        """Return the share at the end of the values; None with a thousand of them or fewer."""
        if self._count > WINDOW:
            self._judge(np.concatenate(self._waiting))
            self._waiting, self._count = [], 0
        return self._far / self._seen if self._seen else None

    def _judge(self, values: NDArray[np.float64]) -> None:
        shifted = values - values.mean()
        sums = np.concatenate([[0.0], np.cumsum(shifted)])
        squares = np.concatenate([[0.0], np.cumsum(shifted**2)])
        mean = (sums[WINDOW:-1] - sums[: -WINDOW - 1]) / WINDOW
        variance = (squares[WINDOW:-1] - squares[: -WINDOW - 1]) / WINDOW - mean**2
        away = np.abs(shifted[WINDOW:] - mean)
        far = away >= SIGMAS * np.sqrt(np.maximum(variance, 1e-24))
        self._far += int(far.sum())
        self._seen += len(far)


def _rate(events: int, points: int) -> float:
    return 1000 * events / points if points else 0.0
