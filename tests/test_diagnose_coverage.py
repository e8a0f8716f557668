"""Beside "unknown" stands what was not measured, and how often it would have to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers_diagnose import an_event, curve, series_of

from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.evidence import Change, Evidence
from shardward.quarantine.diagnose.series import Series

POINTS, LEFT = 700, 601
PROBED = ("attention_logit/0", "output_lse", "rare_update_ratio", "update_ratio/0")
AROUND = ("checksum_mismatch", "loss_scale", "share/web")


def every(series: Series, steps: int, first: int = LEFT) -> Series:
    kept = series.steps % steps == first % steps
    return replace(series, steps=series.steps[kept], values=series.values[kept])


def remarks(series: dict[str, Series]) -> tuple[str, ...]:
    event = an_event(onset=LEFT, detected=LEFT + 20, baseline=2.7, kind="divergence", end=None)
    causes = attribute(Evidence(event=event, series=series))
    return next(cause.evidence_for for cause in causes if cause.name == "unknown")


def everything() -> dict[str, Series]:
    loss = curve(POINTS)
    loss[LEFT - 1 :] += 1.0
    return series_of({"loss": loss} | {name: np.ones(POINTS) for name in (*PROBED, *AROUND)})


def test_nothing_is_missing_where_all_is_logged_at_every_step_or_every_second() -> None:
    assert remarks(everything()) == ()
    assert remarks({name: every(each, 2) for name, each in everything().items()}) == ()


def test_rows_that_lie_far_apart_are_said_with_their_steps() -> None:
    (said,) = remarks({name: every(each, 10) for name, each in everything().items()})

    assert "no row between the steps 591 and 601" in said
    assert "every second" in said


def test_layers_that_were_sampled_too_early_are_said() -> None:
    sampled = {name: every(each, 10, LEFT + 4) for name, each in everything().items()}

    (said,) = remarks(everything() | {name: sampled[name] for name in PROBED})

    assert "last measured at step 595, 6 steps before" in said


def test_what_was_never_logged_is_named() -> None:
    (said,) = remarks({"loss": everything()["loss"], "share/web": everything()["share/web"]})

    assert said.startswith("not logged: replicas, loss scale, attention logits")
    assert "source shares" not in said


def test_an_event_without_a_log_has_no_remarks() -> None:
    assert remarks({}) == ()


def test_a_resume_between_the_rows_about_the_onset_is_near_however_far_apart_they_lie() -> None:
    loss = every(everything()["loss"], 50)
    event = an_event(onset=LEFT, detected=LEFT, baseline=2.7)
    (beyond, between) = (
        attribute(Evidence(event=event, series={"loss": loss}, changes=(resume,)))[0]
        for resume in (Change(step=LEFT - 70, kind="resume"), Change(step=LEFT - 49, kind="resume"))
    )

    assert [beyond.name, between.name] == ["unknown", "resume_fault"]
    assert "first loss logged after it" in between.evidence_for[0]


def test_a_loss_scale_that_fell_far_from_one_row_to_the_next_was_reduced_often() -> None:
    scale = np.where(np.arange(POINTS) < LEFT - 20, 65536.0, 64.0)
    series = {"loss": everything()["loss"], **series_of({"loss_scale": scale})}
    sparse = {name: every(each, 50) for name, each in series.items()}

    (best, *_) = attribute(Evidence(event=an_event(onset=LEFT, baseline=2.7), series=sparse))

    assert best.name == "numerics"
    assert "reduced 10 times" in best.evidence_for[0]


@pytest.mark.parametrize("least", [0.0, 5e-324])
def test_a_loss_scale_that_fell_to_nothing_did_not_hold(least: float) -> None:
    scale = np.where(np.arange(POINTS) < LEFT - 20, 65536.0, least)
    series = {"loss": everything()["loss"], **series_of({"loss_scale": scale})}

    (best, *_) = attribute(Evidence(event=an_event(onset=LEFT, baseline=2.7), series=series))

    assert best.name == "numerics"
