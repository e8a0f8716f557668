"""From one observation to one page: blips, spikes, and spikes that do not recover.

A point far over the trend is only a blip: real runs have one-batch outliers as tall as their
worst spikes. It becomes a spike when the surprise of the last three or four points, taken
together, is beyond what the run's own tail allows, or when the gradient norm jumps with it far
beyond anything this run has shown before. While a spike lasts the baseline is frozen, so that a
spike can hide neither itself nor the next one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from statistics import median
from typing import Any

from .baseline import Baseline
from .config import MonitorConfig
from .events import Event, event_from_state
from .memory import Memory
from .tail import Tail, surprise_needed

CALM_Z = 2.5
CALM_POINTS = 3
HISTORY = 24
GRADIENT_Z = 4.0
LEAST_PEAK = 4.0
HEALED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One judged observation: deviations of loss and log gradient norm from their trends."""

    step: int
    loss: float
    z: float
    gradient: float | None
    gradient_z: float
    gradient_ratio: float
    news: float
    surprise: float


class SpikeRule:
    """Keeps the last points, opens and closes the event they amount to."""

    def __init__(self, config: MonitorConfig) -> None:
        self.config = config
        self.loss = Baseline(
            window=config.window,
            floor=config.noise_floor,
            relative=True,
            least=config.least_points,
        )
        self.gradient = Baseline(
            window=config.window,
            floor=config.gradient_floor,
            relative=False,
            least=config.least_points,
            logarithm=True,
        )
        self.tail = Tail()
        self.memory = Memory()
        self.event: Event | None = None
        self._needed = {
            count: surprise_needed(config.false_page_rate, count)
            for count in range(3, config.persist + 1)
        }
        self._recent: deque[Point] = deque(maxlen=HISTORY)
        self._pending: deque[Point] = deque()
        self._fresh = 0
        self._calm = 0
        self._blip: Event | None = None
        self._lasting: deque[tuple[int, float]] = deque(maxlen=max(16, config.window // 4))
        self._largest_gradient = 0.0

    def learn(self, step: int, loss: float, gradient: float | None) -> None:
        """Take an observation into the baselines without judging it."""
        self.loss.add(step, loss)
        if gradient is not None:
            self.gradient.add(step, gradient)

    def judge(self, step: int, loss: float, gradient: float | None, number: int) -> list[Event]:
        """Return what this observation starts, upgrades or ends; `number` is for a new event."""
        point = self._point(step, loss, gradient)
        self._recent.append(point)
        if self.event is not None:
            return self._during(self.event, point, number)
        self._fresh = min(self._fresh + 1, HISTORY)
        started = self._start(point, number)
        if started is not None and started.page:
            self._open(started, point)
            return [started]
        self._settle(point)
        return [started] if started is not None else []

    def _point(self, step: int, loss: float, gradient: float | None) -> Point:
        z = self.loss.score(step, loss)
        news = self.memory.innovation(z, self._recent[-1].z if self._recent else 0.0)
        gradient_z, ratio = 0.0, 1.0
        if gradient is not None and self.gradient.ready:
            predicted, deviation = self.gradient.expect(step)
            away = self.gradient.transform(gradient) - predicted
            gradient_z = away / deviation
            ratio = math.exp(min(away, 60.0))
        return Point(
            step=step,
            loss=loss,
            z=z,
            gradient=gradient,
            gradient_z=gradient_z,
            gradient_ratio=ratio,
            news=news,
            surprise=self.tail.surprise(news),
        )

    def _start(self, point: Point, number: int) -> Event | None:
        if self._persists() or self._agrees(point):
            return self._page(point, self._blip.number if self._blip else number)
        if self._blip and self._age(self._blip) > self.config.persist:
            self._blip = None
        if point.z > self.config.blip_z:
            self._blip = self._record(point, number, self._blip)
            return self._blip
        return None

    def _age(self, event: Event) -> int:
        return sum(1 for point in self._recent if point.step > event.onset)

    def _persists(self) -> bool:
        points = list(self._recent)[-min(self._fresh, self.config.persist) :]
        if max(point.z for point in points) < LEAST_PEAK:
            return False
        return self._surprising([point.surprise for point in points])

    def _surprising(self, surprises: Sequence[float]) -> bool:
        """Whether the last three or more of `surprises` add up to more than noise would give."""
        total = 0.0
        for count, surprise in enumerate(reversed(surprises), start=1):
            total += surprise
            if count in self._needed and total > self._needed[count]:
                return True
        return False

    def _agrees(self, point: Point) -> bool:
        return (
            point.z > 1.6 * self.config.blip_z
            and point.gradient_ratio > self.config.gradient_jump
            and point.gradient_z > 1.5 * self._largest_gradient
        )

    def _page(self, point: Point, number: int) -> Event:
        onset, signals = self._onset()
        predicted, _ = self.loss.expect(onset)
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
            baseline=predicted,
            signals=signals,
            page=True,
            note="the loss left its trend and stayed off it",
        )

    def _record(self, point: Point, number: int, earlier: Event | None) -> Event:
        """Return the blip of this point, which goes on with one a few points earlier."""
        if earlier is not None and earlier.peak >= point.loss:
            return earlier
        if earlier is not None:
            return earlier.changed(peak=point.loss, peak_step=point.step, z=point.z)
        predicted, _ = self.loss.expect(point.step)
        return Event(
            number=number,
            kind="blip",
            onset=point.step,
            detected=point.step,
            peak=point.loss,
            peak_step=point.step,
            z=point.z,
            baseline=predicted,
            signals=("loss", "grad_norm") if point.gradient_z > GRADIENT_Z else ("loss",),
            page=False,
            note="one high loss; it pages only if the next points stay high",
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
        self.event, self._calm, self._blip = event, 0, None
        self._pending.clear()
        self.memory.interrupt()
        self._lasting.clear()
        self._lasting.append((point.step, point.loss))

    def _settle(self, point: Point) -> None:
        """Learn from the points that are old enough to belong to no event."""
        self._pending.append(point)
        if len(self._pending) <= self.config.persist:
            return
        old = self._pending.popleft()
        self.tail.add(old.news)
        self.memory.add(old.z)
        self._largest_gradient = max(self._largest_gradient, old.gradient_z)
        self.learn(old.step, old.loss, old.gradient)

    def _during(self, event: Event, point: Point, number: int) -> list[Event]:
        self._lasting.append((point.step, point.loss))
        if point.loss > event.peak:
            event = event.changed(peak=point.loss, peak_step=point.step, z=max(event.z, point.z))
        self.event = event
        self._calm = self._calm + 1 if point.z < CALM_Z else 0
        if self._calm >= CALM_POINTS:
            return [self._close(event)]
        if self._relapsed(event):
            return self._reopen(event, number)
        if self._overdue(event, point):
            return [self._accept(event)]
        return []

    def _relapsed(self, event: Event) -> bool:
        """Whether a half-healed loss has risen again, against its own level in between."""
        points = list(self._lasting)
        new, old = points[-self.config.persist :], points[: -self.config.persist]
        old = [pair for pair in old if pair[0] > event.peak_step][-2 * self.config.persist :]
        if len(old) < 2 * self.config.persist:
            return False
        level = median(loss for _, loss in old)
        if level - event.baseline > HEALED * (event.peak - event.baseline):
            return False
        _, deviation = self.loss.expect(new[-1][0])
        risen = [(loss - level) / deviation for _, loss in new]
        before = [0.0, *risen[:-1]]
        news = [self.memory.innovation(*pair) for pair in zip(risen, before, strict=True)]
        return max(risen) > LEAST_PEAK and self._surprising(
            [self.tail.surprise(each) for each in news]
        )

    def _reopen(self, event: Event, number: int) -> list[Event]:
        """End an event that was healing, and page the one that follows it."""
        points = list(self._lasting)[-self.config.persist :]
        before = list(self._lasting)[-3 * self.config.persist : -self.config.persist]
        level = median(loss for _, loss in before)
        _, deviation = self.loss.expect(points[-1][0])
        risen = [step for step, loss in points if loss - level > CALM_Z * deviation]
        peak_step, peak = max(points, key=lambda pair: pair[1])
        ended = event.changed(end=before[-1][0])
        self.event = Event(
            number=number,
            kind="spike",
            onset=risen[0],
            detected=points[-1][0],
            peak=peak,
            peak_step=peak_step,
            z=(peak - level) / deviation,
            baseline=level,
            page=True,
            note="the loss rose again before it was back on its trend",
        )
        self._calm = 0
        self._lasting.clear()
        self._lasting.extend(points)
        return [ended, self.event]

    def _overdue(self, event: Event, point: Point) -> bool:
        return (
            point.step - event.onset >= self.config.divergence_steps
            and len(self._lasting) == self._lasting.maxlen
        )

    def _close(self, event: Event) -> Event:
        closed = event.changed(end=list(self._recent)[-CALM_POINTS].step)
        # What came after the peak tells the baseline where the loss has come to rest, so that
        # the end of a slow recovery is not taken for a new event.
        for step, loss in self._lasting:
            if step > event.peak_step:
                self.loss.add(step, loss)
        self.event, self._fresh = None, 0
        return closed

    def _accept(self, event: Event) -> Event:
        """Call a spike that stays a divergence, and judge what follows from its level."""
        self.loss.restart(0)
        for step, loss in self._lasting:
            self.loss.add(step, loss)
        self.event, self._fresh = None, 0
        return event.changed(
            kind="divergence",
            note=f"no recovery for {self._lasting[-1][0] - event.onset} steps; "
            "later events are judged from the new level",
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything that decides the next answer, as JSON."""
        return {
            "loss": self.loss.state_dict(),
            "gradient": self.gradient.state_dict(),
            "tail": self.tail.state_dict(),
            "memory": self.memory.state_dict(),
            "event": asdict(self.event) if self.event else None,
            "blip": asdict(self._blip) if self._blip else None,
            "recent": [astuple(point) for point in self._recent],
            "pending": [astuple(point) for point in self._pending],
            "lasting": list(self._lasting),
            "fresh": self._fresh,
            "calm": self._calm,
            "largest_gradient": self._largest_gradient,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self.loss.load_state_dict(state["loss"])
        self.gradient.load_state_dict(state["gradient"])
        self.tail.load_state_dict(state["tail"])
        self.memory.load_state_dict(state["memory"])
        self.event = event_from_state(state["event"])
        self._blip = event_from_state(state["blip"])
        self._recent = deque((_point(row) for row in state["recent"]), maxlen=HISTORY)
        self._pending = deque(_point(row) for row in state["pending"])
        self._lasting.clear()
        self._lasting.extend((int(step), float(loss)) for step, loss in state["lasting"])
        self._fresh, self._calm = state["fresh"], state["calm"]
        self._largest_gradient = state["largest_gradient"]


def _point(row: list[Any]) -> Point:
    names = [each.name for each in fields(Point)]
    return Point(**dict(zip(names, row, strict=True)))
