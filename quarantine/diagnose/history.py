"""What the monitor saw before an event: earlier pages and changes of context, as evidence."""

from __future__ import annotations

from collections.abc import Mapping

from .config import MonitorConfig
from .context import WATCHED
from .events import Event
from .evidence import Change, changes_from
from .records import LOSS
from .replay import detect
from .series import Series

REACH = 20_000
"""Steps before an event that are judged again."""
FEWEST = 64
_JUDGED = (LOSS, "grad_norm", *WATCHED)


def history_of(
    series: Mapping[str, Series], event: Event, announced: Mapping[int, str] | None = None
) -> tuple[tuple[Change, ...], tuple[Event, ...]]:
    """Return the changes of context up to `event`, and the pages that were over when it began.

    The monitor judges the last 20,000 steps of the series anew, knowing what was `announced` for
    which step; a run whose event falls into the usual warm-up is judged as a short one. Nothing is
    known of fewer than 64 logged losses.
    """
    first = event.onset - REACH
    judged = {
        name: _within(series[name], first, event.detected) for name in _JUDGED if name in series
    }
    points = len(judged[LOSS]) if LOSS in judged else 0
    if points < FEWEST:
        return (), ()
    usual = MonitorConfig()
    short = event.onset <= usual.warmup_steps + usual.least_points
    events = detect(
        judged,
        MonitorConfig.for_short_run(points) if short else usual,
        announced={step: what for step, what in (announced or {}).items() if step >= first},
    )
    earlier = tuple(each for each in events if each.page and each.detected < event.onset)
    return changes_from(events), earlier


def _within(series: Series, first: int, last: int) -> Series:
    inside = (series.steps >= first) & (series.steps <= last)
    return Series(name=series.name, steps=series.steps[inside], values=series.values[inside])
