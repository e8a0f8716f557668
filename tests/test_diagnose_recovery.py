"""A level that stays high is one page, however its noise dips, and wider noise hardly any."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_diagnose import Array

from shardward.quarantine.diagnose.events import Event
from shardward.quarantine.diagnose.monitor import Monitor

SD = 0.02


def shifted(seed: int, height: float) -> Array:
    """Return a flat loss that rises by `height` standard deviations at step 3000, for good."""
    noise = np.random.default_rng(seed).normal(0, SD, 3800)
    return np.asarray(3 + noise + height * SD * (np.arange(3800) >= 3000))


def told(loss: Array) -> list[Event]:
    """Return all that a monitor tells."""
    monitor = Monitor()
    return [
        event
        for step, value in enumerate(loss.tolist())
        for event in monitor.update(step, loss=value)
    ]


@pytest.mark.parametrize("seed", [102, 107, 108, 109, 114])
def test_a_lasting_shift_of_four_deviations_is_one_page_and_never_recovers(seed: int) -> None:
    events = [event for event in told(shifted(seed, 4)) if event.kind != "blip"]

    assert [event.kind for event in events] == ["spike", "divergence"]
    assert len({event.number for event in events}) == 1


def test_a_climb_from_a_spike_that_was_told_as_recovered_is_that_spike() -> None:
    events = [event for event in told(shifted(4, 3)) if event.kind != "blip"]
    *_, last = events

    assert [event.kind for event in events] == ["spike", "recovered", "divergence"]
    assert (last.number, last.page, last.end) == (events[0].number, True, None)
    assert last.detected == events[0].detected
    assert last.drift_since is not None
    assert 2900 <= last.drift_since <= 3000


@pytest.mark.parametrize("length", [4, 12, 40])
def test_a_spike_of_any_length_recovers_soon_after_it(length: int) -> None:
    loss = shifted(3, 0)
    loss[3000 : 3000 + length] += 12 * SD
    (ended,) = [event for event in told(loss) if event.kind == "recovered"]

    assert ended.end is not None
    assert 3000 + length <= ended.end <= 3002 + length


def test_noise_that_trebles_rarely_pages_and_a_spike_in_it_does() -> None:
    false = found = 0
    for seed in range(10):
        noise = np.random.default_rng(seed).normal(0, SD, 2200)
        noise[2000:] *= 3
        false += any(event.kind == "spike" for event in told(3 + noise))
        noise[2150:2160] += 8 * 3 * SD
        found += any(event.peak_step >= 2150 for event in told(3 + noise) if event.page)

    # Seven, were points far below the trend not looked at.
    assert false <= 2
    assert found == 10
