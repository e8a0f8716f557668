"""What an incident is told that its run did not record: what machines reported, the learning rate
that was planned, and what other runs did.

It is stored with the incident, so that whoever asks for the causes later, the postmortem above all,
weighs it too. It is about the spike at hand: where the incident is reopened on another one, it is
asked for anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import FormatError, UsageError
from ..diagnose.events import Event
from ..diagnose.evidence import HardwareSign, Twin
from ..diagnose.series import Series
from ..diagnose.signals import read_signal
from .narrative import count
from .safe_text import visible

if TYPE_CHECKING:
    from .incident import Incident

NAME = "testimony"
KINDS = ("hardware", "schedule", "twins")
RATE = "lr"
MOST_NAMED = 8
MOST_POINTS = 4096
"""Of a schedule, the last ones up to the spike; what comes later says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was told; `twins` are named by their logs, `schedule` is the planned learning rate."""

    hardware: tuple[HardwareSign, ...] = ()
    schedule: Series | None = None
    twins: Mapping[str, Twin] = field(default_factory=dict)

    def joined(self, later: Told) -> Told:
        """Return both together: signs once each, and of a schedule or one log the later word."""
        return Told(
            hardware=tuple(dict.fromkeys((*self.hardware, *later.hardware))),
            schedule=self.schedule if later.schedule is None else later.schedule,
            twins={**self.twins, **later.twins},
        )

    def without(self, kinds: Iterable[str]) -> Told:
        """Return all but what is of `kinds`, some of "hardware", "schedule" and "twins"."""
        nothing = Told()
        return replace(self, **{kind: getattr(nothing, kind) for kind in kinds})

    def describe(self) -> str:
        """Return it in words, for the timeline: the first few; the evidence has all."""
        words = [sign.what for sign in self.hardware]
        if self.schedule is not None:
            words.append(f"a planned learning rate, {count(len(self.schedule), 'point')}")
        for log, twin in self.twins.items():
            data = "the same" if twin.same_data else "other"
            does = "has it too" if twin.coincides else "does not have it"
            words.append(f"{visible(log, 200)}, on {data} data, {does}")
        more = [f"and {len(words) - MOST_NAMED} more"] if len(words) > MOST_NAMED else []
        return "; ".join(words[:MOST_NAMED] + more) or "nothing"

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        plan = self.schedule
        points = None if plan is None else [plan.steps.tolist(), plan.values.tolist()]
        return {
            "hardware": [asdict(sign) for sign in self.hardware],
            "schedule": points,
            "twins": {log: asdict(twin) for log, twin in self.twins.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Told:
        """Return what `to_json` gave."""
        points = value["schedule"]
        return cls(
            hardware=tuple(HardwareSign(**sign) for sign in value["hardware"]),
            schedule=None if points is None else _schedule(*points),
            twins={log: Twin(**twin) for log, twin in value["twins"].items()},
        )


def told(incident: Incident) -> Told:
    """Return what `incident` was told about the spike that it is about now."""
    since = incident.opening().sequence
    for event in reversed(incident.events()):
        if event.sequence > since and event.summary.get("name") == NAME:
            return Told.from_json(incident.evidence(event, NAME))
    return Told()


def reported(words: Iterable[str]) -> tuple[HardwareSign, ...]:
    """Return what machines reported as signs of no known step.

    Raises:
        UsageError: a report says nothing.
    """
    signs = tuple(HardwareSign(step=None, what=visible(word.strip(), 200)) for word in words)
    if not all(sign.what for sign in signs):
        raise UsageError("--hardware is blank; say what the machine reported, such as 'XID 79'")
    return signs


def planned_rate(path: Path, event: Event) -> Series:
    """Return the learning rate that the log or table at `path` gives up to `event`.

    Raises:
        UsageError: it begins after the event.
        FormatError: it has no column of steps or of rates, or holds something else than finite
            numbers.
    """
    found = read_signal(path, RATE)
    odd = ~np.isfinite(found.values)
    if odd.any():
        raise FormatError(
            f"{path} plans a learning rate of {found.values[odd][0]} at step "
            f"{found.steps[odd][0]}; give numbers, or leave the row out"
        )
    order = np.argsort(found.steps, kind="stable")
    steps, values = found.steps[order], found.values[order]
    before = steps <= event.detected
    if not before.any():
        raise UsageError(
            f"{path} plans the learning rate from step {steps[0]} on, and the event of step "
            f"{event.onset} was paged at step {event.detected}; give the plan of the steps before"
        )
    return _schedule(steps[before][-MOST_POINTS:], values[before][-MOST_POINTS:])


def _schedule(steps: Any, values: Any) -> Series:
    return Series(name=RATE, steps=np.asarray(steps, np.int64), values=np.asarray(values, float))
