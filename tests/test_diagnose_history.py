"""Earlier pages and changes of context reach whoever asks an incident for its causes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_diagnose import an_event

from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.evidence import Evidence
from shardward.quarantine.diagnose.history import REACH, history_of
from shardward.quarantine.diagnose.series import Series


def a_run(steps: int, *spikes: int, rate_jump: int | None = None) -> dict[str, Series]:
    at = np.arange(1, steps + 1)
    loss = 3.0 + np.random.default_rng(1).normal(0, 0.02, steps)
    for spike in spikes:
        loss[spike - 1 : spike + 9] += 1.0
    rate = np.full(steps, 1e-4)
    if rate_jump is not None:
        rate[rate_jump - 1 :] = 3e-4
    values = {"loss": loss, "lr": rate}
    return {name: Series(name=name, steps=at, values=value) for name, value in values.items()}


def test_spikes_before_this_one_are_known_and_later_ones_are_not() -> None:
    series = a_run(1600, 900, 1150, 1300, 1500)
    event = an_event(onset=1300, detected=1302)
    _, earlier = history_of(series, event)

    assert [each.onset for each in earlier] == [900, 1150]
    causes = attribute(Evidence(event=event, series=series, earlier=earlier))
    assert "2 earlier spikes in this run" in str([cause.to_json() for cause in causes])


def test_a_rate_that_jumped_is_a_change_of_context() -> None:
    event = an_event(onset=1300, detected=1302)
    changes, _ = history_of(a_run(1600, 1300, rate_jump=1250), event)

    assert [(each.step, each.kind) for each in changes] == [(1250, "learning_rate")]


@pytest.mark.parametrize("onset", [60, 300])
def test_a_young_run_is_judged_as_a_short_one(onset: int) -> None:
    _, earlier = history_of(a_run(400, 200), an_event(onset=onset, detected=onset + 2))

    assert [each.onset for each in earlier] == ([] if onset < 200 else [200])


def test_only_the_last_steps_of_a_long_run_are_judged() -> None:
    onset = REACH + 4000
    series = a_run(onset + 10, 2000, onset - 1000, onset)
    _, earlier = history_of(series, an_event(onset=onset, detected=onset + 2))

    assert [each.onset for each in earlier] == [onset - 1000]


def test_a_run_without_losses_has_no_history() -> None:
    assert history_of({}, an_event(onset=300, detected=302)) == ((), ())


def test_a_change_that_was_announced_is_known_although_the_log_does_not_show_it() -> None:
    event = an_event(onset=1300, detected=1302)
    announced = {200: "mixture", 1295: "mixture: more code", 1500: "lr"}
    changes, _ = history_of(a_run(1600, 1300), event, announced)

    assert [(each.step, each.note, each.announced) for each in changes] == [
        (200, "mixture", True),
        (1295, "mixture: more code", True),
    ]
    causes = attribute(Evidence(event=event, changes=changes))
    assert "announced at step 1295" in str([cause.to_json() for cause in causes])


def test_what_an_announced_change_did_while_it_settled_is_no_earlier_page() -> None:
    event, series = an_event(onset=1300, detected=1302), a_run(1600, 900, 1300)
    _, unknown = history_of(series, event)
    _, known = history_of(series, event, {899: "batch"})

    assert [each.onset for each in unknown] == [900]
    assert known == ()


def test_an_announced_change_begins_with_the_next_loss_that_was_logged() -> None:
    series = a_run(1600, 1300)
    every = {name: Series(name=name, steps=each.steps[9::10], values=each.values[9::10])
             for name, each in series.items()}  # fmt: skip
    changes, _ = history_of(every, an_event(onset=1300, detected=1320), {1201: "batch"})

    assert [(each.step, each.kind) for each in changes] == [(1210, "batch_size")]
