"""A run that cannot be judged by its trend: its loss or gradient norm is no number, its loss scale
has collapsed, or its loss measures nothing any more. Each is one event, and is paged for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .collapse import CollapseRule
from .config import MonitorConfig
from .events import Event
from .numerics import FiniteRule, NormRule, ScaleRule
from .records import Records
from .spikes import SpikeRule


class Trouble:
    """The rules that look at single values, and the events they have opened."""

    def __init__(self, config: MonitorConfig, records: Records, rule: SpikeRule) -> None:
        self._records, self._rule = records, rule
        self._finite = FiniteRule(config)
        self._norm = NormRule(config)
        self._scale = ScaleRule()
        self._collapse = CollapseRule(config)

    def scale(self, step: int, values: Mapping[str, float]) -> list[Event]:
        """Judge the loss scale, if it was logged."""
        scale = values.get("loss_scale")
        if scale is not None and not math.isfinite(scale):
            return []
        collapsed = scale is not None and self._scale.update(scale)
        if scale is not None and self._scale.fell:
            self._norm.search()
        if not collapsed:
            return []
        note = "the loss scale was reduced again and again, to the least there is"
        return [
            self._records.plain("nonfinite", step, note=note, signals=("loss_scale",), page=True)
        ]

    def norm(self, step: int, norm: float) -> list[Event]:
        """Judge whether a gradient norm is a number."""
        event = self._records.get(self._norm.number)
        does = self._norm.update(step, norm)
        if does == "ends" and event is not None:
            return [event.changed(end=self._norm.since)]
        if does != "opens" or self._finite.number is not None:
            return []
        page = self._records.plain(
            "nonfinite",
            step,
            onset=self._norm.since,
            note=f"no finite gradient norm since step {self._norm.since}: no update is made",
            signals=("grad_norm",),
            page=True,
        )
        self._norm.number = page.number
        return [page]

    def broken(self, step: int) -> list[Event]:
        """Judge a loss that is not finite."""
        does = self._finite.breaks()
        known = self._records.get(self._finite.number)
        if not does:
            return []
        if does == "opens again" and known is not None:
            times = self._finite.count
            note = f"the loss is not a finite number, {times} times since step {known.onset}"
            return [known.changed(end=None, count=known.count + 1, note=note)]
        ready = self._rule.yardstick.ready
        page = self._records.plain(
            "nonfinite",
            step,
            note="the loss is not a finite number",
            page=True,
            baseline=self._rule.yardstick.loss.expect(step)[0] if ready else math.nan,
        )
        self._finite.number = page.number
        return [page]

    def finite(self, step: int) -> list[Event]:
        """Count a finite loss; return the event that it ends."""
        event, end = self._records.get(self._finite.number), self._finite.heals(step)
        return [] if end is None or event is None else [event.changed(end=end)]

    def unjudged(self, step: int, loss: float, gradient: float | None) -> None:
        """Take note of a loss that is too early to be judged."""
        self._collapse.freezes(step, loss, gradient)

    def collapsed(self, step: int, loss: float, gradient: float | None) -> list[Event] | None:
        """Return what a loss that measures nothing starts or ends; None if it is to be judged."""
        rule, event = self._collapse, self._records.get(self._collapse.number)
        frozen = rule.freezes(step, loss, gradient)
        if event is not None:
            return self._collapsing(step, loss, event)
        if not frozen and not rule.may_fall(loss, self._rule.yardstick.loss.level):
            return None
        expected, deviation = self._rule.yardstick.loss.expect(step)
        if rule.falls(step, loss, expected, deviation):
            note = "the loss has fallen to almost nothing, so it measures nothing"
        elif frozen:
            note = f"the loss has been exactly {loss:g} since step {rule.since}"
        else:
            return None
        page = self._records.plain(
            "divergence",
            step,
            onset=rule.since,
            note=f"{note}: are its labels masked?",
            page=True,
            peak=loss,
            baseline=expected,
        )
        rule.number = page.number
        return [page.changed(z=(loss - expected) / deviation)]

    def _collapsing(self, step: int, loss: float, event: Event) -> list[Event]:
        frozen = self._collapse.frozen
        if self._collapse.ended(loss, event.baseline):
            if frozen:
                self._rule.restart()
            return [event.changed(end=step)]
        if self._collapse.overdue(step):
            self._collapse.interrupt()
            self._rule.restart()
        return []

    def is_collapse(self, event: Event) -> bool:
        """Whether `event` is the loss that measures nothing, and no rise."""
        return event.number == self._collapse.number

    def open_numbers(self) -> list[int | None]:
        """Return the numbers of the events that are open, and None for each rule without one."""
        return [self._finite.number, self._norm.number, self._collapse.number]

    def interrupt(self) -> None:
        """Say that the run was rewound: what was broken is left behind."""
        self._finite.interrupt()
        self._norm.interrupt()
        self._collapse.interrupt()

    def state_dict(self) -> dict[str, Any]:
        """Return the rules' states as JSON."""
        return {
            "finite": self._finite.state_dict(),
            "norm": self._norm.state_dict(),
            "scale": self._scale.state_dict(),
            "collapse": self._collapse.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take `state_dict` back."""
        self._finite.load_state_dict(state["finite"])
        self._norm.load_state_dict(state["norm"])
        self._scale.load_state_dict(state["scale"])
        self._collapse.load_state_dict(state["collapse"])
