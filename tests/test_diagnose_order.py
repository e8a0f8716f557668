"""Logs whose rows are out of order, repeated or taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers_diagnose import curve, spiked

from shardward.cli.monitor import monitor
from shardward.loader.errors import FormatError
from shardward.quarantine.diagnose.signals import Log, read_log

TAIL = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)
STEPS = np.arange(1, 2001)
LOSS = spiked(curve(2000), 1500, TAIL)


def log(folder: Path, places: np.ndarray, loss: np.ndarray = LOSS) -> Path:
    path = folder / "log.csv"
    rows = [f"{STEPS[place]},{loss[place]:.5f}\n" for place in places]
    path.write_text("step,loss\n" + "".join(rows), encoding="utf-8")
    return path


def shuffled(places: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).permutation(places)


def jittered(places: np.ndarray) -> np.ndarray:
    return np.argsort(places + np.random.default_rng(0).uniform(0, 3, len(places)))


@pytest.mark.parametrize("order", [shuffled, np.flip, jittered, lambda x: np.roll(x, 900)])
def test_rows_out_of_order_are_sorted_and_said_and_their_spike_pages(
    tmp_path: Path, order: Callable[[np.ndarray], np.ndarray]
) -> None:
    path = log(tmp_path, order(np.arange(2000)))
    result = CliRunner().invoke(monitor, ["check", str(path), "--json"])
    found = json.loads(result.stdout)

    assert result.exit_code == 3
    assert [event["onset"] for event in found["events"]] == [1500]
    assert "sorted by step" in found["notes"][0]
    assert "sorted by step" in result.stderr


def test_a_log_that_was_restarted_is_left_as_it_is(tmp_path: Path) -> None:
    places = np.concatenate([np.arange(1200), np.arange(1000, 1600), np.arange(1550, 2000)])
    found = read_log(log(tmp_path, places))

    assert found.notes == ()
    assert found.series["loss"].steps.tolist() == STEPS[places].tolist()


def test_rows_of_several_writers_count_once_by_their_mean(tmp_path: Path) -> None:
    once: Log = read_log(log(tmp_path, np.arange(2000)))

    for places in (np.repeat(np.arange(2000), 4), shuffled(np.repeat(np.arange(2000), 4))):
        found = read_log(log(tmp_path, places))
        assert found.series["loss"].steps.tolist() == STEPS.tolist()
        assert found.series["loss"].values == pytest.approx(once.series["loss"].values)
        assert "count" in found.notes[-1]


def test_a_log_with_one_step_for_all_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="2000 losses, all of them at step 6"):
        read_log(log(tmp_path, np.full(2000, 5)))


def test_a_loss_that_one_writer_lost_stays_lost(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n1,2\n1,nan\n2,3\n2,5\n", encoding="utf-8")

    values = read_log(path).series["loss"].values

    assert np.isnan(values[0])
    assert values[1] == 4
