"""What a run is measured with: trends of loss and gradient norm, its tail and its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .baseline import Baseline
from .config import MonitorConfig
from .memory import OUTLIER, Memory, Pairs
from .tail import Tail, surprise_needed

# Several points page only if one of them is taller than this; up to the clear height they need
# stronger evidence, since moderate noise can add up where no point stands out.
LEAST_PEAK = 4.0
CLEAR_PEAK = 5.0
STRICTER = 4.0
# Where neighbours hang together a window holds few independent points and understates the noise,
# so both heights rise, by up to this at a correlation of one.
TALLER = 3.5


@dataclass(slots=True)
class Point:
    """One judged observation; it is not changed, only cheaper to make than a frozen one.

    `z` and `gradient_z` are deviations of the loss and of the log gradient norm from their
    trends, in standard deviations of the run's noise; `gradient_ratio` is the norm over its
    trend. `news` is the part of `z` that the point before does not explain, and `surprise` how
    unlikely that is in this run.
    """

    step: int
    loss: float
    gradient: float | None
    z: float
    gradient_z: float
    gradient_ratio: float
    news: float
    surprise: float

    def to_state(self) -> dict[str, Any]:
        """Return the point as JSON."""
        return asdict(self)


class Yardstick:
    """Measures points, and learns from those that belong to no event."""

    def __init__(self, config: MonitorConfig) -> None:
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
        self.pairs = Pairs()
        self.largest_gradient_z = 0.0
        counts = range(3, config.persist + 1)
        rate = config.false_page_rate
        self._needed = {count: surprise_needed(rate, count) for count in counts}
        self._needed_low = {count: surprise_needed(rate / STRICTER, count) for count in counts}

    @property
    def ready(self) -> bool:
        """Whether a point can be measured."""
        return self.loss.ready

    def measure(
        self, step: int, loss: float, gradient: float | None, last: Point | None, earlier: float
    ) -> Point:
        """Return the point of an observation that follows `last`, and that one a deviation."""
        z = self.loss.score(step, loss)
        gradient_z, ratio = self._gradient(step, gradient)
        before = 0.0 if last is None else last.z
        news = self.memory.innovation(z, before)
        surprise = self.tail.surprise(news)
        if last is not None and before > OUTLIER and z > OUTLIER and earlier <= OUTLIER:
            surprise = self._second(surprise, news, step - last.step)
        return Point(step, loss, gradient, z, gradient_z, ratio, news, surprise)

    def _second(self, surprise: float, news: float, apart: int) -> float:
        """Return the surprise of an outlier right after another, logged `apart` steps before.

        Data that come in order are next to each other in every-step logs. Where steps lie between
        the points, the second outlier is one more by chance, and as rare as this run's are.
        """
        if apart > 1:
            return max(surprise, self.tail.rarity(news))
        return min(surprise, -math.log(self.pairs.chance))

    def surprising(self, surprises: Sequence[float], tallest: float) -> bool:
        """Whether the last three or more of `surprises` add up to more than noise would give.

        `tallest` is the largest deviation among them.
        """
        tallest -= TALLER * self.memory.correlation**4
        if tallest <= LEAST_PEAK:
            return False
        needed = self._needed if tallest > CLEAR_PEAK else self._needed_low
        total = 0.0
        for count, surprise in enumerate(reversed(surprises), start=1):
            total += surprise
            if count in needed and total > needed[count]:
                return True
        return False

    def learn(self, step: int, loss: float, gradient: float | None) -> None:
        """Take an observation into the trends without judging it."""
        self.loss.add(step, loss)
        if gradient is not None:
            self.gradient.add(step, gradient)

    def settle(self, point: Point) -> None:
        """Learn from a point that belongs to no event."""
        self.tail.add(point.news)
        self.memory.add(point.z)
        self.pairs.add(point.z)
        self.largest_gradient_z = max(self.largest_gradient_z, point.gradient_z)
        self.learn(point.step, point.loss, point.gradient)

    def restart(self, points: Sequence[tuple[int, float]], *, gradient: bool = False) -> None:
        """Judge from the level of `points`, (step, loss) pairs, instead of the trend so far."""
        self.loss.restart(0)
        for step, loss in points:
            self.loss.add(step, loss)
        if gradient:
            self.gradient.restart(len(points))
        self.memory.interrupt()
        self.pairs.interrupt()

    def rewind(self, step: int) -> None:
        """Say that the run goes on from an earlier `step`."""
        self.loss.rewind(step)
        self.gradient.rewind(step)
        self.memory.interrupt()
        self.pairs.interrupt()

    def _gradient(self, step: int, gradient: float | None) -> tuple[float, float]:
        if gradient is None or not self.gradient.ready:
            return 0.0, 1.0
        predicted, deviation = self.gradient.expect(step)
        away = self.gradient.transform(gradient) - predicted
        return away / deviation, math.exp(away if away < 60.0 else 60.0)

    def state_dict(self) -> dict[str, Any]:
        """Return everything learned, as JSON."""
        return {
            "loss": self.loss.state_dict(),
            "gradient": self.gradient.state_dict(),
            "tail": self.tail.state_dict(),
            "memory": self.memory.state_dict(),
            "pairs": self.pairs.state_dict(),
            "largest_gradient_z": self.largest_gradient_z,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self.loss.load_state_dict(state["loss"])
        self.gradient.load_state_dict(state["gradient"])
        self.tail.load_state_dict(state["tail"])
        self.memory.load_state_dict(state["memory"])
        self.pairs.load_state_dict(state["pairs"])
        self.largest_gradient_z = state["largest_gradient_z"]
