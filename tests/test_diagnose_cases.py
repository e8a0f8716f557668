"""Cases S1 to S17: what spikes did to the users of other tools, as far as signals can tell."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers_diagnose import an_event, curve, gradients, pages, series_of, spiked, watch

from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.evidence import (
    Change,
    Evidence,
    Trial,
    Twin,
    Window,
    changes_from,
)
from shardward.quarantine.diagnose.monitor import Monitor
from shardward.quarantine.diagnose.series import Series
from shardward.quarantine.diagnose.signals import read_log

TAIL = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)
BARE = Evidence(event=an_event())
JUNK = Window(flagged_share=0.7, control_share=0.01, controls=4)


def names(evidence: Evidence) -> list[str]:
    return [cause.name for cause in attribute(evidence)]


def score(evidence: Evidence, name: str) -> float:
    return next((cause.score for cause in attribute(evidence) if cause.name == name), 0.0)


def test_s1_a_twin_that_spikes_at_the_same_steps_makes_the_data_suspect() -> None:
    both = replace(BARE, twins=(Twin(same_data=True, coincides=True),))
    alone = replace(BARE, window=JUNK, twins=(Twin(same_data=True, coincides=False),))

    assert names(both)[0] == "bad_data"
    assert names(alone)[0] != "bad_data"


def test_s2_a_spike_that_recurs_without_the_range_withdraws_the_data_hypothesis() -> None:
    again = replace(BARE, window=JUNK, trials=(Trial(kind="skip", recurred=True),))

    assert names(again)[0] == "learning_rate"
    assert score(again, "bad_data") < 0.05


def test_s3_the_onset_is_the_first_rise_of_the_gradient_norm() -> None:
    gradient = gradients(2500, noise=0.05)
    gradient[1999:2005] = [0.95, 2.4, 15.9, 145.0, 960.0, 300.0]

    (event,) = pages(watch(spiked(curve(2500), 2004, [1.5, 4.0, 3.0, 2.0]), gradient))

    assert event.onset == 2000


def test_s4_a_loss_scale_reduced_again_and_again_is_numerics() -> None:
    scale = np.full(700, 65536.0)
    scale[590:] = 2.0 ** -np.arange(110.0)
    collapsed = replace(BARE, series=series_of({"loss_scale": scale}))

    assert names(collapsed)[0] == "numerics"


def test_s5_a_source_that_was_added_is_a_mix_change() -> None:
    loss = curve(3000)
    loss[1999:] += 1.0 * np.exp(-np.arange(1001) / 400)
    (event,) = pages(watch(loss))
    change = Change(step=2000, kind="mixture", announced=True)

    causes = attribute(Evidence(event=event, series=series_of({"loss": loss}), changes=(change,)))

    assert causes[0].name == "mix_change"
    assert "leave the run alone" in causes[0].remedies[0].what


def test_s6_a_sawtooth_of_sources_in_order_is_a_matter_of_the_mixture() -> None:
    rise = 0.4 * (np.arange(4000) // 300 % 2)
    events = watch(curve(4000) + rise)
    last = events[-1]

    causes = names(Evidence(event=last, earlier=tuple(events[:-1])))

    assert [event.onset for event in events] == [901, 1501, 2101, 2701, 3301, 3901]
    assert [event.count for event in events if event.page] == [6]
    assert "alike every 600 steps, as from sources read in order" in events[0].note
    assert causes[0] == "mix_change"


def test_s7_a_loss_that_jumps_on_the_first_resumed_step_is_a_resume_fault() -> None:
    monitor = Monitor()
    loss = spiked(curve(1400), 1301, [0.8] * 99)
    for step, value in enumerate(loss[:1320].tolist(), start=1):
        monitor.update(step, loss=value if step <= 1300 else float(loss[1299]))
    for step in range(1301, 1400):
        monitor.update(step, loss=float(loss[step - 1]))
    (event,) = monitor.pages

    found = Evidence(event=event, changes=changes_from(monitor.events))

    assert event.onset == 1301
    assert names(found)[0] == "resume_fault"


def test_s8_a_transient_right_after_a_resume_leaves_the_data_innocent() -> None:
    event = an_event(onset=602, end=640)
    found = replace(BARE, event=event, changes=(Change(step=600, kind="resume"),))

    assert names(found)[0] == "resume_fault"
    assert score(found, "bad_data") < 0.05


def test_s10_ranks_that_get_the_same_reduced_values_decide_the_same() -> None:
    loss = spiked(curve(1500), 1000, [math.nan, 3.0, 2.0, 1.0, 0.5])
    ranks = [Monitor() for _ in range(4)]
    for step, value in enumerate(loss.tolist(), start=1):
        for rank in ranks:
            rank.update(step, loss=value)

    assert len({repr(rank.events) for rank in ranks}) == 1
    assert ranks[0].pages


def test_s11_a_batch_whose_labels_are_all_masked_is_a_format_defect() -> None:
    defect = "all labels of document 4711 are masked"
    window = Window(flagged_share=0.0, control_share=0.0, controls=0, defects=(defect,))
    event = an_event(kind="nonfinite", peak=math.nan)
    best = attribute(Evidence(event=event, window=window))[0]

    assert best.name == "bad_data"
    assert best.evidence_for == (f"format defect: {defect}",)


def test_s12_a_short_last_batch_is_nothing() -> None:
    loss, batch = curve(3000), np.full(3000, 256.0)
    monitor = Monitor()
    for step in range(700, 3000, 700):
        batch[step] = 40
        loss[step] += 0.06
    for step, (value, size) in enumerate(zip(loss.tolist(), batch.tolist(), strict=True), 1):
        monitor.update(step, loss=value, batch_size=size)

    assert [event for event in monitor.events if event.kind != "blip"] == []


def test_s13_a_norm_just_above_some_threshold_at_every_step_is_the_baseline() -> None:
    norm = np.random.default_rng(0).normal(1.05, 0.02, 3000)

    assert watch(curve(3000), norm) == []


def test_s14_a_rate_that_warms_up_again_after_a_rollback_is_the_rate() -> None:
    planned = np.full(700, 1e-4)
    logged = planned.copy()
    logged[580:] = np.linspace(1e-4, 6e-4, 120)
    found = replace(
        BARE,
        series=series_of({"lr": logged}),
        schedule=series_of({"lr": planned})["lr"],
        changes=(Change(step=581, kind="resume"),),
    )

    assert names(found)[0] == "learning_rate"
    assert "schedule says" in attribute(found)[0].evidence_for[0]


def test_s15_a_replay_with_other_numbers_is_hardware_and_not_data() -> None:
    replay = Trial(kind="replay", recurred=True, bitwise=False)
    found = replace(BARE, window=JUNK, trials=(replay,))

    assert names(found)[0] == "hardware"
    assert score(found, "bad_data") < 0.2


def test_s16_a_log_that_steps_back_after_a_rollback_loses_no_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    steps = [*range(1, 31), *range(21, 41)]
    path.write_text("step,loss\n" + "".join(f"{step},2.5\n" for step in steps), encoding="utf-8")

    series = read_log(path).series["loss"]
    monitor = Monitor()
    for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
        monitor.update(step, loss=value)

    assert series.steps.tolist() == steps
    assert [event.note for event in monitor.events] == ["the log steps back from 30 to 21"]


def test_s17_one_nan_poisons_no_baseline() -> None:
    loss = spiked(curve(3000), 2000, TAIL)
    loss[1990] = math.nan

    assert [event.onset for event in pages(watch(loss))] == [1991, 2000]


def test_s17_a_legitimate_level_shift_is_not_rejected_for_ever() -> None:
    loss = curve(4000)
    loss[1500:] *= 1.3

    assert [event.onset for event in pages(watch(loss))] == [1501]


@pytest.mark.parametrize("gap", [8, 20, 60])
def test_s17_a_big_spike_does_not_mask_the_next(gap: int) -> None:
    loss = spiked(curve(3000), 2000, [50.0, 80.0, 4.0, 0.5])
    loss = spiked(loss, 2000 + gap, TAIL)

    assert [event.onset for event in pages(watch(loss))] == [2000, 2000 + gap]


def test_a_series_refuses_steps_and_values_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="one length"):
        Series(name="loss", steps=np.arange(3), values=np.zeros(2))
