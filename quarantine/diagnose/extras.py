"""Any other signal by name: when it left its level, and since when it has been climbing.

Cheap on purpose, a few microseconds a value: exponential averages of the compressed value
(sign * log(1 + |value|), so that any scale will do). These signals never page; they say what
moved with the loss, which layer moved first, and what has drifted for long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FAST, SLOW = 1 / 16, 1 / 64
LEAST_VALUES = 32
MOVED_Z = 8.0
BACK_Z = 4.0
FLOOR = 0.01
DRIFTED = 2.0
LEFT = 1.2
# Signals that are watched: over ten for each of three hundred layers, in 600 kB of state. Of
# those beyond, a few are named.
MOST, NAMED = 4096, 8


@dataclass(slots=True, kw_only=True)
class Extra:
    """What is kept of one signal: O(1)."""

    count: int = 0
    level: float = 0.0
    spread: float = 0.0
    moved_since: int | None = None
    size: float = 0.0
    least_size: float = math.inf
    drift_since: int | None = None

    def add(self, step: int, value: float) -> None:
        """Take a finite value."""
        y = math.copysign(math.log1p(abs(value)), value)
        self._drift(step, abs(value))
        self.count += 1
        if self.count == 1:
            self.level = y
            return
        away = abs(y - self.level)
        scale = max(1.25 * self.spread, FLOOR)
        if self.count > LEAST_VALUES and away > MOVED_Z * scale:
            self.moved_since = step if self.moved_since is None else self.moved_since
            # The level follows slowly, so that a lasting shift is accepted in the end.
            self.level += SLOW / 4 * (y - self.level)
            return
        if away < BACK_Z * scale:
            self.moved_since = None
        self.level += SLOW * (y - self.level) if self.count > 1 / SLOW else (y - self.level) / 8
        self.spread += SLOW * (away - self.spread) if self.count > 8 else away / 8

    def _drift(self, step: int, size: float) -> None:
        self.size = size if self.count == 0 else self.size + FAST * (size - self.size)
        if self.count < LEAST_VALUES:
            return
        self.least_size = min(self.least_size, self.size)
        if self.size <= LEFT * self.least_size:
            self.drift_since = None
        elif self.drift_since is None:
            self.drift_since = step


class Extras:
    """The state of every named signal."""

    def __init__(self) -> None:
        self._signals: dict[str, Extra] = {}
        self.left_out: tuple[str, ...] = ()

    def update(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of one step; those that are not finite are passed over.

        The first `MOST` names are watched, and `left_out` names the first of the others.
        """
        for name, value in values.items():
            if not math.isfinite(value):
                continue
            extra = self._signals.get(name)
            if extra is None:
                if len(self._signals) == MOST:
                    self._leave_out(name)
                    continue
                extra = self._signals[name] = Extra()
            extra.add(step, value)

    def _leave_out(self, name: str) -> None:
        if len(self.left_out) < NAMED and name not in self.left_out:
            self.left_out = (*self.left_out, name)

    def moved(self, since: int) -> dict[str, int]:
        """Return {signal: step} of what left its level at or after `since` and is still off it."""
        found = {
            name: extra.moved_since
            for name, extra in self._signals.items()
            if extra.moved_since is not None and extra.moved_since >= since
        }
        return dict(sorted(found.items(), key=lambda pair: (pair[1], pair[0])))

    def drifting(self) -> dict[str, int]:
        """Return {signal: step} of what has doubled since it was least, and when it set out."""
        return {
            name: extra.drift_since
            for name, extra in self._signals.items()
            if extra.drift_since is not None and extra.size > DRIFTED * extra.least_size
        }

    def rewound(self, step: int) -> None:
        """Say that the run goes on from `step`: what moved later is left behind."""
        for extra in self._signals.values():
            if extra.moved_since is not None and extra.moved_since >= step:
                extra.moved_since = None
            if extra.drift_since is not None and extra.drift_since >= step:
                extra.drift_since = None

    def state_dict(self) -> dict[str, Any]:
        """Return every signal's state as JSON."""
        state: dict[str, dict[str, Any]] = {}
        for name, extra in self._signals.items():
            values = asdict(extra)
            values["least_size"] = None if math.isinf(extra.least_size) else extra.least_size
            state[name] = values
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self._signals = {}
        for name, values in state.items():
            least = math.inf if values["least_size"] is None else values["least_size"]
            self._signals[name] = Extra(**values | {"least_size": least})
