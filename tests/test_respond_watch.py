"""Watch plans: made from what was healthy, followed to a verdict."""

from __future__ import annotations

import math

import pytest
from helpers_respond import losses

from shardward.loader.errors import IncidentError
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
