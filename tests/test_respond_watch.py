"""Watch plans: made from what was healthy, followed to a verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_respond import losses

from shardward.loader.errors import IncidentError
from shardward.quarantine.diagnose.series import Series
from shardward.quarantine.respond.telemetry import by_step
from shardward.quarantine.respond.watchplan import (
    Threshold,
    WatchPlan,
    evaluate_watch,
    generate_watch_plan,
)

PLAN = generate_watch_plan({"loss": losses(1, 60)}, resume_step=100, length=40)


def test_the_plan_watches_from_the_first_new_step() -> None:
    assert (PLAN.first, PLAN.last) == (101, 140)
    assert "2 strikes in a row roll back" in PLAN.describe()


def test_a_healthy_run_is_clear_at_the_end() -> None:
    assert evaluate_watch(PLAN, {"loss": losses(101, 140, level=2.9)}).verdict == "clear"


def test_one_outlier_is_no_recurrence() -> None:
    result = evaluate_watch(PLAN, {"loss": {**losses(101, 140, level=2.9), 110: 7.0}})

    assert result.verdict == "clear"
    assert [step for step, _, _ in result.strikes] == [110]


def test_two_strikes_in_a_row_are_a_recurrence() -> None:
    values = {**losses(101, 140, level=2.9), 110: 7.0, 111: 6.0}

    assert evaluate_watch(PLAN, {"loss": values}).verdict == "recurrence"


def test_strikes_count_logged_points_when_logs_are_sparse() -> None:
    values = dict.fromkeys(range(101, 141, 5), 2.9) | {116: 7.0, 121: 7.0}

    assert evaluate_watch(PLAN, {"loss": values}).verdict == "recurrence"


def test_a_loss_that_is_not_finite_is_a_strike() -> None:
    values = {**losses(101, 140, level=2.9), 110: math.nan, 111: math.inf}

    result = evaluate_watch(PLAN, {"loss": values})

    assert result.verdict == "recurrence"
    assert result.to_json()["strikes"][0]["value"] == "nan"


BOTH = generate_watch_plan(
    {"loss": losses(1, 60), "grad_norm": losses(1, 60, level=1.0)}, resume_step=100, length=40
)


def test_a_gradient_norm_that_overflows_counts_as_not_logged_as_in_the_monitor() -> None:
    norms = {**losses(101, 140, level=1.0), 110: math.inf, 111: math.nan, 140: math.inf}

    result = evaluate_watch(BOTH, {"loss": losses(101, 140, level=2.9), "grad_norm": norms})

    assert (result.verdict, result.strikes) == ("clear", ())


@pytest.mark.parametrize("every", [9, 11, 16])
def test_a_log_of_every_kth_step_ends_the_watch_at_its_first_row_after(every: int) -> None:
    values = {step: v for step, v in losses(90, 160, level=2.9).items() if step % every == 0}

    assert evaluate_watch(PLAN, {"loss": values}).verdict == "clear"
    inside = {step: v for step, v in values.items() if step < 140}
    assert evaluate_watch(PLAN, {"loss": inside}).verdict == "running"


def test_a_signal_that_is_logged_more_rarely_than_the_watch_is_long_is_not_judged() -> None:
    signals = {"loss": losses(101, 200, level=2.9), "grad_norm": {100: 1.0, 200: 9.0}}

    assert evaluate_watch(BOTH, signals).verdict == "clear"


def test_a_watch_that_saw_nothing_at_all_says_so() -> None:
    result = evaluate_watch(PLAN, {"loss": {100: 2.9, 200: 2.9}})

    assert (result.verdict, result.reason) == ("running", "loss was not logged in steps 101 to 140")


def test_a_recurrence_names_its_first_and_last_step() -> None:
    values = {**losses(101, 140, level=2.9), 105: 9.0, 110: 7.0, 111: 6.0, 112: 6.0}

    result = evaluate_watch(PLAN, {"loss": values})

    assert (result.onset, result.detected) == (110, 112)


def test_a_level_that_rose_late_is_dated_to_where_it_left_the_trend() -> None:
    high = PLAN.thresholds[0].level + 0.02
    values = {**losses(101, 120, level=2.9), **dict.fromkeys(range(121, 141), high)}

    result = evaluate_watch(PLAN, {"loss": values})

    assert (result.verdict, result.onset, result.detected) == ("recurrence", 121, 140)


def test_rows_that_a_log_superseded_by_stepping_back_are_left_out() -> None:
    steps = np.array([*range(1, 71), *range(51, 58)])
    values = np.where((steps >= 60) & (steps < 66), 9.0, 3.0)

    found = by_step({"loss": Series(name="loss", steps=steps, values=values)})

    assert found == {"loss": dict.fromkeys(range(1, 58), 3.0)}


def test_a_loss_that_settles_above_the_trend_is_a_recurrence() -> None:
    values = losses(101, 140, level=PLAN.thresholds[0].level + 0.03, seed=5)

    result = evaluate_watch(PLAN, {"loss": values})

    assert (result.verdict, "trend" in result.reason) == ("recurrence", True)


def test_a_watch_runs_until_every_signal_has_reached_its_end() -> None:
    assert evaluate_watch(PLAN, {"loss": losses(101, 139, level=2.9)}).verdict == "running"
    assert evaluate_watch(PLAN, {}).verdict == "running"


def test_rounded_values_do_not_collapse_the_threshold() -> None:
    plan = generate_watch_plan({"loss": dict.fromkeys(range(50), 3.0)}, resume_step=50)

    assert plan.thresholds[0].ceiling == pytest.approx(3.0 + 6 * 0.012)


def test_too_little_history_is_said() -> None:
    with pytest.raises(IncidentError, match="eight healthy values"):
        generate_watch_plan({"loss": losses(1, 5)}, resume_step=5)


def test_a_plan_comes_back_from_json_and_a_bad_one_is_refused() -> None:
    assert WatchPlan.from_json(PLAN.to_json()) == PLAN
    with pytest.raises(IncidentError, match="malformed"):
        WatchPlan.from_json({"first": 1, "last": "soon", "thresholds": []})
    with pytest.raises(IncidentError, match="watches nothing"):
        WatchPlan(first=5, last=4, thresholds=PLAN.thresholds)
    with pytest.raises(IncidentError, match="finite"):
        Threshold(signal="loss", ceiling=math.nan, level=1.0)


def test_a_gradient_norm_alone_is_no_recurrence_but_beside_the_loss_it_is() -> None:
    healthy = {
        "loss": {step: 2.0 + 0.01 * (step % 5) for step in range(1, 101)},
        "grad_norm": {step: 0.5 + 0.02 * (step % 7) for step in range(1, 101)},
    }
    plan = generate_watch_plan(healthy, resume_step=100, length=40)
    quiet = {step: 2.0 + 0.01 * (step % 5) for step in range(101, 141)}
    norms = {step: 3.0 if step in (120, 121) else 0.5 for step in range(101, 141)}
    risen = {**quiet, 122: 2.2}

    assert evaluate_watch(plan, {"loss": quiet, "grad_norm": norms}).verdict == "clear"
    struck = evaluate_watch(plan, {"loss": risen, "grad_norm": norms})
    assert (struck.verdict, struck.onset, struck.detected) == ("recurrence", 120, 121)


def test_the_ceiling_of_a_heavy_tailed_signal_knows_its_healthy_peaks() -> None:
    norms = {step: 4.0 if step == 40 else 0.5 for step in range(1, 101)}
    plan = generate_watch_plan({"grad_norm": norms}, resume_step=100)

    assert plan.thresholds[0].ceiling == 4.0


def test_a_run_that_ended_early_is_judged_by_what_was_seen() -> None:
    plan = WatchPlan(first=11, last=100, thresholds=(Threshold(signal="loss", ceiling=4, level=3),))
    seen = {"loss": dict.fromkeys(range(1, 41), 2.0)}

    assert evaluate_watch(plan, seen).verdict == "running"
    found = evaluate_watch(plan, seen, final=True)

    assert (found.verdict, found.seen_to) == ("clear", 40)
    assert "to step 40, where the run ended" in found.reason


def test_a_run_that_ended_high_did_not_recover() -> None:
    plan = WatchPlan(first=11, last=100, thresholds=(Threshold(signal="loss", ceiling=4, level=3),))

    found = evaluate_watch(plan, {"loss": dict.fromkeys(range(1, 41), 3.5)}, final=True)

    assert found.verdict == "recurrence"


def test_a_watch_that_saw_nothing_cannot_end() -> None:
    plan = WatchPlan(first=11, last=100, thresholds=(Threshold(signal="loss", ceiling=4, level=3),))

    with pytest.raises(IncidentError, match="saw nothing"):
        evaluate_watch(plan, {"loss": {3: 2.0}}, final=True)
