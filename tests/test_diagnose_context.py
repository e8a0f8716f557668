"""Changes of context, other signals, planned changes and logs that step back."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from helpers_diagnose import Array, curve, gradients, pages, spiked, watch

from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.events import Event
from shardward.quarantine.diagnose.evidence import Evidence, Lead
from shardward.quarantine.diagnose.monitor import Monitor

TAIL = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)


def feed(monitor: Monitor, first: int = 1, **signals: Array) -> list[Event]:
    """Feed rows from step `first`; return what `update` returned."""
    names = list(signals)
    rows = zip(*signals.values(), strict=True)
    return [
        event
        for step, row in enumerate(rows, start=first)
        for event in monitor.update(step, **dict(zip(names, map(float, row), strict=True)))
    ]


def kinds(monitor: Monitor) -> list[tuple[str, int]]:
    return [(event.kind, event.onset) for event in monitor.events]


def test_a_batch_size_that_changes_is_a_context_change_and_no_page() -> None:
    monitor = Monitor()
    feed(monitor, loss=curve(2000), batch_size=np.where(np.arange(2000) < 1000, 256, 512))

    (event,) = monitor.events
    assert (event.kind, event.onset, event.page) == ("context_change", 1001, False)
    assert event.note == "batch_size 256 -> 512"


def test_a_gliding_schedule_is_no_change() -> None:
    monitor = Monitor()
    feed(monitor, loss=curve(2000), lr=np.cos(np.linspace(0, 1.5, 2000)))

    assert monitor.events == []


def test_a_changed_batch_size_mutes_nothing() -> None:
    monitor = Monitor()
    feed(
        monitor,
        loss=spiked(curve(2000), 1010, TAIL),
        batch_size=np.where(np.arange(2000) < 1000, 256, 512),
    )

    assert kinds(monitor) == [("context_change", 1001), ("spike", 1010)]


def test_the_level_after_a_found_change_is_accepted_soon() -> None:
    loss = curve(3000)
    loss[1000:] += 0.8
    monitor = Monitor()
    feed(monitor, loss=loss, seq_len=np.where(np.arange(3000) < 1000, 512, 1024))

    (page,) = monitor.pages
    assert "context_change" in [event.kind for event in monitor.events]
    assert page.end is not None
    assert page.end < 1040


def test_an_announced_change_is_judged_only_after_it_has_settled() -> None:
    loss = curve(3000)
    loss[1000:] += 0.8
    loss[1999:2006] += TAIL
    monitor = Monitor()
    feed(monitor, loss=loss[:1000])
    monitor.announce("mixture")
    feed(monitor, first=1001, loss=loss[1000:])

    assert kinds(monitor) == [("context_change", 1001), ("spike", 2000)]


def test_an_announced_change_that_breaks_the_run_still_pages() -> None:
    monitor = Monitor()
    feed(monitor, loss=curve(1000))
    monitor.announce("lr")
    feed(monitor, first=1001, loss=np.full(5, np.nan))

    assert kinds(monitor) == [("context_change", 1001), ("nonfinite", 1001)]


def test_a_log_that_steps_back_is_a_context_change() -> None:
    monitor = Monitor()
    feed(monitor, loss=curve(1500))
    feed(monitor, first=1401, loss=curve(1500, seed=1)[1400:])

    (event,) = monitor.events
    assert (event.kind, event.note) == ("context_change", "the log steps back from 1500 to 1401")


def test_a_step_logged_twice_counts_once() -> None:
    once, twice = Monitor(), Monitor()
    for step, loss in enumerate(spiked(curve(1200), 1000, TAIL).tolist(), start=1):
        once.update(step, loss=loss)
        twice.update(step, loss=loss)
        twice.update(step, loss=loss + 100)

    assert once.events == twice.events


def test_a_signal_that_moved_before_the_loss_sets_the_onset() -> None:
    loss, update = spiked(curve(1500), 1000, TAIL), np.full(1500, 1e-3)
    update[994:1004] = 0.5
    monitor = Monitor()
    for step, (value, ratio) in enumerate(zip(loss.tolist(), update.tolist(), strict=True), 1):
        monitor.update(step, loss=value, **{"update_ratio/layers.3": ratio})

    (page,) = monitor.pages
    assert page.onset == 995
    assert page.signals == ("loss", "update_ratio/layers.3")
    assert page.note.endswith("update_ratio/layers.3 moved first, at step 995")


def test_a_slow_climb_of_another_signal_is_a_drift_that_does_not_move_the_onset() -> None:
    logits = np.concatenate([np.full(600, 5.0), np.linspace(5, 60, 900)])
    monitor = Monitor()
    feed(monitor, loss=spiked(curve(1500), 1400, TAIL), attention_logit=logits)

    (page,) = monitor.pages
    assert page.onset == 1400
    assert page.drift_since is not None
    assert 600 <= page.drift_since <= 700


def test_a_nan_in_another_signal_is_no_nan_of_the_run() -> None:
    times = np.full(1000, 3.0)
    times[::7] = np.nan
    monitor = Monitor()
    feed(monitor, loss=curve(1000), step_time=times)

    assert monitor.events == []


def test_the_loss_scale_may_search_at_first() -> None:
    """S4, first half: overflow and a falling scale in the first steps are nothing."""
    norm = gradients(600)
    norm[:8] = np.inf
    scale = np.concatenate([2.0 ** np.arange(32, 16, -1), np.full(584, 2.0**17)])
    monitor = Monitor()
    feed(monitor, loss=curve(600), grad_norm=norm, loss_scale=scale)

    assert monitor.events == []


def test_a_loss_scale_that_collapses_pages() -> None:
    """S4, second half."""
    scale = np.concatenate([np.full(800, 65536.0), 2.0 ** np.arange(15, -1, -1), np.ones(50)])
    monitor = Monitor()
    feed(monitor, loss=curve(len(scale)), loss_scale=scale)

    assert [(event.kind, event.signals) for event in monitor.pages] == [
        ("nonfinite", ("loss_scale",))
    ]


def test_the_end_of_an_event_is_noticed_as_recovered() -> None:
    monitor = Monitor()
    seen = feed(monitor, loss=spiked(curve(1500), 1000, TAIL))

    assert [event.kind for event in seen if event.kind != "blip"] == ["spike", "recovered"]
    assert monitor.events[0].kind == "spike"


def test_a_divergence_ends_when_the_loss_is_back() -> None:
    loss = curve(4000)
    loss[1000:1400] += 1.0
    monitor = Monitor()
    feed(monitor, loss=loss)

    (event,) = monitor.pages
    assert event.kind == "divergence"
    assert event.end is not None
    assert 1400 <= event.end <= 1440


def test_the_state_holds_everything_in_the_middle_of_everything() -> None:
    loss = curve(2000)
    loss[1000:] += 0.8
    extra = np.linspace(1, 9, 2000)
    batch = np.where(np.arange(2000) < 1000, 256.0, 512.0)
    whole, first, second = Monitor(), Monitor(), Monitor()
    feed(whole, loss=loss, batch_size=batch, extra=extra)
    feed(first, loss=loss[:1010], batch_size=batch[:1010], extra=extra[:1010])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    feed(second, first=1011, loss=loss[1010:], batch_size=batch[1010:], extra=extra[1010:])

    assert repr(second.events) == repr(whole.events)
    assert json.dumps(second.state_dict()) == json.dumps(whole.state_dict())


def test_tensors_are_read_through_item() -> None:
    class Scalar:
        def __init__(self, value: float) -> None:
            self.value = value

        def item(self) -> float:
            return self.value

    monitor = Monitor()
    for step, loss in enumerate(spiked(curve(1200), 1000, TAIL).tolist(), start=1):
        monitor.update(step, loss=Scalar(loss))

    assert monitor.events == watch(spiked(curve(1200), 1000, TAIL))


def test_the_state_stays_small_over_a_long_run() -> None:
    noisy = np.random.default_rng(0).standard_t(2, 30_000) * 0.02 + curve(30_000, noise=0)
    monitor = Monitor()
    feed(monitor, loss=noisy)

    assert len(json.dumps(monitor.state_dict())) < 500_000


def test_the_classic_rule_can_be_chosen() -> None:
    loss = curve(1500)
    config = MonitorConfig(rule="classic")

    assert pages(watch(spiked(loss, 1000, TAIL), config=config)) == []
    (page,) = pages(watch(spiked(loss, 1000, [20.0] * 20), config=config))
    assert page.kind == "spike"


@pytest.mark.parametrize("huge", [1e101, 1e308, math.inf])
def test_a_loss_beyond_measure_is_not_finite(huge: float) -> None:
    (event,) = pages(watch(spiked(curve(1200), 1000, [huge])))

    assert event.kind == "nonfinite"


def test_a_layer_that_moves_before_the_loss_leads_in_the_evidence_of_the_page() -> None:
    loss = spiked(curve(1500), 1200, (1.0, 0.9, 0.8, 0.6, 0.4))
    noise = np.random.default_rng(3).normal(0, 0.02, 1500)
    monitor = Monitor()
    for step, value in enumerate(loss.tolist(), start=1):
        size = 1e-3 * (1 + float(noise[step - 1])) * (1000 if step >= 1195 else 1)
        monitor.update(step, loss=value, **{"update_ratio/blocks.7": size})
    (event,) = monitor.pages

    assert event.onset == 1195
    assert event.moved == (("update_ratio/blocks.7", 1195), ("loss", 1200))
    assert Evidence(event=event).lead == Lead(
        layer="blocks.7", signal="update_ratio", steps_ahead=5
    )


def test_a_jump_that_is_confirmed_after_a_step_back_begins_no_later_than_it_is_seen() -> None:
    loss = curve(1001)
    monitor = Monitor()
    for step in range(1, 1001):
        batch = None if step % 10 else 64.0 if step == 1000 else 32.0
        monitor.update(step, loss=float(loss[step]), batch_size=batch)
    for step in range(905, 960):
        monitor.update(step, loss=float(loss[step]), batch_size=None if step % 10 else 64.0)
    changes = [event for event in monitor.events if event.note.startswith("batch_size")]

    assert [(event.onset, event.detected) for event in changes] == [(910, 910)]


@pytest.mark.parametrize("name", ["lr", "batch_size", "seq_len", "accumulation"])
def test_a_watched_signal_that_is_no_number_has_not_jumped(name: str) -> None:
    monitor = Monitor()
    for step, value in enumerate(curve(1200).tolist(), start=1):
        monitor.update(step, loss=value, **{name: 32.0 if step % 10 == 0 else math.nan})

    assert monitor.events == []


@pytest.mark.parametrize(
    ("signal", "before", "after"), [("lr", 1e-4, 3e-4), ("batch_size", 256.0, 512.0)]
)
def test_an_announced_change_that_the_log_shows_too_stays_announced(
    signal: str, before: float, after: float
) -> None:
    monitor = Monitor()
    loss = curve(2000)
    loss[1000:] += 0.6
    for step, value in enumerate(loss.tolist(), start=1):
        if step == 1001:
            monitor.announce(signal)
        monitor.update(step, loss=value, **{signal: before if step <= 1000 else after})

    assert monitor.pages == []


def test_a_batch_that_differs_from_step_to_step_is_no_context_change() -> None:
    monitor = Monitor()
    sizes = np.random.default_rng(0).choice([512.0, 1024.0, 2048.0], 2000)
    for step, (value, size) in enumerate(zip(curve(2000).tolist(), sizes, strict=True), start=1):
        monitor.update(step, loss=value, seq_len=float(size), batch_size=500.0 + step % 7)

    assert monitor.events == []


def test_a_change_announced_where_batches_differ_settles() -> None:
    monitor = Monitor()
    loss = spiked(curve(2000), 1500, [1.0, 0.9, 0.8, 0.7])
    loss[1000:] += 0.6
    for step, value in enumerate(loss.tolist(), start=1):
        if step == 1001:
            monitor.announce("mixture")
        monitor.update(step, loss=value, batch_size=500.0 + step % 7)

    assert [event.onset for event in monitor.pages] == [1500]


def test_a_change_may_be_announced_without_a_word() -> None:
    monitor = Monitor()
    monitor.announce("  ")
    monitor.update(1, loss=2.0)

    assert [event.note for event in monitor.events] == ["a change"]
