"""The classic rule, for those who want it: one average far over another.

A fast and a slow exponential average of the loss; it fires when the fast one exceeds `ratio`
times the slow one, and again only after it has come back below.
"""

from __future__ import annotations

from typing import Any


class DualAverage:
    """Two exponential averages with the classic constants."""

    def __init__(
        self, *, slow: float = 0.99, fast: float = 0.9, ratio: float = 3.0, warmup: int = 500
    ) -> None:
        if not 0 < fast < slow < 1:
            raise ValueError(f"averages are {fast} and {slow}; they must rise between 0 and 1")
        if ratio <= 1:
            raise ValueError(f"ratio is {ratio}; it must be above 1")
        self._decays = (slow, fast)
        self._ratio, self._warmup = ratio, warmup
        self._averages: list[float] | None = None
        self._seen, self._above = 0, False

    def update(self, value: float) -> bool:
        """Return whether this finite value starts an alarm."""
        if self._averages is None:
            self._averages = [value, value]
        self._averages = [
            decay * average + (1 - decay) * value
            for decay, average in zip(self._decays, self._averages, strict=True)
        ]
        self._seen += 1
        slow, fast = self._averages
        above = self._seen > self._warmup and fast > self._ratio * slow
        starts = above and not self._above
        self._above = above
        return starts

    def state_dict(self) -> dict[str, Any]:
        """Return the averages as JSON."""
        return {"averages": self._averages, "seen": self._seen, "above": self._above}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self._averages = state["averages"]
        self._seen, self._above = state["seen"], state["above"]
