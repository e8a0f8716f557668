"""What a change of context does to the level that a slow climb is measured from."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers_diagnose import Array, curve

from shardward.quarantine.diagnose.monitor import Monitor

AT, LIFT = 3000, 0.07


def judged(loss: Array, rate: Array, *, announced: bool = False) -> Monitor:
    monitor = Monitor()
    for step, (value, lr) in enumerate(zip(loss.tolist(), rate.tolist(), strict=True), start=1):
        if announced and step == AT + 1:
            monitor.announce("lr")
        if step == AT + 10:
            state = json.loads(json.dumps(monitor.state_dict()))
            monitor = Monitor()
            monitor.load_state_dict(state)
        monitor.update(step, loss=value, lr=lr)
    return monitor


def restarted(points: int = 4000) -> Array:
    return np.where(np.arange(points) < AT, 1e-4, 1e-3)


@pytest.mark.parametrize("announced", [False, True])
def test_a_small_lift_by_a_change_is_no_divergence_later(announced: bool) -> None:
    loss = curve(4000, noise=0.03, first=3.0)
    loss[AT:] += LIFT

    assert judged(loss, restarted(), announced=announced).pages == []


def test_without_a_change_the_same_lift_is_a_divergence() -> None:
    loss = curve(4000, noise=0.03, first=3.0)
    loss[AT:] += LIFT

    assert [event.kind for event in judged(loss, np.full(4000, 1e-3)).pages] == ["divergence"]


@pytest.mark.parametrize("rate", [1e-4, 5e-4, 2e-3])
def test_a_divergence_that_begins_at_a_change_is_found(rate: float) -> None:
    loss = curve(5000, noise=0.03, first=3.0)
    loss[AT:] += LIFT + rate * np.arange(2000)
    page, *more = judged(loss, restarted(5000)).pages

    assert page.kind == "divergence"
    assert not more


def test_a_climb_that_was_under_way_before_a_change_is_found() -> None:
    loss = curve(4000, noise=0.03, first=3.0)
    loss[AT - 200 :] += np.minimum(5e-4 * np.arange(1200), 0.12)
    loss[AT:] += LIFT

    assert [event.kind for event in judged(loss, restarted()).pages] == ["divergence"]


def test_a_rate_that_is_rounded_near_nothing_does_not_change() -> None:
    rate = np.round(6e-4 * (1 - np.arange(2000) / 2000), 6)
    rate[1990:1994], rate[1994:] = 3e-6, 1e-6

    assert judged(curve(2000), rate).events == []


def test_a_rate_that_returns_from_nothing_has_changed() -> None:
    rate = np.where(np.arange(2000) < 1000, 6e-4, np.where(np.arange(2000) < 1500, 1e-7, 6e-4))

    assert [event.onset for event in judged(curve(2000), rate).events] == [1001, 1501]
