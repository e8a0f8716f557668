"""`shardward monitor check` on real files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from helpers_diagnose import Array, curve, spiked
from jsonschema import validate

from shardward.cli.main import cli
from shardward.schemas import load_schema

SPIKE = spiked(curve(1500), 1000, (1.0, 0.8, 0.6, 0.4, 0.2))


def logged(directory: Path, loss: Array) -> Path:
    path = directory / "train.csv"
    rows = [f"{step},{value:.5f}" for step, value in enumerate(loss.tolist(), start=1)]
    path.write_text("step,loss\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def shardward(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["monitor", *map(str, words)])


def test_a_spike_is_printed_and_gates(tmp_path: Path) -> None:
    result = shardward("check", logged(tmp_path, SPIKE), "--json")

    answer = json.loads(result.stdout)
    assert result.exit_code == 3
    assert [(event["kind"], event["onset"]) for event in answer["events"]] == [("spike", 1000)]
    validate(answer, load_schema("monitor-events.v1"))


def test_a_healthy_log_exits_0_with_no_events(tmp_path: Path) -> None:
    result = shardward("check", logged(tmp_path, curve(1500)), "--json")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["events"] == []


def test_no_gate_exits_0(tmp_path: Path) -> None:
    assert shardward("check", logged(tmp_path, SPIKE), "--no-gate").exit_code == 0


def test_blips_are_counted_and_listed_on_request(tmp_path: Path) -> None:
    path = logged(tmp_path, spiked(curve(1500), 1000, [1.0]))

    assert json.loads(shardward("check", path, "--json").stdout)["blips"] == 1
    listed = json.loads(shardward("check", path, "--blips", "--json").stdout)["events"]
    assert [event["kind"] for event in listed] == ["blip"]


def test_a_table_is_printed_by_default(tmp_path: Path) -> None:
    result = shardward("check", logged(tmp_path, SPIKE))

    assert "spike" in result.stdout
    assert "1500 points, 1 pages, 0 blips" in result.stdout


def test_a_short_run_is_judged_on_its_own_scale(tmp_path: Path) -> None:
    loss = spiked(curve(360, noise=0.05, first=5.6), 200, [1.5, 1.8, 1.2, 1.6])
    path = logged(tmp_path, loss)

    assert shardward("check", path).exit_code == 0
    assert shardward("check", path, "--short-run").exit_code == 3


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--loss", "perplexity"], 1, "no column 'perplexity'"),
        (["--window", "3"], 2, "at least 16"),
        (["--warmup", "-1"], 2, "must not be negative"),
    ],
)
def test_wrong_options_are_refused_in_words(
    tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    result = shardward("check", logged(tmp_path, SPIKE), *options)

    assert result.exit_code == code
    assert message in result.stderr


def test_a_log_too_short_for_the_short_scale_is_refused(tmp_path: Path) -> None:
    result = shardward("check", logged(tmp_path, curve(20)), "--short-run")

    assert (result.exit_code, "too short" in result.stderr) == (2, True)


def test_an_empty_file_is_one_line_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("", encoding="utf-8")

    result = shardward("check", path)

    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")


def test_a_chart_is_drawn_above_the_table(tmp_path: Path) -> None:
    assert "▲" in shardward("check", logged(tmp_path, SPIKE)).stdout


@pytest.mark.parametrize(("name", "start"), [("a.html", b"<!doctype"), ("a.png", b"\x89PNG")])
def test_a_plot_is_written(tmp_path: Path, name: str, start: bytes) -> None:
    shardward("check", logged(tmp_path, SPIKE), "--plot", tmp_path / name)

    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_plot_of_another_kind_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    result = shardward("check", tmp_path / "none.csv", "--plot", tmp_path / "a.gif")

    assert (result.exit_code, ".html or .png" in result.stderr) == (2, True)


def test_the_classic_rule_can_be_chosen(tmp_path: Path) -> None:
    assert shardward("check", logged(tmp_path, SPIKE), "--rule", "classic").exit_code == 0


def test_twin_runs_on_the_same_data_are_recognised(tmp_path: Path) -> None:
    batches = np.random.default_rng(5).normal(0, 0.1, 1500)
    (tmp_path / "b").mkdir()
    first = logged(tmp_path, SPIKE + batches)
    second = logged(tmp_path / "b", curve(1500, seed=9) + batches)

    answer = json.loads(shardward("compare", first, second, "--json").stdout)

    validate(answer, load_schema("monitor-comparison.v1"))
    assert answer["same_data"] is True
    assert answer["alone"] == [1000]
    assert "the same data" in shardward("compare", first, second).stdout


@pytest.mark.parametrize(("loss", "status"), [(np.full(800, 2.0), 3), (np.array([2.0]), 0)])
def test_a_constant_log_pages_and_a_single_row_does_not(
    tmp_path: Path, loss: Array, status: int
) -> None:
    assert shardward("check", logged(tmp_path, loss)).exit_code == status


def test_a_log_that_ends_in_the_warm_up_is_not_called_healthy(tmp_path: Path) -> None:
    log = logged(tmp_path, np.full(400, 2.0))
    result = shardward("check", log)

    assert "all 400 points lie in the warm-up, up to step 500" in result.stderr
    assert "warm-up" not in shardward("check", log, "--short-run").stderr


@pytest.mark.parametrize("words", [["check"], ["check", "--json"], ["compare"]])
def test_what_of_a_log_is_left_out_is_said_with_the_file(tmp_path: Path, words: list[str]) -> None:
    path = logged(tmp_path, curve(700))
    path.write_text(path.read_text(encoding="utf-8") + "701", encoding="utf-8")
    result = shardward(*words, *[path] * (1 + (words == ["compare"])))

    assert "train.csv: skipped, row 702 is cut off" in result.stderr
