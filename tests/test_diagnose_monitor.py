"""What pages, what does not, and where an event is said to begin."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from helpers_diagnose import Array, curve, gradients, pages, series_of, spiked, watch
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.loader.errors import FormatError
from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.monitor import Monitor
from shardward.quarantine.diagnose.replay import detect
from shardward.quarantine.diagnose.tail import Tail

TAIL = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_run_pages_nobody(seed: int) -> None:
    assert pages(watch(curve(3000, seed=seed), gradients(3000, seed=seed))) == []


@pytest.mark.parametrize("seed", range(3))
def test_strongly_correlated_noise_pages_nobody(seed: int) -> None:
    news = np.random.default_rng(seed).normal(0, 0.02, 4000)
    noise = np.zeros(4000)
    for place in range(1, 4000):
        noise[place] = 0.95 * noise[place - 1] + news[place]

    assert pages(watch(curve(4000, noise=1e-9) + noise)) == []


def test_four_points_none_of_which_stands_out_page_nobody_and_taller_ones_do() -> None:
    low, high = (spiked(curve(3000), 2000, [height * 0.02] * 4) for height in (3.5, 7.0))

    assert pages(watch(low)) == []
    assert [event.onset for event in pages(watch(high))] == [2000]


@pytest.mark.parametrize("seed", range(3))
def test_a_decaying_spike_pages_within_three_points_of_its_onset(seed: int) -> None:
    (event,) = pages(watch(spiked(curve(3000, seed=seed), 2000, TAIL)))

    assert event.kind == "spike"
    assert event.onset == 2000
    assert event.detected <= 2003
    assert event.end is not None
    assert 2004 <= event.end <= 2010


@pytest.mark.parametrize("height", [0.3, 3.0, 300.0])
def test_a_single_high_loss_is_a_blip_however_tall(height: float) -> None:
    (event,) = watch(spiked(curve(3000), 2000, [height]))

    assert (event.kind, event.page, event.onset) == ("blip", False, 2000)


@pytest.mark.parametrize("height", [0.3, 3.0, 300.0])
def test_an_adjacent_pair_of_outliers_pages_nobody(height: float) -> None:
    assert pages(watch(spiked(curve(3000), 2000, [height, height / 2]))) == []


def test_a_single_loss_pages_when_the_gradient_norm_jumps_as_never_before() -> None:
    gradient = gradients(3000)
    gradient[1999] *= 40

    (event,) = pages(watch(spiked(curve(3000), 2000, [1.0]), gradient))

    assert (event.detected, event.signals) == (2000, ("loss", "grad_norm"))


def test_a_gradient_norm_alone_never_pages() -> None:
    gradient = gradients(3000)
    gradient[1500:1503] *= 50

    assert pages(watch(curve(3000), gradient)) == []


def test_outliers_that_raise_both_signals_again_and_again_page_nobody() -> None:
    loss, gradient = curve(6000), gradients(6000)
    for step in range(600, 6000, 150):
        loss[step] += 0.3
        gradient[step] *= 5

    assert pages(watch(loss, gradient)) == []


def test_a_big_spike_masks_no_later_one() -> None:
    loss = spiked(spiked(curve(3000), 2000, [60.0, 90.0, 5.0, 1.0, 0.3]), 2010, TAIL)

    assert [event.onset for event in pages(watch(loss))] == [2000, 2010]


def test_a_slow_recovery_is_one_event() -> None:
    heights = 3.0 * np.exp(-np.arange(150) / 40)

    assert len(pages(watch(spiked(curve(4000), 2000, heights.tolist())))) == 1


def test_a_spike_inside_a_slow_recovery_is_a_second_event() -> None:
    heights = 3.0 * np.exp(-np.arange(180) / 30)
    heights[100:106] += 2.0

    events = pages(watch(spiked(curve(4000), 2000, heights.tolist())))

    assert [event.onset for event in events] == [2000, 2100]


def test_a_spike_that_stays_becomes_a_divergence_under_the_same_number() -> None:
    monitor = Monitor()
    loss = curve(3000)
    loss[1999:] += 1.0
    seen = [
        event
        for step, value in enumerate(loss.tolist(), start=1)
        for event in monitor.update(step, loss=value)
    ]

    assert {event.number for event in seen} == {1}
    assert [event.kind for event in seen if event.page] == ["spike", "divergence"]
    assert monitor.events[0].detected <= 2003


def test_a_slow_climb_is_a_divergence_with_the_start_of_its_drift() -> None:
    loss = curve(4500)
    loss[3000:] += np.linspace(0, 0.75, 1500)

    first = pages(watch(loss))[0]

    assert first.kind == "divergence"
    assert first.drift_since is not None
    assert 2900 <= first.drift_since <= 3600


def test_one_nan_is_one_event_and_blinds_nothing() -> None:
    loss = spiked(curve(3000), 2000, TAIL)
    loss[1899] = math.nan

    kinds = [(event.kind, event.onset) for event in pages(watch(loss))]

    assert kinds == [("nonfinite", 1900), ("spike", 2000)]


def test_a_nonfinite_event_ends_when_the_loss_has_been_finite_for_a_while() -> None:
    loss = curve(2000)
    loss[1000:1010] = math.inf

    (event,) = pages(watch(loss))

    assert (event.onset, event.end) == (1001, 1011)


def test_a_level_shift_is_accepted_in_the_end() -> None:
    loss = curve(6000)
    loss[2000:] *= 1.3
    loss[4999:5006] += TAIL

    events = pages(watch(loss))

    assert [event.onset for event in events] == [2001, 5000]


def test_losses_rounded_to_bf16_do_not_alarm() -> None:
    loss = np.round(curve(6000, noise=0.003) * 64) / 64

    assert pages(watch(loss)) == []


def test_a_log_of_every_tenth_step_is_judged_alike() -> None:
    (event,) = pages(watch(spiked(curve(3000), 2000, TAIL), every=10))

    assert (event.onset, event.detected <= 20030) == (20000, True)


def test_warm_up_is_not_judged() -> None:
    assert watch(spiked(curve(490), 300, [5.0, 5.0, 5.0, 5.0])) == []


def test_the_scale_of_a_short_run_finds_a_handful_of_junk_steps() -> None:
    config = MonitorConfig.for_short_run(360)
    loss = spiked(curve(360, noise=0.05, first=5.6), 200, [1.5, 1.8, 1.2, 1.6])

    (event,) = pages(watch(loss, gradients(360), config=config))

    assert (event.onset, event.detected) == (200, 202)


def test_the_onset_is_the_first_rise_of_the_gradient_norm() -> None:
    """S3: the norm climbs over six steps and the loss peaks last."""
    gradient = gradients(2500, noise=0.05)
    gradient[1999:2005] = [0.95, 2.4, 15.9, 145.0, 960.0, 300.0]
    loss = spiked(curve(2500), 2004, [1.5, 4.0, 3.0, 2.0])

    (event,) = pages(watch(loss, gradient))

    assert event.onset == 2000
    assert event.signals == ("loss", "grad_norm")


def test_the_state_goes_through_json_and_decides_the_same() -> None:
    loss = spiked(curve(2500), 1000, TAIL)
    whole, first = Monitor(), Monitor()
    for step, value in enumerate(loss.tolist(), start=1):
        whole.update(step, loss=value)
    for step, value in enumerate(loss[:1002].tolist(), start=1):
        first.update(step, loss=value)
    second = Monitor()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for step, value in enumerate(loss[1002:].tolist(), start=1003):
        second.update(step, loss=value)

    assert second.events == whole.events
    assert second.state_dict() == whole.state_dict()


def test_a_state_of_another_version_is_refused() -> None:
    with pytest.raises(FormatError, match="version 9"):
        Monitor().load_state_dict({"version": 9})


def test_detect_is_the_stream_replayed() -> None:
    loss = spiked(curve(2500), 1000, TAIL)

    assert detect(series_of({"loss": loss})) == watch(loss)


def test_detect_needs_a_loss() -> None:
    with pytest.raises(ValueError, match="grad_norm"):
        detect(series_of({"grad_norm": gradients(10)}))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=64), min_size=0, max_size=200))
def test_any_numbers_at_all_give_events_that_hold_together(values: list[float]) -> None:
    config = MonitorConfig(warmup_steps=0, window=16)
    loss: Array = np.array(values, dtype=np.float64)

    for event in watch(loss, config=config):
        assert event.onset <= event.detected
        assert event.end is None or event.end >= event.onset
        json.dumps(event.to_json(), allow_nan=False)


def test_a_state_may_be_saved_between_two_renewals_of_the_tail() -> None:
    news = np.random.default_rng(5)
    whole, saved = Tail(), Tail()
    for z in news.normal(0, 0.8, 200).tolist():
        whole.add(z)
        saved.add(z)
        again = Tail()
        again.load_state_dict(json.loads(json.dumps(saved.state_dict())))
        saved = again
        assert [saved.surprise(each) for each in (0.7, 2.2, 5.0)] == [
            whole.surprise(each) for each in (0.7, 2.2, 5.0)
        ]


def test_steps_may_be_numpy_integers() -> None:
    monitor = Monitor()
    for step, value in zip(np.arange(1, 700), spiked(curve(699), 600, TAIL).tolist(), strict=True):
        monitor.update(step, loss=value)  # type: ignore[arg-type]

    assert pages(monitor.events)
    assert json.loads(json.dumps(monitor.state_dict()))["last_step"] == 699


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_divergence_begins_where_a_flat_curve_is_left(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.02, 6000)
    monitor = Monitor()
    for step, value in enumerate((3 + noise + 0.06 * (np.arange(6000) >= 3000)).tolist()):
        monitor.update(step, loss=value)
    climbs = [event for event in monitor.pages if event.kind == "divergence"]

    assert climbs
    assert all(2900 <= (event.drift_since or 0) <= 3000 for event in climbs)


@pytest.mark.parametrize("height", [12, 20])
def test_a_rise_over_a_hundred_steps_that_falls_again_pages(height: int) -> None:
    loss = curve(4000)
    loss[2999:3199] += 0.02 * height * (1 - np.abs(np.linspace(-1, 1, 200)))

    (page,) = pages(watch(loss))
    assert 2960 <= page.onset < 3060
    assert page.detected < 3150
