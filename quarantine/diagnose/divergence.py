"""A climb too slow for any single point to show: the smoothed loss against its own best."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .config import MonitorConfig

NOISE_MARGIN = 1.5
WANDERS = 6.0
REARM = 0.3
# A level so many margins over the best is no slow climb any more, and is not waited for.
FAR = 3.0
# A median of 32 points hardly moves in four.
EVERY = 4
# Points by which the median of 32 lags behind a jump.
LAG = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """A slow divergence: where it began, where it had risen, the level before it and now."""

    since: int
    risen: int
    best: float
    level: float
    noise: float


class ClimbRule:
    """Fires once when the median of the last points has stayed above its best for long enough.

    The margin is the larger of a share of the loss and of the run's own noise, so neither a
    coarse log nor a noisy one is called a climb.
    """

    def __init__(self, config: MonitorConfig) -> None:
        self.config = config
        self._last: deque[float] = deque(maxlen=32)
        self._level: float | None = None
        self._best = float("inf")
        self._near_step = 0
        self._seen = 0
        self._above = self._far = 0
        self._above_since: int | None = None
        self._armed = True

    @property
    def level(self) -> float | None:
        """The median of the last points; None while there are too few."""
        return self._level

    def restart(self) -> None:
        """Forget the best level: the run is judged from here on."""
        self._last.clear()
        self._level = None
        self._best, self._above, self._above_since, self._armed = float("inf"), 0, None, True
        self._far = 0

    def lifted(self, height: float, losses: Iterable[float]) -> None:
        """Say that a change of context lifted the loss by `height`, to where `losses` are now."""
        self._best += max(height, 0.0)
        # The median must not fall back to what came before, which would be the best again.
        self._last.clear()
        self._last.extend(losses)

    def followed(self) -> None:
        """Say that a spike is open: how far the level stands is known, and told at its end."""
        self._far = 0

    def update(self, step: int, loss: float, correlation: float = 0.0) -> Climb | None:
        """Return the climb that this observation completes.

        `correlation` is that of neighbouring losses: where it is high a median wanders, and its
        best is lower than any level that the run has kept.
        """
        self._last.append(loss)
        self._seen += 1
        if len(self._last) < 16 or self._seen % EVERY:
            return None
        self._level = level = _median(self._last)
        noise = 1.4826 * _median([abs(value - level) for value in self._last])
        self._best = min(self._best, level)
        wandering = NOISE_MARGIN + WANDERS * correlation**4
        margin = max(self.config.divergence_rise * abs(self._best), wandering * noise)
        if level < self._best + REARM * margin:
            # On a flat curve the best is any of many steps: the climb begins where it is left.
            self._armed, self._near_step = True, step
        if level <= self._best + margin:
            self._above, self._far, self._above_since = 0, 0, None
            return None
        self._far = self._far + EVERY if level > self._best + FAR * margin else 0
        return self._count(step, level, noise)

    def _count(self, step: int, level: float, noise: float) -> Climb | None:
        self._above += EVERY
        since = self._above_since = self._above_since or step
        points = self.config.divergence_points
        lasting = self._above >= points and step - since >= self.config.divergence_steps
        long_enough = lasting or self._far >= points
        if not (self._armed and long_enough):
            return None
        self._armed = False
        return Climb(since=self._near_step, risen=since, best=self._best, level=level, noise=noise)

    def state_dict(self) -> dict[str, Any]:
        """Return the rule's state as JSON."""
        return {
            "last": list(self._last),
            "best": None if self._best == float("inf") else self._best,
            "near_step": self._near_step,
            "seen": self._seen,
            "above": self._above,
            "far": self._far,
            "above_since": self._above_since,
            "armed": self._armed,
            "level": self._level,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self._last = deque(state["last"], maxlen=32)
        self._best = float("inf") if state["best"] is None else state["best"]
        self._near_step, self._above = state["near_step"], state["above"]
        self._seen = state["seen"]
        self._above_since, self._armed = state["above_since"], state["armed"]
        self._level = state["level"]
        self._far = state.get("far", 0)


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
