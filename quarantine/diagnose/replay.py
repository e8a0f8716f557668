"""A finished log, judged as the stream that it once was."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .config import MonitorConfig
from .events import Event
from .monitor import Monitor
from .records import LOSS
from .series import Series, rows_of

ROWS_AT_ONCE = 1 << 16


def detect(
    series: Mapping[str, Series],
    config: MonitorConfig | None = None,
    *,
    announced: Mapping[int, str] | None = None,
    advance: Callable[[int], None] | None = None,
) -> list[Event]:
    """Return the events of a finished log, as a monitor that watched it would have them.

    Steps are judged in the order of logging; other signals count at the step they were logged. A
    change that was `announced` for a step begins with the first loss that was logged from it on.
    `advance` is told now and then how many more rows are done.

    Raises:
        ValueError: there is no series named "loss".
    """
    if LOSS not in series:
        known = ", ".join(sorted(series)) or "nothing"
        raise ValueError(f"no series named 'loss' among {known}; name the loss column")
    monitor, due = Monitor(config), sorted((announced or {}).items(), reverse=True)
    for first in range(0, len(series[LOSS]), ROWS_AT_ONCE):
        judge_rows(monitor, series, first, due)
        if advance is not None:
            advance(min(ROWS_AT_ONCE, len(series[LOSS]) - first))
    return monitor.events


def judge_rows(
    monitor: Monitor,
    series: Mapping[str, Series],
    first: int = 0,
    due: list[tuple[int, str]] | None = None,
) -> None:
    """Hand the rows of `series` from row `first` of the loss on to `monitor`, 65,536 at most.

    Of `due`, changes to announce as (step, what) with the latest first, those that came are taken.
    """
    rows = slice(first, first + ROWS_AT_ONCE)
    for step, values in rows_of(series, series[LOSS].steps[rows], rows):
        while due and due[-1][0] <= step:
            monitor.announce(due.pop()[1])
        monitor.update(step, **values)
