"""A jump of the loss alone is a claim; the checklist says who agrees."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_diagnose import an_event, curve, gradients, series_of
from jsonschema import validate

from shardward.loader.errors import UsageError
from shardward.quarantine.diagnose.confirm import Check, Checklist, confirm
from shardward.quarantine.diagnose.directions import declared
from shardward.quarantine.diagnose.series import Series
from shardward.schemas import load_schema

EVENT = an_event(onset=600, detected=602, end=606)


def hurt(*, gradient: float | None = None, clip: float | None = None) -> dict[str, Series]:
    """Return a run whose loss jumps at step 600, with other signals rising where given."""
    loss = curve(700)
    loss[599:605] += 1.0
    values = {"loss": loss}
    if gradient is not None:
        values["grad_norm"] = gradients(700)
        values["grad_norm"][599:605] *= gradient
    if clip is not None:
        values["clip_rate"] = np.where(np.arange(700) % 10 == 0, 1.0, 0.0)
        values["clip_rate"][599:605] = clip
    return series_of(values)


def held_out(step: int, after: float) -> Series:
    return Series(name="heldout_loss", steps=np.array([500, step]), values=np.array([2.6, after]))


def item(checklist: Checklist, signal: str) -> Check:
    return next(each for each in checklist.items if each.signal == signal)


def test_loss_alone_is_insufficient_when_nothing_else_was_logged() -> None:
    assert confirm(EVENT, hurt()).verdict == "insufficient"


def test_loss_alone_is_unconfirmed_when_the_others_disagree() -> None:
    checklist = confirm(EVENT, hurt(gradient=1.0, clip=0.0))

    assert checklist.verdict == "unconfirmed"
    assert item(checklist, "grad_norm").agrees is False


def test_a_gradient_norm_that_rose_confirms() -> None:
    checklist = confirm(EVENT, hurt(gradient=4.0))

    assert checklist.verdict == "confirmed"
    assert item(checklist, "grad_norm").agrees is True


def test_a_loss_that_still_falls_fast_does_not_take_its_fall_for_noise() -> None:
    steps = np.arange(1, 101)
    loss = 2.7 + 1.2 * np.exp(-steps / 30.0) + 0.04 * np.sin(7.0 * steps)
    norm = 0.5 + 0.01 * np.cos(5.0 * steps)
    loss[85:88] += 0.4
    norm[85:88] *= 4.0

    checklist = confirm(
        an_event(onset=86, detected=88, end=88), series_of({"loss": loss, "grad_norm": norm})
    )

    assert checklist.verdict == "confirmed"


def test_a_clip_rate_that_rose_confirms() -> None:
    assert confirm(EVENT, hurt(clip=1.0)).verdict == "confirmed"


def test_a_clip_rate_that_was_full_before_cannot_say() -> None:
    series = hurt(clip=1.0)
    series["clip_rate"].values[:] = 1.0

    checklist = confirm(EVENT, series)

    assert item(checklist, "clip_rate").agrees is None
    assert checklist.verdict == "insufficient"


def test_a_held_out_loss_that_rose_confirms() -> None:
    checklist = confirm(EVENT, hurt(), {"heldout_loss": held_out(604, 3.0)})

    assert checklist.verdict == "confirmed"


def test_a_held_out_loss_that_fell_does_not_agree() -> None:
    checklist = confirm(EVENT, hurt(), {"heldout_loss": held_out(604, 2.5)})

    assert checklist.verdict == "unconfirmed"


@pytest.mark.parametrize(
    ("name", "later", "agrees"),
    [
        ("accuracy", 2.9, False),
        ("accuracy", 2.0, True),
        ("eval/mmlu_acc", 2.0, True),
        ("heldout/web/ppl", 3.0, True),
        ("bits_per_byte", 3.0, True),
        ("pass@1", 2.0, True),
        ("exact_match", 3.0, False),
        ("eval/f1", 2.0, True),
        ("reward_model_loss", 3.0, True),
        ("tokens_per_second", 2.0, None),
        ("tokens_per_second", 3.0, None),
        ("mmlu", 2.0, None),
    ],
)
def test_a_metric_is_read_by_the_direction_that_its_name_says(
    name: str, later: float, agrees: bool | None
) -> None:
    checklist = confirm(EVENT, hurt(), {name: held_out(604, later)})

    assert checklist.items[-1].agrees is agrees
    verdicts = {True: "confirmed", False: "unconfirmed", None: "insufficient"}
    assert checklist.verdict == verdicts[agrees]


def test_a_direction_can_be_declared_by_the_last_part_of_a_name() -> None:
    evals = {"eval/mmlu": held_out(604, 2.0)}

    assert confirm(EVENT, hurt(), evals, worse=declared(["mmlu=lower"])).verdict == "confirmed"
    assert confirm(EVENT, hurt(), evals, worse=declared(["mmlu=higher"])).verdict == "unconfirmed"


@pytest.mark.parametrize("word", ["mmlu", "mmlu=down", "=lower"])
def test_a_direction_in_other_words_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="is not METRIC=higher"):
        declared([word])


def test_a_held_out_loss_long_after_the_event_cannot_say() -> None:
    checklist = confirm(EVENT, hurt(), {"heldout_loss": held_out(690, 2.5)})

    assert checklist.verdict == "insufficient"


def test_the_sources_that_rose_are_named() -> None:
    series = hurt()
    web, code = curve(700, seed=1), curve(700, seed=2)
    web[599:605] += 2.0
    series |= series_of({"loss/web": web, "loss/code": code})

    check = item(confirm(EVENT, series), "source_loss")

    assert check.agrees is True
    assert check.note == "1 of 2 sources rose: web"


def test_a_loss_that_did_not_move_is_never_confirmed() -> None:
    series = hurt(gradient=4.0)
    series["loss"].values[599:605] -= 1.0

    assert confirm(EVENT, series).verdict == "unconfirmed"


def test_a_loss_that_is_not_finite_agrees() -> None:
    series = hurt(gradient=4.0)
    series["loss"].values[600] = np.nan

    assert item(confirm(EVENT, series), "loss").agrees is True


def test_too_few_points_before_the_event_are_insufficient() -> None:
    early = an_event(onset=3, detected=5)

    assert confirm(early, hurt(gradient=4.0)).verdict == "insufficient"


def test_the_checklist_has_a_schema() -> None:
    for series in (hurt(), hurt(gradient=4.0, clip=1.0)):
        validate(confirm(EVENT, series).to_json(), load_schema("checklist.v1"))
