"""What becomes of a spike: it heals, it relapses, or it stays and is called a divergence.

While an event is open the trend is frozen at what it promised before, so that the event cannot
hide itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Any

from .config import MonitorConfig
from .events import Event, event_from_state
from .yardstick import Point, Yardstick

CALM_Z = 2.5
CALM_POINTS = 3
# A level that stays high dips under the calm height now and then, by chance; the median of the
# last points does not.
BACK_Z = 2.0
BACK_POINTS = 12
# A relapse is a rise after at least half of the first rise has healed.
HEALED = 0.5


class Recovery:
    """Follows one open event."""

    def __init__(
        self, config: MonitorConfig, event: Event, points: Iterable[tuple[int, float]]
    ) -> None:
        self.event = event
        self.open = True
        self._config = config
        self._calm: list[int] = []
        self._lasting: deque[tuple[int, float]] = deque(points, maxlen=max(16, config.window // 4))

    def update(self, point: Point, yardstick: Yardstick, number: int) -> list[Event]:
        """Return the event's new states after `point`, and event `number` if it relapsed."""
        self._lasting.append((point.step, point.loss))
        if point.loss > self.event.peak:
            self.event = self.event.changed(
                peak=point.loss, peak_step=point.step, z=max(self.event.z, point.z)
            )
        self._calm = [*self._calm, point.step] if point.z < CALM_Z else []
        if len(self._calm) >= CALM_POINTS and self._is_back(yardstick):
            return [self._heal(yardstick)]
        if self._relapsed(yardstick):
            return self._reopen(yardstick, number)
        if self._overdue(point):
            return [self.accept(yardstick)]
        return []

    def accept(self, yardstick: Yardstick) -> Event:
        """Call the event a divergence, and judge what follows from its level."""
        yardstick.restart(list(self._lasting))
        self.open = False
        lasted = self._lasting[-1][0] - self.event.onset
        note = f"no recovery for {lasted} steps, later events are judged from the new level"
        self.event = self.event.changed(kind="divergence", note=f"{self.event.note}; {note}")
        return self.event

    def _heal(self, yardstick: Yardstick) -> Event:
        # What came after the peak tells the trend where the loss has come to rest, so that the
        # end of a slow recovery is not taken for a new event.
        for step, loss in self._lasting:
            if step > self.event.peak_step:
                yardstick.loss.add(step, loss)
        self.open = False
        self.event = self.event.changed(end=self._calm[0])
        return self.event

    def _is_back(self, yardstick: Yardstick) -> bool:
        last = list(self._lasting)[-BACK_POINTS:]
        return median(yardstick.loss.score(step, loss) for step, loss in last) < BACK_Z

    def _overdue(self, point: Point) -> bool:
        return (
            point.step - self.event.onset >= self._config.divergence_steps
            and len(self._lasting) == self._lasting.maxlen
        )

    def _relapsed(self, yardstick: Yardstick) -> bool:
        """Whether a half-healed loss has risen again, against its own level in between."""
        between = self._between()
        if between is None:
            return False
        level = median(loss for _, loss in between)
        if level - self.event.baseline > HEALED * (self.event.peak - self.event.baseline):
            return False
        _, deviation = yardstick.loss.expect(self._lasting[-1][0])
        risen = [(loss - level) / deviation for _, loss in self._newest()]
        news = [
            yardstick.memory.innovation(z, before)
            for z, before in zip(risen, [0.0, *risen[:-1]], strict=True)
        ]
        surprises = [yardstick.tail.surprise(each) for each in news]
        return yardstick.surprising(surprises, max(risen))

    def _newest(self) -> list[tuple[int, float]]:
        return list(self._lasting)[-self._config.persist :]

    def _between(self) -> list[tuple[int, float]] | None:
        """Return the points from after the peak to before the newest; None while too few."""
        count = 2 * self._config.persist
        earlier = list(self._lasting)[: -self._config.persist]
        healing = [pair for pair in earlier if pair[0] > self.event.peak_step][-count:]
        return healing if len(healing) == count else None

    def _reopen(self, yardstick: Yardstick, number: int) -> list[Event]:
        """End an event that was healing, and follow the one that comes after it."""
        between = self._between()
        assert between is not None
        level = median(loss for _, loss in between)
        newest = self._newest()
        _, deviation = yardstick.loss.expect(newest[-1][0])
        onset = next(step for step, loss in newest if loss - level > CALM_Z * deviation)
        peak_step, peak = max(newest, key=lambda pair: pair[1])
        ended = self.event.changed(end=between[-1][0])
        self.event = Event(
            number=number,
            kind="spike",
            onset=onset,
            detected=newest[-1][0],
            peak=peak,
            peak_step=peak_step,
            z=(peak - level) / deviation,
            baseline=level,
            page=True,
            note="the loss rose again before it was back on its trend",
        )
        self._calm = []
        self._lasting.clear()
        self._lasting.extend(newest)
        return [ended, self.event]

    def state_dict(self) -> dict[str, Any]:
        """Return the open event and its last points as JSON."""
        return {
            "event": self.event.to_state(),
            "calm": list(self._calm),
            "lasting": [list(pair) for pair in self._lasting],
        }

    @classmethod
    def from_state(cls, config: MonitorConfig, state: dict[str, Any]) -> Recovery:
        """Return the recovery that `state_dict` described."""
        lasting = ((int(step), float(loss)) for step, loss in state["lasting"])
        recovery = cls(config, event_from_state(state["event"]), lasting)
        recovery._calm = list(state["calm"])
        return recovery
