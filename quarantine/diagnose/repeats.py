"""Rises that come again and again alike, as from sources that are read in order.

Such a pattern is one event whose count grows: the first rise stays the page, with the ordering
named, and the others are counted with it. Nobody can know a pattern at its first rise: by the
period alone it is known at the third, by a source whose share moves with it at the second. A
source is read for a part of its period, so rises of a few points, however regular, are named and
go on paging.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .events import Event

TOLERANCE = 0.06
ALIKE = 2.0
MISSED_BEATS = 2
# A rise that lasts for more than its period, or stands this much taller, is not the pattern.
BEYOND = 1.5
# A source that is read in order keeps the loss up for at least this share of the period.
LASTS = 0.05


@dataclass(slots=True, kw_only=True)
class Rise:
    """One rise, as far as the next may repeat it.

    `height` is the rise over `baseline` at the page, `top` the highest that the smoothed loss
    stood over it until the next rise, `until` the last step at which it stood at half the height.
    """

    number: int
    onset: int
    baseline: float
    height: float
    sources: tuple[str, ...]
    top: float = 0.0
    until: int = 0


def regular_gap(onsets: Sequence[int]) -> float | None:
    """Return the period of the last three of `onsets`, None where their gaps differ."""
    if len(onsets) < 3:
        return None
    first, second = onsets[-2] - onsets[-3], onsets[-1] - onsets[-2]
    mean = (first + second) / 2
    if min(first, second) <= 0 or abs(first - second) > 2 * TOLERANCE * mean:
        return None
    return mean


class Repeats:
    """Knows the last rises, and whether they have been called a pattern."""

    def __init__(self) -> None:
        self._rises: list[Rise] = []
        self._on_time = False
        self._period: float | None = None
        self._leader: int | None = None
        self._count = 0
        self._news: list[tuple[int, Callable[[Event], dict[str, Any]]]] = []
        self.muted: int | None = None
        self._reach = 0.0

    def judge(
        self, event: Event, moved: Mapping[str, int], *, height: float | None = None
    ) -> Event:
        """Return the page `event`, named as a pattern, or made a notice if it is one of many.

        `moved` holds the other signals that have moved, with the step where they did, and
        `height` is that of the rise where its peak is not. What it
        changes in earlier events is told by `regrouped`.
        """
        rise = Rise(
            number=event.number,
            onset=event.onset,
            baseline=event.baseline,
            height=event.peak - event.baseline if height is None else height,
            sources=tuple(name for name in moved if name.startswith("share/")),
        )
        why, members = self._why(rise)
        self._on_time = bool(why)
        tallest = max(max(each.height, each.top) for each in [*self._rises, rise])
        self._reach = event.baseline + BEYOND * tallest
        self._rises = [*self._rises, rise][-3:]
        self.muted = None
        if not why:
            self._period = self._leader = None
            return event
        event = event.changed(note=f"{event.note}; {why}")
        return self._counted(event, members, why) if members else event

    def _counted(self, event: Event, members: list[int], why: str) -> Event:
        """Count `event` with the pattern that it belongs to."""
        if self._leader is None:
            self._leader, self._count = members[0], len(members)
            self._news += [(number, _folded(members[0])) for number in members[1:]]
        self._count += 1
        self._news.append((self._leader, _grown(self._count, why)))
        self.muted = event.number
        return event.changed(**_folded(self._leader)(event))

    def regrouped(self) -> list[tuple[int, Callable[[Event], dict[str, Any]]]]:
        """Return (number, fields to change) of earlier events, once."""
        news, self._news = self._news, []
        return news

    def rewound(self, step: int) -> None:
        """Say that the run goes on from `step`: later rises are left behind."""
        self._rises = [rise for rise in self._rises if rise.onset < step]
        self.muted = None

    def follow(self, step: int, level: float | None) -> None:
        """Take note of the smoothed loss, None while there is none."""
        if level is not None and self._rises:
            last = self._rises[-1]
            last.top = max(last.top, level - last.baseline)
            if level > last.baseline + last.height / 2:
                last.until = step

    def broken(self, event: Event, step: int, level: float | None) -> bool:
        """Whether the muted `event` is no longer like the pattern.

        `level` is the smoothed loss.
        """
        if event.end is not None:
            self.muted = None
            return False
        last, period = self._rises[-1], self._period
        late = period is not None and step - last.onset > BEYOND * period
        if late or (level is not None and level > self._reach):
            self.muted = self._period = self._leader = None
            self._on_time, self._rises = False, []
            return True
        return False

    def _why(self, rise: Rise) -> tuple[str, list[int]]:
        """Return how `rise` repeats those before it, and the numbers that it is counted with."""
        past = self._rises
        if not past or not all(_alike(each, rise) for each in past[-2:]):
            return "", []
        shared = [name for name in rise.sources if name in past[-1].sources]
        onsets = [*(each.onset for each in past), rise.onset]
        self._period = (
            self._on_beat(rise)
            or regular_gap(onsets)
            or (float(rise.onset - past[-1].onset) if shared else None)
        )
        if self._period is None:
            return "", []
        lasting = all(each.until - each.onset >= LASTS * self._period for each in past[-2:])
        if shared:
            why = f"{shared[0]} moved with it as before: sources are read in order"
            return why, [past[-1].number]
        why = f"alike every {self._period:.0f} steps"
        if lasting:
            return f"{why}, as from sources read in order", [each.number for each in past[-2:]]
        return why, []

    def _on_beat(self, rise: Rise) -> float | None:
        """Return the known period if `rise` keeps to it, a beat or two later."""
        if not self._on_time or self._period is None:
            return None
        beats = (rise.onset - self._rises[-1].onset) / self._period
        whole = round(beats)
        kept = 1 <= whole <= MISSED_BEATS and abs(beats - whole) <= 2 * TOLERANCE
        return self._period if kept else None

    def state_dict(self) -> dict[str, Any]:
        """Return what is known, as JSON."""
        return {
            "rises": [asdict(rise) | {"sources": list(rise.sources)} for rise in self._rises],
            "on_time": self._on_time,
            "period": self._period,
            "leader": self._leader,
            "count": self._count,
            "muted": self.muted,
            "reach": self._reach,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take `state_dict` back."""
        self._rises = [
            Rise(**rise | {"sources": tuple(rise["sources"])}) for rise in state["rises"]
        ]
        self._on_time, self._period = state["on_time"], state["period"]
        self._leader, self._count = state["leader"], state["count"]
        self.muted, self._reach = state["muted"], state["reach"]


def _folded(leader: int) -> Callable[[Event], dict[str, Any]]:
    return lambda event: {"page": False, "note": f"{event.note}; counted with event {leader}"}


def _grown(count: int, why: str) -> Callable[[Event], dict[str, Any]]:
    def fields(event: Event) -> dict[str, Any]:
        note = event.note if event.count > 1 else f"{event.note}; it comes again and again: {why}"
        return {"count": count, "note": note}

    return fields


def _alike(one: Rise, other: Rise) -> bool:
    low, high = sorted((one.height, other.height))
    return low > 0 and high <= ALIKE * low
