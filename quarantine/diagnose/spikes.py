"""From one observation to one page: what is a blip, and when it is a spike.

A point far over the trend is only a blip: real runs have one-batch outliers as tall as their
worst spikes. It becomes a spike when the surprise of the last three or four points, taken
together, is beyond what the run's own tail allows, or when the gradient norm jumps with it far
beyond anything this run has shown before.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from .config import MonitorConfig
from .events import Event, event_from_state
from .recovery import CALM_Z, Recovery
from .yardstick import LEAST_PEAK, Point, Yardstick

HISTORY = 24
GRADIENT_Z = 4.0
# How much taller than a blip, and than any gradient norm before, a single point must be.
ALONE_Z = 1.6
UNHEARD_OF = 1.5
# So many points so far below the trend say that the noise is wider than it was; usually the lowest
# but one of the last 24 lies this far below it.
LOWS, DEEP_Z, USUAL_LOW_Z = 2, 3.0, 2.0


class SpikeRule:
    """Keeps the last points; opens the event they amount to, and follows it to its end."""

    def __init__(self, config: MonitorConfig) -> None:
        self.config = config
        self.yardstick = Yardstick(config)
        self.recovery: Recovery | None = None
        self._recent: deque[Point] = deque(maxlen=HISTORY)
        self._pending: deque[Point] = deque()
        self._fresh = 0
        # Points since one was tall enough to make a spike of those around it.
        self._quiet = 0
        self._blip: Event | None = None

    def judge(self, step: int, loss: float, gradient: float | None, number: int) -> list[Event]:
        """Return what this observation starts, upgrades or ends; `number` is for a new event."""
        last = self._recent[-1] if self._recent else None
        earlier = self._recent[-2].z if len(self._recent) > 1 else 0.0
        point = self.yardstick.measure(step, loss, gradient, last, earlier)
        self._recent.append(point)
        if self.recovery is not None:
            return self._follow(self.recovery, point, number)
        if self._fresh < HISTORY:
            self._fresh += 1
        self._quiet = 0 if point.z > LEAST_PEAK else self._quiet + 1
        if self._quiet < self.config.persist and (self._persists() or self._agrees(point)):
            page = self._page(point, self._blip.number if self._blip else number)
            self._open(page, point)
            return [page]
        self._settle(point)
        return self._record(point, number)

    def interrupt(self) -> None:
        """Say that the next point does not follow the last one."""
        self._fresh, self._blip = 0, None
        self._pending.clear()
        self._recent.clear()

    def rewound(self, step: int) -> None:
        """Say that the run goes on from an earlier `step`: an open event is left behind."""
        self.recovery = None
        self.interrupt()
        self.yardstick.rewind(step)

    def restart(self) -> None:
        """Forget the trend: what comes next is learned before it is judged."""
        self.yardstick.restart([], gradient=True)
        self.recovery = None
        self.interrupt()

    def spacing(self) -> int:
        """Return how many steps apart the last points are."""
        if len(self._recent) < 2:
            return 1
        return max(1, self._recent[-1].step - self._recent[-2].step)

    def accept(self, points: list[tuple[int, float]]) -> Event | None:
        """Judge from the level of `points` on; return the open event, ended by that."""
        ended = None
        if self.recovery is not None:
            note = "the new level was accepted after the change"
            ended = self.recovery.event.changed(end=points[-1][0], note=note)
            self.recovery = None
        self.yardstick.restart(points, gradient=True)
        self.interrupt()
        return ended

    def _follow(self, recovery: Recovery, point: Point, number: int) -> list[Event]:
        changed = recovery.update(point, self.yardstick, number)
        if not recovery.open:
            self.recovery, self._fresh = None, 0
        return changed

    def _persists(self) -> bool:
        points = list(self._recent)[-min(self._fresh, self.config.persist) :]
        tallest = max(point.z for point in points)
        if not self.yardstick.surprising([point.surprise for point in points], tallest):
            return False
        wider = self._wider()
        return wider <= 1 or self.yardstick.surprising(
            [self.yardstick.tail.surprise(point.news / wider) for point in points], tallest / wider
        )

    def _wider(self) -> float:
        """Return by how much the noise has grown of late, by points far below the trend.

        The window sees wider noise only later. Outliers of a loss lie over its trend, so two deep
        points among the last are noise, and an event has none.
        """
        lows = sorted(point.z for point in list(self._recent)[-self._fresh :])
        if len(lows) < LOWS or lows[LOWS - 1] > -DEEP_Z:
            return 1.0
        return -lows[LOWS - 1] / USUAL_LOW_Z

    def _agrees(self, point: Point) -> bool:
        return (
            point.z > ALONE_Z * self.config.blip_z
            and point.gradient_ratio > self.config.gradient_jump
            and point.gradient_z > UNHEARD_OF * self.yardstick.largest_gradient_z
        )

    def _page(self, point: Point, number: int) -> Event:
        onset, signals = self._onset()
        inside = [past for past in self._recent if past.step >= onset]
        peak = max(inside, key=lambda past: past.loss)
        return Event(
            number=number,
            kind="spike",
            onset=onset,
            detected=point.step,
            peak=peak.loss,
            peak_step=peak.step,
            z=max(past.z for past in inside),
            baseline=self.yardstick.loss.expect(onset)[0],
            signals=signals,
            page=True,
            note="the loss left its trend and stayed off it",
        )

    def _onset(self) -> tuple[int, tuple[str, ...]]:
        """Walk back while loss or gradient norm is off its trend; one quiet point may interrupt."""
        onset, quiet, gradient = self._recent[-1].step, 0, False
        for point in list(self._recent)[::-1][: self._fresh]:
            if point.z > CALM_Z or point.gradient_z > GRADIENT_Z:
                onset, quiet = point.step, 0
                gradient = gradient or point.gradient_z > GRADIENT_Z
            else:
                quiet += 1
                if quiet > 1:
                    break
        return onset, ("loss", "grad_norm") if gradient else ("loss",)

    def _open(self, event: Event, point: Point) -> None:
        self.recovery = Recovery(self.config, event, [(point.step, point.loss)])
        self._blip = None
        self._pending.clear()
        self.yardstick.memory.interrupt()
        self.yardstick.pairs.interrupt()

    def _settle(self, point: Point) -> None:
        """Learn from the points that are old enough to belong to no event."""
        self._pending.append(point)
        if len(self._pending) > self.config.persist:
            self.yardstick.settle(self._pending.popleft())

    def _record(self, point: Point, number: int) -> list[Event]:
        """Return the blip that this point is, which may go on with one a few points earlier."""
        if self._blip is not None and self._age(self._blip) > self.config.persist:
            self._blip = None
        if point.z <= self.config.blip_z:
            return []
        if self._blip is None:
            self._blip = self._new_blip(point, number)
        elif point.loss > self._blip.peak:
            self._blip = self._blip.changed(peak=point.loss, peak_step=point.step, z=point.z)
        return [self._blip]

    def _age(self, event: Event) -> int:
        return sum(point.step > event.onset for point in self._recent)

    def _new_blip(self, point: Point, number: int) -> Event:
        return Event(
            number=number,
            kind="blip",
            onset=point.step,
            detected=point.step,
            peak=point.loss,
            peak_step=point.step,
            z=point.z,
            baseline=self.yardstick.loss.expect(point.step)[0],
            signals=("loss", "grad_norm") if point.gradient_z > GRADIENT_Z else ("loss",),
            page=False,
            note="one high loss; it pages only if the next points stay high",
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything that decides the next answer, as JSON."""
        return {
            "yardstick": self.yardstick.state_dict(),
            "recovery": self.recovery.state_dict() if self.recovery else None,
            "recent": [point.to_state() for point in self._recent],
            "pending": [point.to_state() for point in self._pending],
            "fresh": self._fresh,
            "quiet": self._quiet,
            "blip": self._blip.to_state() if self._blip else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self.yardstick.load_state_dict(state["yardstick"])
        self._recent = deque((Point(**each) for each in state["recent"]), maxlen=HISTORY)
        self._pending = deque(Point(**each) for each in state["pending"])
        self._fresh, self._quiet = state["fresh"], state["quiet"]
        self._blip = event_from_state(state["blip"]) if state["blip"] else None
        self.recovery = None
        if state["recovery"] is not None:
            self.recovery = Recovery.from_state(self.config, state["recovery"])
