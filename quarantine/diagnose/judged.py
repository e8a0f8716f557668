"""A log file, judged from its first row to its last in the memory of a few of them.

It is read twice: first to learn its order, its length and what of it is no number, then as the
stream that it once was. Only a log that is out of order, or one that is a single object, is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .cells import quoted
from .config import MonitorConfig
from .events import Event
from .extras import MOST
from .fragility import FarShare, Fragility, rated
from .logfile import LogFile
from .monitor import Monitor
from .order import Order
from .reader import LogReader
from .records import PAGE
from .replay import ROWS_AT_ONCE, judge_rows
from .series import Series
from .signals import Log, held
from .stream import observations
from .thinned import Thinned

Watch = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
Losses = tuple[NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was found in a log.

    Attributes:
        points: Losses that were judged, those of one step in a row counted once.
        last_step: The largest step of a loss.
        config: The scale that was chosen for it.
        signals: The names of what was logged.
        skipped: In words, what of the log was left out.
        notes: In words, what was put in order.
        events: The events, as `Monitor.events`.
        forgotten: How many more there were, as `Monitor.forgotten`.
        curve: The loss, thinned to at most 9,600 points.
        fragile: How fragile the run was.
    """

    points: int
    last_step: int
    config: MonitorConfig
    signals: tuple[str, ...]
    skipped: tuple[str, ...]
    notes: tuple[str, ...]
    events: Sequence[Event]
    forgotten: Mapping[str, int]
    curve: Series
    fragile: Fragility

    @property
    def pages(self) -> int:
        """How many events paged, those forgotten among them."""
        return sum(event.page for event in self.events) + self.forgotten.get(PAGE, 0)

    @property
    def blips(self) -> int:
        """How many single losses were high, those forgotten among them."""
        return sum(event.kind == "blip" for event in self.events) + self.forgotten.get("blip", 0)


class _Summary:
    """What is kept of the losses while they pass."""

    def __init__(self, points: int) -> None:
        self.points, self.seen, self.middle = points, 0, 0
        self.curve, self.far = Thinned(points), FarShare()

    def add(self, steps: NDArray[np.int64], losses: NDArray[np.float64]) -> None:
        """Take the next losses."""
        if self.seen <= self.points // 2 < self.seen + len(steps):
            self.middle = int(steps[self.points // 2 - self.seen])
        self.seen += len(steps)
        self.curve.add(steps, losses)
        self.far.add(losses)


def judge_log(
    path: Path | str,
    config: Callable[[int], MonitorConfig],
    watch: Watch,
    *,
    columns: Mapping[str, str] | None = None,
) -> Judged:
    """Return what is found in the log at `path`.

    Args:
        path: A log as `signals.read_log` takes it.
        config: Gives the monitor's scale for a number of losses.
        watch: Is asked for a way to tell progress: what is done and how much of it there is.
        columns: As for `signals.read_log`.

    Raises:
        NotFound: there is no such file.
        FormatError: the log cannot be used; the message names file and row.
    """
    with LogFile(Path(path)) as file:
        reader = LogReader(file, columns or {})
        if not reader.is_streamed:
            return _held(held(reader), config, watch)
        order, signals = _survey(reader, watch)
        if order.is_unsorted:
            return _held(held(reader), config, watch)
        return _streamed(reader, order, signals, config, watch)


def _survey(reader: LogReader, watch: Watch) -> tuple[Order, set[str]]:
    order = Order()
    signals: set[str] = set()
    with watch("reading", reader.size) as advance:
        for chunk in reader.chunks():
            signals |= chunk.columns.keys()
            if "loss" in chunk.columns:
                order.add(chunk.steps[chunk.columns["loss"].rows])
            advance(reader.passed())
    reader.refuse_without(order.count)
    order.refuse_one_step(reader.path)
    return order, signals - reader.left_out


def _streamed(
    reader: LogReader,
    order: Order,
    signals: set[str],
    config: Callable[[int], MonitorConfig],
    watch: Watch,
) -> Judged:
    points = order.count - order.twice
    monitor, summary = Monitor(config(points)), _Summary(points)

    def losses() -> Iterator[Losses]:
        for part in observations(reader.chunks(), merge=order.twice > 0):
            for step, values in part.rows():
                monitor.update(step, **values)
            yield part.steps, part.losses

    _follow(losses(), summary, watch)
    log = Log(series={}, skipped=reader.skipped, notes=order.notes())
    return _judged(log, tuple(sorted(signals)), order.largest, monitor, summary)


def _held(log: Log, config: Callable[[int], MonitorConfig], watch: Watch) -> Judged:
    loss = log.series["loss"]
    monitor, summary = Monitor(config(len(loss))), _Summary(len(loss))

    def losses() -> Iterator[Losses]:
        for first in range(0, len(loss), ROWS_AT_ONCE):
            judge_rows(monitor, log.series, first)
            rows = slice(first, first + ROWS_AT_ONCE)
            yield loss.steps[rows], loss.values[rows]

    _follow(losses(), summary, watch)
    return _judged(log, tuple(sorted(log.series)), int(loss.steps.max()), monitor, summary)


def _follow(losses: Iterator[Losses], summary: _Summary, watch: Watch) -> None:
    with watch("judging", summary.points) as advance:
        for steps, values in losses:
            summary.add(steps, values)
            advance(len(steps))


def _judged(
    log: Log, signals: tuple[str, ...], last_step: int, monitor: Monitor, summary: _Summary
) -> Judged:
    events, far, forgotten = monitor.events, summary.far.share(), monitor.forgotten
    notes = log.notes
    if forgotten:
        counts = ", ".join(f"{count} of kind {kind}" for kind, count in forgotten.items())
        notes = (*notes, f"older events are only counted: {counts}")
    if monitor.unwatched:
        names = ", ".join(map(quoted, monitor.unwatched))
        notes = (*notes, f"of other signals the first {MOST} are watched, not {names}")
    return Judged(
        points=summary.seen,
        last_step=last_step,
        config=monitor.config,
        signals=signals,
        skipped=log.skipped,
        notes=notes,
        events=events,
        forgotten=forgotten,
        curve=summary.curve.series("loss"),
        fragile=rated(
            events,
            count=summary.seen,
            middle=summary.middle,
            far=far,
            earlier=forgotten.get(PAGE, 0),
        ),
    )
