"""What was there before the loss left its level may be a cause; what came with it, an effect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers_diagnose import Array, an_event, curve, series_of

from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.evidence import Change, Evidence, Window
from shardward.quarantine.diagnose.rules import loss_left
from shardward.quarantine.diagnose.series import Series

POINTS, LEFT = 700, 602
JUNK = Window(flagged_share=0.7, control_share=0.01, controls=4)
NOISE = np.random.default_rng(5).normal(0, 0.02, POINTS)


def the_loss(last: int = POINTS) -> Array:
    """A loss that stands one higher from step LEFT to step `last`."""
    loss = curve(POINTS)
    loss[LEFT - 1 : last] += 1.0
    return loss


def probed(every: int = 1, **moved: Array) -> dict[str, Series]:
    """Return the loss and what probes sample at every k-th step, with `moved` in place of calm."""
    calm = {
        "attention_logit/blocks.0": 3 + NOISE,
        "output_lse": 5 + NOISE,
        "rare_update_ratio": 0.01 + NOISE / 100,
        "update_ratio/blocks.0": 0.001 + NOISE / 1000,
    }
    found = series_of({name.replace("__", "/"): each for name, each in {**calm, **moved}.items()})
    for name, each in found.items():
        sampled = each.steps % every == 0
        found[name] = replace(each, steps=each.steps[sampled], values=each.values[sampled])
    return found | series_of({"loss": the_loss(LEFT + 5)})


def page(series: dict[str, Series], **fields: object) -> Evidence:
    """Return a page whose onset lies two steps before the loss left."""
    given = {"onset": LEFT - 2, "detected": LEFT + 2, "end": LEFT + 6, "peak": 3.9} | fields
    return Evidence(event=an_event(baseline=2.7, **given), series=series)


def scores(evidence: Evidence) -> dict[str, float]:
    return {cause.name: cause.score for cause in attribute(evidence)}


def test_the_loss_leaves_where_it_is_clearly_off_its_level_and_not_at_the_onset() -> None:
    assert loss_left(page(probed())) == LEFT


@pytest.mark.parametrize("loss", [None, np.full(POINTS, 2.7)])
def test_a_loss_that_is_not_there_or_never_leaves_has_left_at_the_onset(loss: Array | None) -> None:
    series = {} if loss is None else series_of({"loss": loss})

    assert loss_left(page(series)) == LEFT - 2


def test_a_loss_that_is_no_number_has_left() -> None:
    loss = the_loss()
    loss[LEFT - 2] = np.nan

    assert loss_left(page(series_of({"loss": loss}))) == LEFT - 1


def test_a_jump_beside_which_all_stood_still_is_the_data_by_elimination() -> None:
    found = scores(page(probed()))

    assert max(found, key=lambda name: found[name]) == "bad_data"
    assert found["bad_data"] <= 0.5


def test_what_was_sampled_too_early_eliminates_nothing() -> None:
    found = scores(page(probed(every=10)))

    assert max(found, key=lambda name: found[name]) == "unknown"
    assert found["bad_data"] < 0.1


@pytest.mark.parametrize(("every", "named"), [(2, True), (3, False)])
def test_a_log_with_steps_between_its_rows_eliminates_nothing(every: int, named: bool) -> None:
    series = {
        name: replace(each, steps=each.steps[kept], values=each.values[kept])
        for name, each in probed().items()
        for kept in [each.steps % every == LEFT % every]
    }

    found = scores(page(series, end=None))

    assert (max(found, key=lambda name: found[name]) == "bad_data") is named


def test_a_jump_that_has_not_ended_is_the_data_no_more() -> None:
    series = probed() | series_of({"loss": the_loss()})

    lasting = attribute(page(series, kind="divergence", end=None))

    assert lasting[0].name == "unknown"
    (data,) = [cause for cause in lasting if cause.name == "bad_data"]
    assert "it has not ended, as batches do" in data.evidence_for[0]


def resumed(**moved: Array) -> Evidence:
    """Return a page whose loss left on the first resumed step, with all that a resume restores."""
    calm = {"lr": np.full(POINTS, 1e-3), "share__web": 0.5 + NOISE / 100, "residual__0": 2 + NOISE}
    known = {name.replace("__", "/"): each for name, each in {**calm, **moved}.items()}
    change = Change(step=LEFT, kind="resume")
    found = page(probed() | series_of(known), onset=LEFT)
    return replace(found, changes=(change,), window=JUNK)


def test_a_resume_that_restored_all_it_should_is_not_blamed() -> None:
    assert attribute(resumed())[0].name == "bad_data"
    assert scores(resumed())["resume_fault"] < 0.1


def test_a_loader_that_begins_anew_has_not_been_restored() -> None:
    """Its sources come in order: what it goes back to was there before, long ago."""
    share = np.where(np.arange(POINTS) < LEFT - 40, 0.9, 0.1)
    share[LEFT - 1 :] = 0.9

    assert attribute(resumed(share__web=share))[0].name == "resume_fault"


@pytest.mark.parametrize(
    "part", ["lr", "share__web", "residual__0", "update_ratio__blocks.0", "output_lse"]
)
def test_a_resume_is_blamed_where_a_part_moved_or_was_not_measured(part: str) -> None:
    moved = np.where(np.arange(POINTS) < LEFT - 1, NOISE, 9.0)
    lost = resumed(**{part: moved})
    name = part.replace("__", "/")
    unmeasured = replace(lost, series={k: v for k, v in lost.series.items() if k != name})

    assert attribute(lost)[0].name == "resume_fault"
    if name not in ("output_lse", "residual/0"):  # another signal shows the weights
        assert attribute(unmeasured)[0].name == "resume_fault"


@pytest.mark.parametrize(("first", "named"), [(LEFT - 3, True), (LEFT + 1, False)])
def test_attention_logits_that_grow_after_the_loss_left_are_an_effect(
    first: int, named: bool
) -> None:
    logits = 3 + NOISE
    logits[first - 1 :] *= 1.8 ** np.arange(1, POINTS - first + 2).clip(max=12)
    found = attribute(page(probed(attention_logit__blocks=logits), detected=LEFT + 8))

    assert (found[0].name == "attention_logits") is named
    texts = [text for cause in found for text in cause.evidence_for if "logit" in text]
    assert any("after it" in text for text in texts) is not named


@pytest.mark.parametrize(
    ("steps", "heights"),
    [
        ([1, POINTS], [1.0, 5.0]),
        # As far as once before, from one level to the next.
        ([1, 516, 540, 576, 600, POINTS], [3.0, 3.0, 4.5, 4.5, 6.0, 6.0]),
    ],
)
def test_logits_that_climb_as_they_did_before_are_no_cause(
    steps: list[int], heights: list[float]
) -> None:
    logits = np.interp(np.arange(1, POINTS + 1), steps, heights)
    found = scores(page(probed(every=6, attention_logit__blocks=logits)))

    assert found["attention_logits"] < 0.1


@pytest.mark.parametrize(("first", "named"), [(LEFT - 1, True), (LEFT, False)])
def test_updates_that_grow_with_their_gradients_after_the_loss_left_are_an_effect(
    first: int, named: bool
) -> None:
    """Without a normalising optimizer an update is as large as its gradient."""
    updates, gradients = 0.001 + NOISE / 1000, 1.0 + NOISE
    updates[first - 1 :] *= 50
    gradients[LEFT - 1 :] *= 50
    evidence = page(probed(update_ratio__blocks=updates) | series_of({"grad_norm": gradients}))
    (cause,) = (each for each in attribute(evidence) if each.name == "learning_rate")

    assert bool(cause.evidence_for) is named
    assert ("updates kept their size" in cause.evidence_against) is not named


@pytest.mark.parametrize("kind", ["resume", "mixture"])
def test_a_change_at_the_step_at_which_the_loss_left_is_near_enough(kind: str) -> None:
    change = Change(step=LEFT, kind=kind)  # type: ignore[arg-type]
    best = attribute(replace(page(probed()), changes=(change,)))[0].name

    assert best == {"resume": "resume_fault", "mixture": "mix_change"}[kind]


def test_a_rate_that_rose_just_before_the_loss_left_is_found() -> None:
    rate = np.full(POINTS, 1e-4)
    rate[LEFT - 2 :] = 1e-3
    evidence = page(probed() | series_of({"lr": rate}))

    assert attribute(evidence)[0].name == "learning_rate"


def test_a_held_out_loss_that_goes_on_falling_stood_still_beside_a_risen_loss() -> None:
    heldout, norm = np.full(POINTS, 2.9), np.ones(POINTS)
    heldout[LEFT - 1 :] = 2.7
    series = series_of({"loss": the_loss(), "heldout_loss": heldout, "grad_norm": norm})
    found = attribute(page(series, end=None))

    assert found[0].name == "logging"


def test_a_spike_that_is_over_was_no_change_of_scale() -> None:
    """Training goes on falling, so the level after a spike lies below the one before."""
    loss = the_loss(LEFT + 2)
    loss[LEFT + 2 :] *= 0.9
    series = series_of({"loss": loss, "heldout_loss": np.full(POINTS, 2.9)})

    assert "logging" not in scores(page(series | series_of({"grad_norm": np.ones(POINTS)})))


@pytest.mark.parametrize(("resumed", "best"), [(LEFT - 1, "resume_fault"), (300, "learning_rate")])
def test_a_rate_off_its_schedule_since_a_resume_just_before_is_a_scheduler_not_restored(
    resumed: int, best: str
) -> None:
    planned = np.full(POINTS, 1e-4)
    logged = planned.copy()
    logged[LEFT - 2 :] = 1e-3
    evidence = replace(
        page(probed() | series_of({"lr": logged})),
        schedule=series_of({"lr": planned})["lr"],
        changes=(Change(step=resumed, kind="resume"),),
    )

    assert attribute(evidence)[0].name == best


@pytest.mark.parametrize(("height", "best"), [(0.5, "eval_drift"), (0.0, "unknown")])
def test_an_evaluation_that_jumps_beside_a_calm_loss_is_the_harness(
    height: float, best: str
) -> None:
    """A person opens an incident about it: the monitor pages for the training loss alone."""
    heldout = 2.9 + NOISE / 10
    heldout[LEFT - 1 :] += height
    event = an_event(onset=LEFT, detected=LEFT + 20, baseline=np.nan, peak=np.nan, z=np.nan)
    series = series_of({"loss": curve(POINTS), "eval/wikitext_loss": heldout})
    found = attribute(Evidence(event=event, series=series))

    assert found[0].name == best
    assert [cause.name for cause in found if "level" in str(cause.evidence_for)] == (
        [best] if best != "unknown" else []
    )


def test_an_evaluation_that_jumps_with_the_loss_is_no_drift_of_the_harness() -> None:
    heldout = 2.9 + NOISE / 10
    heldout[LEFT - 1 :] += 0.5
    evidence = page(series_of({"loss": the_loss(), "heldout_loss": heldout}), end=None)

    assert scores(evidence)["eval_drift"] < 0.02


def test_a_page_for_the_loss_is_no_drift_of_the_harness_however_slowly_it_rises() -> None:
    heldout = 2.9 + NOISE / 10
    heldout[LEFT - 1 :] += 0.5
    evidence = page(series_of({"loss": curve(POINTS), "heldout_loss": heldout}), end=None)

    assert attribute(evidence)[0].name == "unknown"


def test_a_level_that_rose_with_the_share_of_a_source_is_no_change_of_scale() -> None:
    """Gradient norm and held-out loss stand still in both."""
    share = np.full(POINTS, 0.2)
    share[LEFT - 1 :] = 0.55
    calm = {"grad_norm": np.ones(POINTS), "heldout_loss": np.full(POINTS, 2.9)}
    scaled = series_of({"loss": the_loss(), **calm})

    assert attribute(page(scaled, end=None))[0].name == "logging"
    mixed = page(scaled | series_of({"share/books": share}), end=None)
    assert attribute(mixed)[0].name == "mix_change"


@pytest.mark.parametrize(("others", "named"), [(1, True), (50, False)])
def test_rare_rows_that_leap_with_all_other_updates_are_not_about_epsilon(
    others: int, named: bool
) -> None:
    rare, updates = 0.01 + NOISE / 100, 0.001 + NOISE / 1000
    rare[LEFT - 2 : LEFT] *= 60
    updates[LEFT - 2 :] *= others
    evidence = page(probed(rare_update_ratio=rare, update_ratio__blocks=updates))

    assert (attribute(evidence)[0].name == "adam_epsilon") is named
