"""Values that are not finite, and a loss scale that collapses."""

from __future__ import annotations

import math
from typing import Any, Literal

from .config import MonitorConfig

# Mixed-precision trainers search for their loss scale by overflowing; a scale this small, after
# this many reductions in a row, means that every update overflows.
SMALLEST_SCALE = 1.0
REDUCTIONS = 4
# Beyond this a loss is no measurement any more, and its square is infinite.
LARGEST_LOSS = 1e100
# A loss that breaks again within this many times the points that end an event prolongs the event.
SAME_TROUBLE = 10
# Each time it does, twice as many finite points are asked for, up to this many times.
LONGEST_DOUBT = 16
# A norm that is not finite means a skipped update: a search for the loss scale takes a few dozen
# of them in a row at most, and lowers the scale meanwhile.
NORM_STEPS = 50
NORM_POINTS = 8


def is_finite(loss: float) -> bool:
    """Whether `loss` is a number that can be averaged."""
    return abs(loss) < LARGEST_LOSS


class FiniteRule:
    """Opens when the loss is not finite, closes after enough finite ones.

    A loss that breaks again soon after is the same trouble: the event is opened again, under its
    number, and is asked to stay finite for longer.
    """

    def __init__(self, config: MonitorConfig) -> None:
        self._enough = config.finite_points
        self.number: int | None = None
        self.count = 0
        self._healed: int | None = None
        self._finite = 0
        self._since = 0
        self._doubt = 1

    def breaks(self) -> Literal["", "opens", "opens again"]:
        """Return what a broken loss does to the rule's event (a further one only prolongs it)."""
        finite, self._finite = self._finite, 0
        self.count += 1
        if self.number is not None:
            return ""
        if self._healed is not None and finite <= SAME_TROUBLE * self._enough * self._doubt:
            self.number = self._healed
            self._doubt = min(2 * self._doubt, LONGEST_DOUBT)
            return "opens again"
        self.count, self._doubt = 1, 1
        return "opens"

    def heals(self, step: int) -> int | None:
        """Count a finite loss; return the first finite step when that closes the event."""
        if self._finite == 0:
            self._since = step
        self._finite += 1
        if self.number is None or self._finite < self._enough * self._doubt:
            return None
        self._healed, self.number = self.number, None
        return self._since

    def interrupt(self) -> None:
        """Say that the run was rewound: what was broken is left behind."""
        self.number = self._healed = None
        self._finite = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the rule's state as JSON."""
        return {
            "number": self.number,
            "finite": self._finite,
            "since": self._since,
            "count": self.count,
            "healed": self._healed,
            "doubt": self._doubt,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self.number, self._healed = state["number"], state["healed"]
        self._finite, self._since = state["finite"], state["since"]
        self.count, self._doubt = state["count"], state["doubt"]


class NormRule:
    """Opens when the gradient norm has not been finite for long: no update is made any more."""

    def __init__(self, config: MonitorConfig) -> None:
        self._enough = config.finite_points
        self.number: int | None = None
        self.since = 0
        self._points = 0
        self._finite = False

    def update(self, step: int, norm: float) -> Literal["", "opens", "ends"]:
        """Return what this norm does; `since` is where it and those like it began."""
        if self._points == 0 or math.isfinite(norm) != self._finite:
            self.since, self._points, self._finite = step, 0, math.isfinite(norm)
        self._points += 1
        if self.number is not None and self._finite and self._points >= self._enough:
            self.number = None
            return "ends"
        lasting = step - self.since >= NORM_STEPS and self._points >= NORM_POINTS
        return "opens" if self.number is None and not self._finite and lasting else ""

    def search(self) -> None:
        """Say that the loss scale has just fallen: overflows so far were a search for it."""
        self._points = 0

    def interrupt(self) -> None:
        """Say that the run was rewound: what was broken is left behind."""
        self.number, self._points = None, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the rule's state as JSON."""
        return {
            "number": self.number,
            "since": self.since,
            "points": self._points,
            "finite": self._finite,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self.number, self.since = state["number"], state["since"]
        self._points, self._finite = state["points"], state["finite"]


class ScaleRule:
    """Fires once when the loss scale has fallen again and again to the least there is."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._falls = 0
        self._fired = False
        self.fell = False

    def update(self, scale: float) -> bool:
        """Return whether this loss scale completes a collapse."""
        self.fell = self._last is not None and scale < self._last
        if self.fell:
            self._falls += 1
        elif self._last is not None and scale > self._last:
            self._falls, self._fired = 0, False
        self._last = scale
        if self._fired or scale > SMALLEST_SCALE or self._falls < REDUCTIONS:
            return False
        self._fired = True
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the rule's state as JSON."""
        return {"last": self._last, "falls": self._falls, "fired": self._fired}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self._last, self._falls, self._fired = state["last"], state["falls"], state["fired"]
