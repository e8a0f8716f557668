"""Causes are ranked with evidence for and against, data last and only on documents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers_diagnose import an_event, curve, gradients, series_of
from jsonschema import validate

from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.causes import CAUSES, Cause
from shardward.quarantine.diagnose.evidence import (
    Change,
    Evidence,
    HardwareSign,
    Lead,
    Trial,
    Twin,
    Window,
)
from shardward.schemas import load_schema

BARE = Evidence(event=an_event())
JUNK = Window(flagged_share=0.7, control_share=0.01, controls=4)
REPLAYED = Trial(kind="replay", recurred=True, bitwise=True)


def named(causes: list[Cause], name: str) -> Cause:
    return next(cause for cause in causes if cause.name == name)


def first(evidence: Evidence) -> str:
    return attribute(evidence)[0].name


def test_an_event_about_which_nothing_is_known_has_an_unknown_cause() -> None:
    assert first(BARE) == "unknown"


def test_confidences_add_up_to_one_over_all_causes() -> None:
    evidence = replace(BARE, window=JUNK, trials=(REPLAYED,))

    assert sum(cause.score for cause in attribute(evidence)) <= 1 + 1e-9


def test_junk_documents_and_a_replay_that_recurs_are_bad_data() -> None:
    causes = attribute(replace(BARE, window=JUNK, trials=(REPLAYED,)))

    assert causes[0].name == "bad_data"
    assert causes[0].score > 0.5
    assert len(causes[0].evidence_for) == 2


def test_bad_data_without_documents_stays_at_or_below_one_half() -> None:
    series = series_of({"loss": curve(700), "loss/a": curve(700), "loss/b": curve(700)})
    series["loss/a"].values[599:603] += 3.0
    evidence = replace(BARE, series=series, trials=(REPLAYED, REPLAYED, REPLAYED, REPLAYED))

    assert named(attribute(evidence), "bad_data").score <= 0.5


def test_a_window_like_its_controls_speaks_against_the_data() -> None:
    window = Window(flagged_share=0.01, control_share=0.01, controls=4)

    assert named(attribute(replace(BARE, window=window)), "bad_data").evidence_against


def test_data_times_state_needs_a_trial() -> None:
    with_trial = replace(
        BARE, window=JUNK, trials=(REPLAYED, Trial(kind="other_state", recurred=False))
    )

    assert "data_state" not in [cause.name for cause in attribute(replace(BARE, window=JUNK))]
    assert first(with_trial) == "data_state"


@pytest.mark.parametrize("severe", [True, False])
def test_a_hardware_sign_is_weighed_by_its_severity(severe: bool) -> None:
    sign = HardwareSign(step=600, what="XID 79 on node 12", severe=severe)
    cause = named(attribute(replace(BARE, hardware=(sign,))), "hardware")

    assert cause.evidence_for == ("XID 79 on node 12",)
    assert (cause.score > 0.5) == severe


SCALE = np.where(np.arange(700) < 590, 65536.0, 2.0 ** -np.arange(700.0))
SHARES = np.where(np.arange(700) < 599, 0.2, 0.9)
RESUMED = (Change(step=600, kind="resume"),)


def test_two_causes_that_each_have_evidence_of_their_own_are_both_named() -> None:
    signs = (HardwareSign(step=599, what="XID 79 on gpu 3"),)
    alone = replace(BARE, series=series_of({"loss_scale": SCALE}))

    both = attribute(replace(alone, hardware=signs))

    assert {cause.name for cause in both[:2]} == {"hardware", "numerics"}
    assert both[1].score > 0.3
    assert all("two causes at once" in cause.evidence_for[-1] for cause in both[:2])
    assert sum(cause.score for cause in both) <= 1 + 1e-9
    assert not any("two causes" in text for text in attribute(alone)[0].evidence_for)


def test_what_a_cause_brings_about_is_no_second_cause() -> None:
    """A loader that was not restored moves the shares of the sources."""
    evidence = replace(BARE, series=series_of({"share/books": SHARES}))

    moved, resumed = attribute(evidence), attribute(replace(evidence, changes=RESUMED))

    assert [moved[0].name, resumed[0].name] == ["mix_change", "resume_fault"]
    assert named(resumed, "mix_change").score < 0.1


def test_what_trials_leave_over_is_no_second_cause() -> None:
    tried = (Trial(kind="skip", recurred=True), Trial(kind="other_data", recurred=True))
    change = Change(step=600, kind="mixture", announced=True)
    evidence = replace(BARE, changes=(change,), trials=tried)

    causes = attribute(evidence)

    assert [cause.name for cause in causes[:2]] == ["mix_change", "learning_rate"]
    assert not any("two causes" in text for cause in causes for text in cause.evidence_for)


def test_a_gradient_explosion_is_a_symptom_unless_a_layer_leads() -> None:
    gradient = gradients(700)
    gradient[599:603] *= 30
    series = series_of({"grad_norm": gradient})
    lead = Lead(layer="blocks.3.attn", signal="grad_norm", steps_ahead=4)

    assert first(replace(BARE, series=series)) == "unknown"
    assert first(replace(BARE, series=series, lead=lead)) == "gradient_explosion"


def test_the_layer_that_the_monitor_saw_move_first_is_the_lead() -> None:
    moved = (("share/code", 590), ("update_ratio/blocks.3", 596), ("loss", 600))
    after = (("loss", 600), ("update_ratio/blocks.3", 601))

    lead = Evidence(event=an_event(moved=moved)).lead

    assert lead == Lead(layer="blocks.3", signal="update_ratio", steps_ahead=4)
    assert Evidence(event=an_event(moved=after)).lead is None
    assert BARE.lead is None


def test_logits_that_grew_are_named() -> None:
    grown = np.linspace(3, 60, 700)
    series = series_of({"attention_logit/blocks.0": grown})

    assert first(replace(BARE, series=series)) == "attention_logits"


def test_every_cause_carries_remedies_that_say_when_they_take_effect() -> None:
    evidence = replace(BARE, changes=(Change(step=599, kind="resume"),), window=JUNK)

    for cause in attribute(evidence):
        assert cause.remedies
        assert {each.effect for each in cause.remedies} <= {"on resume", "needs a restart"}


def test_a_twin_run_on_the_same_data_that_spikes_too_makes_the_data_suspect() -> None:
    """S1, first half."""
    assert first(replace(BARE, twins=(Twin(same_data=True, coincides=True),))) == "bad_data"


def test_the_ranking_has_a_schema() -> None:
    evidence = replace(BARE, window=JUNK, trials=(REPLAYED,))
    answer = [cause.to_json() for cause in attribute(evidence)]

    validate(answer, load_schema("attribution.v1"))


def test_the_schema_knows_every_cause() -> None:
    known = load_schema("attribution.v1")["items"]["properties"]["name"]["enum"]

    assert known == list(CAUSES)
