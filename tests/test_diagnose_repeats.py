"""A pattern that repeats pages once with its ordering named, and what leaves it pages again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers_diagnose import Array, curve, pages, watch

from shardward.quarantine.diagnose.events import Event
from shardward.quarantine.diagnose.monitor import Monitor
from shardward.quarantine.diagnose.repeats import regular_gap

POINTS = 5000
PLACES = np.arange(POINTS)


def square(period: int, high: int, rise: float = 0.3) -> Array:
    """Return a level that is higher for the first `high` points of each period, from 1,000 on."""
    inside = (PLACES % period < high) & (PLACES >= 1000)
    return np.where(inside, rise, 0.0)


def rises(events: list[Event]) -> list[Event]:
    return [event for event in events if event.kind in ("spike", "divergence")]


@pytest.mark.parametrize(("period", "high"), [(400, 60), (500, 250), (600, 300)])
def test_a_square_of_sources_is_one_page_whose_count_grows(period: int, high: int) -> None:
    events = rises(watch(curve(POINTS) + square(period, high)))

    assert len(events) > 5
    assert [event.page for event in events] == [True] + [False] * (len(events) - 1)
    assert events[0].count == len(events)
    assert f"alike every {period} steps" in events[0].note
    assert "counted with event 1" in events[2].note


def test_slow_climbs_of_a_ramp_page_until_they_are_known() -> None:
    ramp = 0.5 * (np.arange(8000) % 1000) / 1000
    events = rises(watch(curve(8000) + ramp))

    assert len(events) >= 6
    assert sum(event.page for event in events) <= 2


def test_rises_without_a_period_all_page() -> None:
    loss = curve(POINTS)
    starts = [1000, 1400, 1700, 2500, 2900, 3900]
    for start in starts:
        loss[start : start + 60] += 0.3

    assert [event.onset for event in pages(watch(loss))] == [start + 1 for start in starts]


def test_short_spikes_on_a_beat_all_page_with_the_beat_named() -> None:
    loss = curve(POINTS)
    for start in range(1000, POINTS - 10, 500):
        loss[start : start + 6] += 0.3

    found = pages(watch(loss))

    assert [event.onset for event in found] == list(range(1001, POINTS - 9, 500))
    assert found[3].note.endswith("alike every 500 steps")


def test_a_pattern_is_announced_as_it_is_seen() -> None:
    monitor = Monitor()
    loss = curve(POINTS) + square(400, 60)
    told = [
        (step, event.number, event.page, event.count)
        for step, value in enumerate(loss.tolist(), start=1)
        for event in monitor.update(step, loss=value)
        if event.kind == "spike"
    ]

    assert [each[1:] for each in told[:5]] == [
        (1, True, 1),
        (2, True, 1),
        (3, False, 1),
        (2, False, 1),
        (1, True, 3),
    ]


def test_rises_on_the_beat_that_are_far_taller_page() -> None:
    loss = curve(POINTS) + square(400, 60)
    loss[2800:2860] += 1.5

    found = {event.onset: event.page for event in rises(watch(loss))}

    assert found[2401] is False
    assert found[2801] is True


def test_a_muted_rise_that_goes_on_rising_pages_after_all() -> None:
    loss = curve(POINTS) + square(400, 60)
    loss[2800:3100] += np.linspace(0, 3, 300)

    event = next(event for event in rises(watch(loss)) if event.onset == 2801)

    assert event.page
    assert event.detected > 2803
    assert "gone beyond it" in event.note


def test_a_muted_rise_that_does_not_end_with_its_period_pages_after_all() -> None:
    loss = curve(POINTS) + square(400, 60)
    loss[2800:] = curve(POINTS)[2800:] + 0.3

    event = next(event for event in rises(watch(loss)) if event.onset == 2801)

    assert event.page
    assert event.kind == "divergence"


def test_a_source_that_moves_with_the_rise_names_the_pattern_at_its_second() -> None:
    monitor = Monitor()
    loss = curve(POINTS)
    starts = (1000, 1700, 2900, 3500)
    share = np.full(POINTS, 0.1)
    for start in starts:
        loss[start : start + 60] += 0.3
        share[start : start + 60] = 0.9
    for step, value in enumerate(loss.tolist(), start=1):
        monitor.update(step, loss=value, **{"share/code": float(share[step - 1])})

    events = rises(monitor.events)

    assert [event.page for event in events] == [True, False, False, False]
    assert "share/code moved with it as before" in events[0].note
    assert events[0].count == 4


def test_the_state_carries_the_pattern_over() -> None:
    loss = (curve(POINTS) + square(400, 60)).tolist()
    first, second = Monitor(), Monitor()
    for step, value in enumerate(loss[:2802], start=1):
        first.update(step, loss=value)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for step, value in enumerate(loss[2802:], start=2803):
        first.update(step, loss=value)
        second.update(step, loss=value)

    assert second.events == first.events
    assert [page.count for page in second.pages] == [10]


@pytest.mark.parametrize(
    ("onsets", "period"),
    [([100, 600, 1100], 500), ([100, 590, 1110], 505), ([100, 600, 1300], None), ([5, 6], None)],
)
def test_a_period_is_two_equal_gaps(onsets: list[int], period: float | None) -> None:
    assert regular_gap(onsets) == period
