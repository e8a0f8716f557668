"""Rises that come again and again alike, as from sources that are read in order.

A person is called for such a pattern once, with the ordering named; what follows of it is a
notice. Nobody can know a pattern at its first rise: by the period alone it is known at the third,
by a source whose share moves with it at the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .events import Event

TOLERANCE = 0.06
ALIKE = 2.0
MISSED_BEATS = 2
# A rise that lasts for more than its period, or stands this much taller, is not the pattern.
BEYOND = 1.5


@dataclass(slots=True, kw_only=True)
class Rise:
    """One page, as far as the next may repeat it.

    `height` is the rise over `baseline` at the page, `top` the highest that the smoothed loss
    stood over it until the next rise.
    """

    onset: int
    baseline: float
    height: float
    sources: tuple[str, ...]
    top: float = 0.0


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
        self._named = False
        self._period: float | None = None
        self.muted: int | None = None
        self._reach = 0.0

    def judge(self, event: Event, moved: Mapping[str, int]) -> Event:
        """Return the page `event`, named as a pattern, or made a notice if that was done before.

        `moved` holds the other signals that have moved, with the step where they did.
        """
        rise = Rise(
            onset=event.onset,
            baseline=event.baseline,
            height=event.peak - event.baseline,
            sources=tuple(name for name in moved if name.startswith("share/")),
        )
        why = self._why(rise)
        known, self._named = self._named and bool(why), bool(why)
        tallest = max(max(each.height, each.top) for each in [*self._rises, rise])
        self._reach = event.baseline + BEYOND * tallest
        self._rises = [*self._rises, rise][-3:]
        self.muted = event.number if known else None
        if not why:
            self._period = None
            return event
        return event.changed(page=not known, note=f"{event.note}; {why}")

    def follow(self, level: float | None) -> None:
        """Take note of the smoothed loss, None while there is none."""
        if level is not None and self._rises:
            last = self._rises[-1]
            last.top = max(last.top, level - last.baseline)

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
            self.muted, self._named, self._period, self._rises = None, False, None, []
            return True
        return False

    def _why(self, rise: Rise) -> str:
        past = self._rises
        if not past or not all(_alike(each, rise) for each in past[-2:]):
            return ""
        shared = [name for name in rise.sources if name in past[-1].sources]
        onsets = [*(each.onset for each in past), rise.onset]
        self._period = (
            self._on_beat(rise)
            or regular_gap(onsets)
            or (float(rise.onset - past[-1].onset) if shared else None)
        )
        if shared:
            return f"{shared[0]} moved with it as before: sources are read in order"
        if self._period is not None:
            return f"alike every {self._period:.0f} steps, as from sources read in order"
        return ""

    def _on_beat(self, rise: Rise) -> float | None:
        """Return the known period if `rise` keeps to it, a beat or two later."""
        if not self._named or self._period is None:
            return None
        beats = (rise.onset - self._rises[-1].onset) / self._period
        whole = round(beats)
        kept = 1 <= whole <= MISSED_BEATS and abs(beats - whole) <= 2 * TOLERANCE
        return self._period if kept else None

    def state_dict(self) -> dict[str, Any]:
        """Return what is known, as JSON."""
        return {
            "rises": [asdict(rise) | {"sources": list(rise.sources)} for rise in self._rises],
            "named": self._named,
            "period": self._period,
            "muted": self.muted,
            "reach": self._reach,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take `state_dict` back."""
        self._rises = [
            Rise(**rise | {"sources": tuple(rise["sources"])}) for rise in state["rises"]
        ]
        self._named, self._period = state["named"], state["period"]
        self.muted, self._reach = state["muted"], state["reach"]


def _alike(one: Rise, other: Rise) -> bool:
    low, high = sorted((one.height, other.height))
    return low > 0 and high <= ALIKE * low
