"""A loss that measures nothing any more: almost nothing of its level, or the same for ever.

So it is when all labels are masked, when the labels leak into the input, or when the trainer logs
one value again and again.
"""

from __future__ import annotations

from typing import Any

from .config import MonitorConfig

# A training loss does not fall to a tenth of its trend from one point to the next.
LEFT_OVER = 0.1
BACK = 0.5
# Rounded losses repeat themselves; a run that has shown how long is believed up to four times that.
LONGER = 4
# A value of so few decimals may be rounded, where the gradient norm shows that the run goes on.
COARSE = 2


class CollapseRule:
    """Opens when the loss has collapsed, closes when it is back."""

    def __init__(self, config: MonitorConfig) -> None:
        self._persist = config.persist
        self._enough = config.finite_points
        self._varied = config.least_points
        self._accept = config.divergence_steps
        self.number: int | None = None
        self.since = 0
        self._low = 0
        self._last: float | None = None
        self._same_since = 0
        self._same, self._longest, self._changes = 0, 0, 0
        self._norm: float | None = None
        self._lively = False

    @property
    def frozen(self) -> bool:
        """Whether the loss has not changed at all, as far as is known."""
        return self._low == 0

    def falls(self, step: int, loss: float, level: float, deviation: float) -> bool:
        """Return whether `loss` completes a fall to almost nothing of the trend's `level`."""
        if not (level > 10 * deviation and abs(loss) < LEFT_OVER * level):
            self._low = 0
            return False
        self.since = step if self._low == 0 else self.since
        self._low += 1
        return self._low == self._persist

    def freezes(self, step: int, loss: float, gradient: float | None) -> bool:
        """Return whether `loss` has now been the same for far longer than ever before.

        `gradient` is a usable gradient norm or None; while it changes, a loss that does not is
        only rounded.
        """
        if gradient is not None:
            self._lively = self._lively or (self._norm is not None and gradient != self._norm)
            self._norm = gradient
        if loss != self._last:
            self._longest = max(self._longest, self._same)
            self._last, self._same, self._same_since = loss, 1, step
            self._lively = False
            self._changes += 1
            return False
        self._same += 1
        if self._changes == 1:
            self.since = self._same_since
            return self._never_moved(step, loss)
        if self._lively or self._changes < self._varied:
            return False
        if self._same == max(self._enough, LONGER * self._longest):
            self.since = self._same_since
            return True
        return False

    def _never_moved(self, step: int, loss: float) -> bool:
        """Whether a loss that has been the same from the first is no measurement."""
        if self._lively and loss == round(loss, COARSE):
            return False
        return self._same >= self._enough and step - self._same_since >= self._accept

    def may_fall(self, loss: float, level: float) -> bool:
        """Whether `loss` is so far below a rough `level` that it is worth a closer look."""
        return self._low > 0 or abs(loss) < 2 * LEFT_OVER * level or level == 0

    def ended(self, loss: float, level: float) -> bool:
        """Whether the open event is over: the loss has moved, or is back near its `level`.

        To be asked after `freezes`, which takes note of `loss`.
        """
        back = self._same == 1 if self.frozen else abs(loss) > BACK * level
        if back:
            self.number, self._low = None, 0
        return back

    def overdue(self, step: int) -> bool:
        """Whether the open event has lasted so long that its level, if it lives, is accepted."""
        return not self.frozen and self._same == 1 and step - self.since >= self._accept

    def interrupt(self) -> None:
        """Say that the next loss does not follow the last one."""
        self.number, self._low = None, 0
        # Equal losses that were cut off have not shown that they would have ended.
        self._last, self._same = None, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the rule's state as JSON."""
        return {
            "number": self.number,
            "since": self.since,
            "low": self._low,
            "last": self._last,
            "same_since": self._same_since,
            "same": self._same,
            "longest": self._longest,
            "changes": self._changes,
            "norm": self._norm,
            "lively": self._lively,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self.number, self.since, self._low = state["number"], state["since"], state["low"]
        self._last, self._same_since = state["last"], state["same_since"]
        self._same, self._longest = state["same"], state["longest"]
        self._changes = state["changes"]
        self._norm, self._lively = state["norm"], state["lively"]
