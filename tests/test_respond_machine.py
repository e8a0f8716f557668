"""The order of the response: legal histories are accepted, everything else is refused with why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardward.loader.errors import IncidentError
from shardward.quarantine.respond.machine import (
    EXITS,
    NOTES,
    REACHED,
    STEPS,
    WITHOUT,
    Case,
    advance,
    fold,
)

ACTS = [*REACHED, *NOTES]


def after(*acts: str) -> Case:
    return fold(("open", *acts))


def test_the_whole_response_in_its_order_ends_filed() -> None:
    assert after(*STEPS).state == "filed"


@pytest.mark.parametrize("place", range(1, len(STEPS)))
def test_a_step_out_of_order_names_the_missing_one_and_what_would_break(place: int) -> None:
    case = after(*STEPS[: place - 1])

    with pytest.raises(IncidentError) as refusal:
        advance(case, STEPS[place])

    missing = STEPS[place - 1]
    assert f"comes after {missing}, which is missing" in str(refusal.value)
    assert WITHOUT[missing] in str(refusal.value)


@pytest.mark.parametrize("step", [s for s in STEPS if s not in ("watch", "file")])
def test_a_step_is_done_once_a_round(step: str) -> None:
    case = after(*STEPS[: STEPS.index(step) + 1])

    with pytest.raises(IncidentError, match="its evidence stored"):
        advance(case, step)


def test_a_watch_may_be_looked_at_again() -> None:
    assert after(*STEPS[:6], "watch").state == "watched"


@pytest.mark.parametrize("act", ["dismiss", "recover", "not-data"])
def test_an_exit_can_be_filed_without_the_steps_between(act: str) -> None:
    assert after("confirm", act, "file").state == "filed"


def test_an_escalated_incident_is_not_filed_but_reopened() -> None:
    with pytest.raises(IncidentError, match="reopen it before"):
        after("escalate", "file")
    assert after("escalate", "reopen", "confirm").round == 2


def test_data_is_not_acquitted_unseen() -> None:
    with pytest.raises(IncidentError, match="exit from confirmed"):
        after("not-data")


def test_a_skipped_incident_cannot_be_dismissed() -> None:
    with pytest.raises(IncidentError, match="the next step is resume"):
        after(*STEPS[:4], "dismiss")


def test_reopening_starts_a_new_round_from_the_beginning() -> None:
    case = after(*STEPS[:6], "reopen")

    assert (case.state, case.round, case.done) == ("opened", 2, ())
    assert case.next_step == "confirm"


def test_an_open_incident_cannot_be_reopened() -> None:
    with pytest.raises(IncidentError, match="still open; the next step is identify"):
        after("confirm", "reopen")


@given(st.lists(st.sampled_from(ACTS), max_size=25))
def test_random_acts_never_break_the_order(acts: list[str]) -> None:
    """Whatever is tried, what was done in a round is a prefix of the steps, save for exits."""
    case = fold(["open"])
    for act in acts:
        try:
            case = advance(case, act)
        except IncidentError:
            continue
        steps = [step for step in case.done if step in STEPS and step != "file"]
        assert steps == list(STEPS[: len(steps)])
        if case.state == "filed":
            assert case.done[:-1] == STEPS[:-1] or set(case.done) & set(EXITS)
        if case.state == "skipped":
            assert set(STEPS[:4]) <= set(case.done)
