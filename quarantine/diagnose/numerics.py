"""Values that are not finite, and a loss scale that collapses."""

from __future__ import annotations

from typing import Any

from .config import MonitorConfig

# Mixed-precision trainers search for their loss scale by overflowing; a scale this small, after
# this many reductions in a row, means that every update overflows.
SMALLEST_SCALE = 1.0
REDUCTIONS = 4
# Beyond this a loss is no measurement any more, and its square is infinite.
LARGEST_LOSS = 1e100


def is_finite(loss: float) -> bool:
    """Whether `loss` is a number that can be averaged."""
    return abs(loss) < LARGEST_LOSS


class FiniteRule:
    """Opens when the loss is not finite, closes after enough finite ones."""

    def __init__(self, config: MonitorConfig) -> None:
        self._enough = config.finite_points
        self.number: int | None = None
        self._finite = 0
        self._since = 0

    def breaks(self, loss: float) -> bool:
        """Whether this loss opens an event (a further one only prolongs it)."""
        if is_finite(loss):
            return False
        self._finite = 0
        return self.number is None

    def heals(self, step: int) -> int | None:
        """Count a finite loss; return the first finite step when that closes the event."""
        if self.number is None:
            return None
        if self._finite == 0:
            self._since = step
        self._finite += 1
        if self._finite < self._enough:
            return None
        self.number = None
        return self._since

    def state_dict(self) -> dict[str, Any]:
        """Return the rule's state as JSON."""
        return {"number": self.number, "finite": self._finite, "since": self._since}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self.number = state["number"]
        self._finite, self._since = state["finite"], state["since"]


class ScaleRule:
    """Fires once when the loss scale has fallen again and again to the least there is."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._falls = 0
        self._fired = False

    def update(self, scale: float) -> bool:
        """Return whether this loss scale completes a collapse."""
        if self._last is not None and scale < self._last:
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
