"""Twin runs, fragility and charts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_diagnose import curve, series_of, spiked, watch

from shardward.quarantine.diagnose.chart import html_chart, text_chart
from shardward.quarantine.diagnose.compare import Comparison, compare
from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.evidence import Twin
from shardward.quarantine.diagnose.fragility import far_share, fragility
from shardward.quarantine.diagnose.series import Series

TAIL = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)
BATCHES = np.random.default_rng(3).normal(0, 0.1, 1500)


def compared(first: np.ndarray, second: np.ndarray) -> Comparison:
    return compare(
        series_of({"loss": first}), series_of({"loss": second}), watch(first), watch(second)
    )


def test_runs_on_the_same_batches_correlate_and_runs_on_others_do_not() -> None:
    same = compared(curve(1500) + BATCHES, curve(1500, seed=1) + BATCHES)
    other = compared(curve(1500) + BATCHES, curve(1500, seed=1) - np.roll(BATCHES, 700))

    assert same.same_data is True
    assert other.same_data is False


def test_too_little_in_common_says_nothing() -> None:
    found = compared(curve(20), curve(20))

    assert (found.correlation, found.same_data) == (None, None)


def test_a_constant_log_says_nothing() -> None:
    assert compared(np.full(500, 2.0), curve(500)).same_data is None


def test_spikes_that_coincide_are_told_from_those_that_do_not() -> None:
    """S1: the twin's spikes decide whether the data are suspect."""
    first = spiked(spiked(curve(1500) + BATCHES / 3, 800, TAIL), 1200, TAIL)
    second = spiked(curve(1500, seed=1) + BATCHES / 3, 801, TAIL)

    found = compared(first, second)

    assert (found.coinciding, found.alone) == ((800,), (1200,))
    assert found.twin(800) == Twin(same_data=True, coincides=True)
    assert found.twin(1200) == Twin(same_data=True, coincides=False)
    assert found.twin(7) is None


@pytest.mark.parametrize(("every", "since"), [(10, 1), (1, 760)])
def test_a_twin_that_could_not_show_a_spike_does_not_clear_the_data(every: int, since: int) -> None:
    """It logs one step in ten, or was started at a checkpoint forty steps before."""
    loss = spiked(curve(1500) + BATCHES / 3, 800, TAIL)
    twin = series_of({"loss": loss})["loss"]
    kept = (twin.steps % every == 0) & (twin.steps >= since)
    other = {"loss": Series(name="loss", steps=twin.steps[kept], values=twin.values[kept])}

    found = compare(series_of({"loss": loss}), other, watch(loss), [])

    assert found.same_data is True
    assert (found.coinciding, found.alone, found.unclear) == ((), (), (800,))
    assert found.twin(800) is None


def test_an_event_beyond_the_other_log_is_not_compared() -> None:
    found = compared(spiked(curve(1500), 1200, TAIL), curve(1000, seed=1))

    assert (found.coinciding, found.alone) == ((), ())


def test_fragility_counts_pages_and_their_trend() -> None:
    loss = spiked(spiked(curve(2000), 1200, TAIL), 1600, TAIL)

    found = fragility(series_of({"loss": loss})["loss"], watch(loss))

    assert found.spikes_per_thousand == 1.0
    assert found.trend == 2.0


def test_fragility_counts_the_rises_of_a_pattern_that_pages_once() -> None:
    loss = curve(4000) + 0.4 * (np.arange(4000) // 300 % 2)
    events = watch(loss)

    assert sum(event.page for event in events) == 1
    assert fragility(series_of({"loss": loss})["loss"], events).spikes_per_thousand == 1.5


def test_the_far_share_is_the_share_of_values_far_from_the_mean_of_a_thousand() -> None:
    values = np.random.default_rng(0).normal(2, 0.1, 3000)
    values[[1500, 2000]] += 2.0
    brute = [
        abs(values[i] - values[i - 1000 : i].mean()) >= 7 * values[i - 1000 : i].std()
        for i in range(1000, 3000)
    ]

    assert far_share(values) == pytest.approx(np.mean(brute))
    assert far_share(values) == pytest.approx(2 / 2000)


def test_the_far_share_needs_a_thousand_values() -> None:
    assert far_share(np.ones(1000)) is None


def test_an_empty_log_has_no_fragility() -> None:
    empty = Series(name="loss", steps=np.array([], dtype=np.int64), values=np.array([]))

    assert fragility(empty, []).spikes_per_thousand == 0


def test_the_text_chart_is_as_wide_as_asked_and_marks_the_page() -> None:
    loss = spiked(curve(1500), 1000, TAIL)
    lines = text_chart(series_of({"loss": loss})["loss"], watch(loss), width=60).split("\n")

    assert max(map(len, lines)) <= 70
    assert lines[-2].count("▲") == 1


def test_the_html_chart_escapes_what_a_log_may_be_called() -> None:
    loss = spiked(curve(1500), 1000, TAIL)
    page = html_chart("<script>", series_of({"loss": loss})["loss"], watch(loss))

    assert "<script>" not in page
    assert page.count("<line") == 1


@pytest.mark.parametrize("values", [[np.nan, np.nan], [1.0], [2.0, 2.0]])
def test_charts_of_odd_logs_are_drawn(values: list[float]) -> None:
    loss = series_of({"loss": np.array(values)})["loss"]

    assert text_chart(loss, [])
    assert html_chart("odd", loss, [])


def test_a_twin_in_its_warm_up_says_nothing() -> None:
    loss = spiked(curve(1200), 220, [1.0, 0.9, 0.8, 0.7])
    ours, theirs = series_of({"loss": loss[:400]}), series_of({"loss": loss})
    short, long = MonitorConfig.for_short_run(400), MonitorConfig.for_short_run(1200)
    found = compare(
        ours,
        theirs,
        watch(loss[:400], config=short),
        watch(loss, config=long),
        least_before=long.least_points,
        warmup=long.warmup_steps,
    )

    assert (found.coinciding, found.alone, len(found.unclear)) == ((), (), 1)
