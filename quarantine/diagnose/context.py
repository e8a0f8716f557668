"""Changes of a run's context: learning rate, batch, sequence length, mixture, a resume.

A change that the log shows is judged like anything else, only its level is accepted sooner. A
change that was announced is not paged for while it settles: it is judged from where it settled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

RATE = "lr"
WATCHED = (RATE, "batch_size", "seq_len", "accumulation")
RATE_JUMP = 1.5
# Rates under this share of the largest one count as equal: near zero they are mostly rounding.
LEAST_RATE = 0.01
# So many values alike come before a jump of a batch or a length: one that differs from step to
# step, as where batches are filled by tokens, is no context.
STOOD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """A change that is settling: the smoothed loss before it, and the points seen since."""

    step: int
    signal: str
    announced: bool
    level: float | None = None
    points: tuple[tuple[int, float], ...] = ()

    def with_point(self, step: int, loss: float) -> Settling:
        """Return the settling with one more point."""
        return Settling(
            step=self.step,
            signal=self.signal,
            announced=self.announced,
            level=self.level,
            points=(*self.points, (step, loss)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A watched signal that jumped at `step` and stayed."""

    step: int
    name: str
    before: float
    value: float

    def __str__(self) -> str:
        return f"{self.name} {self.before:g} -> {self.value:g}"


class Context:
    """Notices that a watched signal jumped; a schedule that glides is no change.

    A jump counts once the next value confirms it: the short last batch of an epoch is nothing.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._stood: dict[str, int] = {}
        self._jumps: dict[str, Jump] = {}
        self._largest_rate = 0.0
        self.announced: str | None = None
        self.settling: Settling | None = None

    def begins(self, step: int, signal: str, level: float | None, *, announced: bool) -> None:
        """Say that a change begins to settle at `step`, where the smoothed loss is at `level`.

        What the log shows of an announced change, or besides it, leaves it announced, and its
        end where it is: values that go on changing would mute the run for ever.
        """
        if announced or self.settling is None or not self.settling.announced:
            if self.settling is not None and self.settling.level is not None:
                level = self.settling.level
            self.settling = Settling(step=step, signal=signal, announced=announced, level=level)

    def changed(self, step: int, values: Mapping[str, float]) -> Jump | None:
        """Return the first watched signal that is now known to have jumped."""
        found = None
        for name in WATCHED:
            value = values.get(name)
            if value is None or not math.isfinite(value):
                continue
            if name == RATE:
                self._largest_rate = max(self._largest_rate, value)
            jump = self._jumps.pop(name, None)
            before = self._last.get(name)
            self._last[name] = value
            stood = self._stood.get(name, 0)
            self._stood[name] = min(stood + 1, STOOD) if value == before else 1
            if jump is not None and self._stays(jump, value):
                found = found or jump
            elif (
                jump is None
                and before is not None
                and self._jumped(name, before, value)
                and (name == RATE or stood >= STOOD)
            ):
                self._jumps[name] = Jump(step=step, name=name, before=before, value=value)
        return found

    def _jumped(self, name: str, before: float, value: float) -> bool:
        if name != RATE:
            return value != before
        if before <= 0 or value <= 0:
            return False
        least = LEAST_RATE * self._largest_rate
        return not 1 / RATE_JUMP < max(value, least) / max(before, least) < RATE_JUMP

    def _stays(self, jump: Jump, value: float) -> bool:
        """Whether the value after a jump confirms it: a rate may glide on, a size stays."""
        if jump.name == RATE:
            return self._jumped(RATE, jump.before, value)
        return value == jump.value

    def state_dict(self) -> dict[str, Any]:
        """Return the last values and what is settling, as JSON."""
        settling = self.settling
        return {
            "last": dict(self._last),
            "stood": dict(self._stood),
            "largest_rate": self._largest_rate,
            "jumps": [asdict(jump) for jump in self._jumps.values()],
            "announced": self.announced,
            "settling": None
            if settling is None
            else {
                "step": settling.step,
                "signal": settling.signal,
                "announced": settling.announced,
                "level": settling.level,
                "points": [list(pair) for pair in settling.points],
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        self._last = dict(state["last"])
        # A state of before this was kept is taken to have stood for long.
        self._stood = dict(state.get("stood", dict.fromkeys(self._last, STOOD)))
        self._largest_rate = state.get("largest_rate", self._last.get(RATE, 0.0))
        self._jumps = {each["name"]: Jump(**each) for each in state["jumps"]}
        self.announced = state["announced"]
        self.settling = None
        if state["settling"] is not None:
            points = tuple((int(step), float(loss)) for step, loss in state["settling"]["points"])
            self.settling = Settling(**state["settling"] | {"points": points})
