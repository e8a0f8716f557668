"""Values that no trend can judge: norms and losses that are no numbers, losses that say nothing."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers_diagnose import Array, curve, gradients, pages, spiked, watch
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.events import Event
from shardward.quarantine.diagnose.evidence import Evidence
from shardward.quarantine.diagnose.monitor import Monitor

TAIL = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)


def masked(first: int, last: int, value: float) -> Array:
    loss = curve(2000)
    loss[first - 1 : last] = value
    return loss


def test_norms_that_are_not_finite_for_long_are_one_page_that_ends() -> None:
    norm = gradients(2000)
    norm[999:1400] = math.nan

    (page,) = pages(watch(curve(2000), norm))

    assert (page.kind, page.onset, page.end) == ("nonfinite", 1000, 1401)
    assert page.signals == ("grad_norm",)
    assert page.detected - page.onset == 50


def test_overflows_while_the_loss_scale_is_searched_page_nobody() -> None:
    monitor = Monitor()
    for step, loss in enumerate(curve(600).tolist(), start=1):
        scale = 2.0 ** max(32 - step // 2, 16)
        norm = math.inf if step < 34 else 1.0
        monitor.update(step, loss=loss, grad_norm=norm, loss_scale=scale)

    assert monitor.events == []


def test_a_run_whose_norms_were_never_finite_pages_within_the_warm_up() -> None:
    (page,) = pages(watch(np.full(400, 11.0), np.full(400, math.nan)))

    assert (page.kind, page.onset, page.detected) == ("nonfinite", 1, 51)


@pytest.mark.parametrize("every", [1, 10])
def test_a_loss_that_breaks_again_and_again_is_one_page_whose_count_grows(every: int) -> None:
    loss = curve(3000)
    loss[999::60] = math.nan

    (page,) = pages(watch(loss, every=every))

    assert page.onset == 1000 * every
    assert page.count >= 2
    assert "34 times" in page.note or page.count == 2


def test_losses_that_break_far_apart_are_two_pages() -> None:
    loss = curve(3000)
    loss[[999, 2499]] = math.nan

    assert [page.onset for page in pages(watch(loss))] == [1000, 2500]


@pytest.mark.parametrize("value", [0.0, 1e-7, 0.05])
def test_a_loss_that_falls_to_almost_nothing_is_a_page_that_ends(value: float) -> None:
    (page,) = pages(watch(masked(1001, 1100, value)))

    assert (page.kind, page.onset, page.detected, page.end) == ("divergence", 1001, 1004, 1101)
    assert "are its labels masked?" in page.note
    assert page.z < 0


def test_a_loss_that_stays_at_nothing_is_accepted_in_the_end() -> None:
    loss = masked(1001, 2000, 0.0)
    loss[1500:] = curve(2000)[1500:] / 20

    (page,) = pages(watch(loss))

    assert (page.onset, page.end) == (1001, None)


def test_a_loss_that_is_the_same_for_ever_is_a_page_that_ends() -> None:
    (page,) = pages(watch(masked(1001, 1300, 2.31)))

    assert (page.kind, page.onset, page.end) == ("divergence", 1001, 1301)
    assert "exactly 2.31" in page.note


def test_a_rounded_loss_that_repeats_itself_pages_nobody() -> None:
    loss = np.round(curve(20_000, noise=0.002) * 64) / 64

    assert pages(watch(loss)) == []


def test_a_loss_that_measures_nothing_is_a_matter_of_labels_and_not_of_the_rate() -> None:
    (page,) = pages(watch(masked(1001, 1100, 0.0)))

    causes = attribute(Evidence(event=page))

    assert {causes[0].name, causes[1].name} == {"logging", "bad_data"}
    assert "learning_rate" not in {cause.name for cause in causes[:3]}


def test_an_open_event_ends_where_the_log_steps_back() -> None:
    monitor = Monitor()
    loss = spiked(curve(1200), 1001, [1.0] * 40)
    for step, value in enumerate(loss[:1020].tolist(), start=1):
        monitor.update(step, loss=value)
    told = monitor.update(950, loss=float(loss[949]))

    (page,) = monitor.pages
    assert (page.onset, page.end) == (1001, 1020)
    assert [event.kind for event in told] == ["recovered", "context_change"]


@pytest.mark.parametrize("lost", [math.nan, None])
def test_a_state_saved_just_after_a_step_back_is_taken_back(lost: float | None) -> None:
    first, second = Monitor(), Monitor()
    loss = spiked(curve(1200), 1001, [1.0] * 40)
    for step, value in enumerate(loss[:1020].tolist(), start=1):
        first.update(step, loss=value)
    first.update(950, loss=lost)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for step in range(951, 1200):
        first.update(step, loss=float(loss[step - 1]))
        second.update(step, loss=float(loss[step - 1]))

    assert repr(second.events) == repr(first.events)


def test_two_events_of_one_step_have_two_numbers() -> None:
    monitor = Monitor()
    for step, value in enumerate(curve(600).tolist(), start=1):
        monitor.update(step, loss=value, loss_scale=2.0 ** max(0, 600 - step), batch_size=8)
    monitor.update(400, loss=2.5, loss_scale=0.5, batch_size=8)

    assert [event.number for event in monitor.events] == [1, 2]


class Device:
    """A stand-in for a scalar on a device: its copy has a value once it was waited for."""

    device = torch.device("cuda")

    def __init__(self, value: float, log: list[str]) -> None:
        self._value, self._log = value, log

    def detach(self) -> Device:
        return self

    def item(self) -> float:
        raise AssertionError("the device was waited for")

    def to(self, where: str, *, non_blocking: bool) -> Any:
        assert (where, non_blocking) == ("cpu", True)
        self._log.append("copy")
        return torch.tensor(self._value)


def test_scalars_on_a_device_are_judged_one_step_late_and_never_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[str] = []

    class Arrival:
        def record(self) -> None:
            log.append("record")

        def synchronize(self) -> None:
            log.append("wait")

    monkeypatch.setattr(torch.cuda, "Event", Arrival)
    plain, late = Monitor(), Monitor()
    loss = spiked(curve(700), 650, TAIL).astype(np.float32).tolist()
    told: dict[int, list[Event]] = {}
    for step, value in enumerate(loss, start=1):
        plain.update(step, loss=value)
        told[step] = late.update(step, loss=Device(value, log), grad_norm=1.0)
    late.flush()

    assert log[:5] == ["copy", "record", "wait", "copy", "record"]
    assert late.pages == plain.pages
    (page,) = told[plain.pages[0].detected + 1]
    assert (page.kind, page.onset, page.page) == ("spike", 650, True)


def test_a_change_announced_for_a_step_on_a_device_stays_with_that_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        torch.cuda,
        "Event",
        type("Arrival", (), {"record": lambda self: None, "synchronize": lambda self: None}),
    )
    monitor = Monitor()
    for step in range(1, 12):
        if step == 10:
            monitor.announce("mixture")
        monitor.update(step, loss=Device(2.0, []))
    state = monitor.state_dict()

    assert [event.onset for event in monitor.events] == [10]
    assert len(state["records"]["events"]) == 1


@pytest.mark.parametrize(("last", "back"), [(5000, 1200), (2000, 1990), (900, 520)])
def test_a_run_that_goes_back_is_judged_by_its_level_of_that_time(last: int, back: int) -> None:
    loss = curve(6000, first=20.0)
    again, jumped = Monitor(), Monitor()
    for step in range(1, last + 1):
        again.update(step, loss=float(loss[step - 1]))
        jumped.update(step, loss=float(loss[step - 1]))
    for step in range(back, back + 300):
        again.update(step, loss=float(loss[step - 1]))
        jumped.update(step, loss=float(loss[step - 1]) + 0.3)

    assert again.pages == []
    assert [page.onset for page in jumped.pages] == [back]


def test_a_run_that_goes_back_to_its_start_is_learned_anew() -> None:
    monitor = Monitor()
    loss = curve(2000).tolist()
    for value, step in zip(loss, range(600, 2600), strict=True):
        monitor.update(step, loss=value)
    for value, step in zip(loss, range(510, 2510), strict=True):
        monitor.update(step, loss=value)

    assert monitor.pages == []


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(20, 400), min_size=1, max_size=5))
def test_any_rewinds_at_all_give_events_that_hold_together(seed: int, spans: list[int]) -> None:
    random = np.random.default_rng(seed)
    config = MonitorConfig(warmup_steps=10, window=16, divergence_steps=30, finite_points=5)
    one, other = Monitor(config), Monitor(config)
    step = 0
    for span in spans:
        step = int(random.integers(0, step + 1))
        loss = 3 + random.normal(0, 0.02, span) + (random.random(span) < 0.05) * 5
        loss[span // 2 :] += random.choice([0, 1, -2.9, math.nan])
        for value in loss.tolist():
            step += 1
            one.update(step, loss=value, grad_norm=abs(value), signal=value)
        other.load_state_dict(json.loads(json.dumps(one.state_dict())))
        other.update(step + 1, loss=3.0)

    for event in one.events:
        assert event.onset <= event.detected
        assert event.end is None or event.end >= event.onset
    assert [event.number for event in one.events] == sorted({e.number for e in one.events})


@pytest.mark.parametrize("value", [0.0, 2.0, 2.71828])
@pytest.mark.parametrize("every", [1, 10])
def test_a_loss_that_never_moved_pages_after_the_warm_up(value: float, every: int) -> None:
    loss = np.r_[np.full(900, value), curve(100)]
    (page,) = pages(watch(loss, every=every))

    assert (page.kind, page.onset, page.end) == ("divergence", every, 901 * every)
    assert page.detected == max(501, 65 * every)
    causes = attribute(Evidence(event=page))
    assert causes[0].name in ("logging", "bad_data")


def test_a_rounded_loss_that_stands_still_while_gradients_move_is_believed() -> None:
    norm = gradients(900)

    assert not pages(watch(np.full(900, 2.3), norm))
    assert len(pages(watch(np.full(900, 2.31415), norm))) == 1


def test_a_frozen_loss_that_a_rewind_repeats_begins_after_the_rewind() -> None:
    loss = curve(1000)
    monitor = Monitor()
    for step in range(1, 1000):
        monitor.update(step, loss=float(loss[step]))
    for step in [*range(1000, 1030), *range(900, 1000)]:
        monitor.update(step, loss=0.5)
    (event,) = [each for each in monitor.pages if each.onset < 1000]

    assert (event.kind, event.onset) == ("divergence", 900)
    assert event.detected < 1000


def test_a_loss_scale_that_is_no_number_now_and_then_hides_no_collapse() -> None:
    monitor, scale = Monitor(), 65536.0
    for step, value in enumerate(curve(1000).tolist(), start=1):
        scale = max(scale / 2, 1.0) if step > 600 and step % 4 == 0 else scale
        monitor.update(step, loss=value, loss_scale=scale if step % 2 == 0 else math.nan)

    assert [event.page for event in monitor.events if "loss scale" in event.note] == [True]
