"""The monitor: one page for each real event, and for nothing else.

Streaming, with constant memory, and a pure function of the values it is given: every rank that
feeds it the same reduced loss and gradient norm gets the same answer, with no communication.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ...loader.errors import FormatError
from .config import MonitorConfig
from .divergence import Climb, ClimbRule
from .events import Event, event_from_state
from .series import Series
from .spikes import SpikeRule

LOSS = "loss"
GRADIENT = "grad_norm"
STATE_VERSION = 1


class Monitor:
    """Judges a run one step at a time.

    `update` returns what that step started, upgraded or ended; `events` holds every event in
    its latest state, in order of detection.
    """

    def __init__(self, config: MonitorConfig | None = None) -> None:
        self.config = config or MonitorConfig()
        self.events: list[Event] = []
        self._rule = SpikeRule(self.config)
        self._climb = ClimbRule(self.config)
        self._broken: Event | None = None
        self._finite = 0
        self._last_step: int | None = None

    @property
    def pages(self) -> list[Event]:
        """The events that call a person."""
        return [event for event in self.events if event.page]

    def update(
        self,
        step: int,
        *,
        loss: float | None = None,
        grad_norm: float | None = None,
        **signals: float,
    ) -> list[Event]:
        """Judge one step; a signal that was not logged is left out or None.

        A gradient norm that is not finite or not positive counts as not logged: overflowed
        updates are skipped by the trainer while it searches for a loss scale.
        """
        self._last_step = step
        if loss is None:
            return []
        if not math.isfinite(loss):
            return self._nonfinite(step, loss)
        gradient = grad_norm if grad_norm is not None and _usable(grad_norm) else None
        changed = self._recover(step)
        if not self._judged(step):
            self._rule.learn(step, loss, gradient)
            if step > self.config.warmup_steps:
                self._climb.update(step, loss)
            return self._note(changed)
        changed += self._rule.judge(step, loss, gradient, self._next_number())
        climb = self._climb.update(step, loss)
        if climb is not None and self._rule.event is None:
            changed.append(self._diverged(step, loss, climb))
        return self._note(changed)

    def state_dict(self) -> dict[str, Any]:
        """Return the monitor's state, to be saved with a checkpoint.

        It is JSON, apart from the NaN and infinity that an event may hold.
        """
        return {
            "version": STATE_VERSION,
            "rule": self._rule.state_dict(),
            "climb": self._climb.state_dict(),
            "events": [asdict(event) for event in self.events],
            "broken": None if self._broken is None else self._broken.number,
            "finite": self._finite,
            "last_step": self._last_step,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict` of a monitor with the same configuration.

        Raises:
            FormatError: the state is of another version.
        """
        if state.get("version") != STATE_VERSION:
            raise FormatError(
                f"monitor state is version {state.get('version')!r}, this release reads version "
                f"{STATE_VERSION}; start the monitor anew, it needs one window to warm up"
            )
        self._rule.load_state_dict(state["rule"])
        self._climb.load_state_dict(state["climb"])
        loaded = [event_from_state(event) for event in state["events"]]
        self.events = [event for event in loaded if event is not None]
        number = state["broken"]
        self._broken = None if number is None else self.events[number - 1]
        self._finite, self._last_step = state["finite"], state["last_step"]

    def _judged(self, step: int) -> bool:
        return step > self.config.warmup_steps and self._rule.loss.ready

    def _next_number(self) -> int:
        return len(self.events) + 1

    def _note(self, changed: list[Event]) -> list[Event]:
        for event in changed:
            if event.number > len(self.events):
                self.events.append(event)
            else:
                self.events[event.number - 1] = event
            if event.kind == "divergence":
                self._climb.restart()
        return changed

    def _nonfinite(self, step: int, loss: float) -> list[Event]:
        self._finite = 0
        if self._broken is not None:
            return []
        self._broken = Event(
            number=self._next_number(),
            kind="nonfinite",
            onset=step,
            detected=step,
            peak=loss,
            peak_step=step,
            z=math.inf,
            baseline=self._rule.loss.expect(step)[0] if self._rule.loss.ready else math.nan,
            page=True,
            note="the loss is not a finite number",
        )
        return self._note([self._broken])

    def _recover(self, step: int) -> list[Event]:
        if self._broken is None:
            return []
        self._finite += 1
        if self._finite < self.config.finite_points:
            return []
        ended, self._broken = self._broken.changed(end=step), None
        return [ended]

    def _diverged(self, step: int, loss: float, climb: Climb) -> Event:
        return Event(
            number=self._next_number(),
            kind="divergence",
            onset=climb.since,
            detected=step,
            peak=loss,
            peak_step=step,
            z=(climb.level - climb.best) / max(climb.noise, 1e-12),
            baseline=climb.best,
            page=True,
            drift_since=climb.since,
            note="the smoothed loss has climbed away from its best",
        )


def detect(series: Mapping[str, Series], config: MonitorConfig | None = None) -> list[Event]:
    """Return the events of a finished log, as a monitor that watched it would have them.

    Raises:
        ValueError: there is no series named "loss".
    """
    if LOSS not in series:
        known = ", ".join(sorted(series)) or "nothing"
        raise ValueError(f"no series named 'loss' among {known}; name the loss column")
    monitor = Monitor(config)
    gradients = _by_step(series.get(GRADIENT))
    loss = series[LOSS]
    for step, value in zip(loss.steps.tolist(), loss.values.tolist(), strict=True):
        monitor.update(step, loss=value, grad_norm=gradients.get(step))
    return monitor.events


def _by_step(series: Series | None) -> dict[int, float]:
    if series is None:
        return {}
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def _usable(value: float) -> bool:
    return math.isfinite(value) and value > 0
