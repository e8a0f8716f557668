"""Numbers of the postmortem: each can be had again, what was lost is counted, rounds are rows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers_incident import Desk, train
from helpers_respond import make_plan

from shardward.cli.main import cli
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.quarantine.respond.context import RunContext
from shardward.quarantine.respond.resume import resume

CONTEXT = RunContext(
    parameters=1000,
    precision="bf16",
    optimizer="AdamW",
    betas=(0.9, 0.95),
    eps=1e-8,
    schedule="cosine to 3e-4",
    deterministic=True,
    code="v1.2-3-gabc",
    parallel={"data": 4, "tensor": 2},
)


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    """A desk whose run has its context recorded."""
    desk = Desk.__new__(Desk)
    desk.manifest = manifest
    desk.run = Run.create(
        tmp_path / "a run",
        plan=make_plan(manifest),
        manifest_path=manifest.path,
        context=CONTEXT.to_json(),
    )
    train(desk.run, manifest, steps=70, spike=True)
    return desk


def filed(desk: Desk) -> Any:
    desk.go("resume")
    desk.train_on()
    desk.json("watch", "INC-0001", "--yes")
    paths = desk.json("file", "INC-0001", "--yes")["paths"]
    return json.loads(Path(paths[0]).read_bytes())


def run(line: str) -> Any:
    words = shlex.split(line)
    assert words[0] == "shardward"
    return CliRunner().invoke(cli, words[1:])


def test_every_command_of_a_postmortem_can_be_typed_as_it_stands(desk: Desk) -> None:
    report = filed(desk)

    for line in report["commands"]:
        result = run(line)
        assert result.exit_code == 0, f"{line}\n{result.output}"


def test_the_commands_give_the_numbers_of_the_report(desk: Desk) -> None:
    report = filed(desk)
    lines = {
        line.split(" --run ")[0].removeprefix("shardward "): line for line in report["commands"]
    }

    window = json.loads(run(lines["ledger steps 60..62 --documents --branch 1"] + " --json").stdout)
    lost = json.loads(run(lines["ledger steps 51..70 --branch 1"] + " --json").stdout)
    causes = json.loads(run(lines["incident causes INC-0001"] + " --json").stdout)["causes"]

    documents = {row["doc"] for row in window["rows"]}
    assert documents == set(report["window"]["documents"]["doc"])
    assert sum(row["target_tokens"] for row in lost["rows"]) == report["impact"]["tokens_lost"]
    assert [cause["name"] for cause in causes] == [cause["name"] for cause in report["causes"]]


def test_what_was_lost_is_counted_in_steps_tokens_time_and_operations(desk: Desk) -> None:
    impact = filed(desk)["impact"]

    assert impact["steps_lost"] == 20
    assert impact["flops_lost"] == 6 * 1000 * impact["tokens_lost"] > 0
    assert 0 < impact["seconds_lost"] == impact["rank_seconds_lost"] < 60


@pytest.mark.parametrize("name", ["incident.md", "incident.html"])
def test_the_page_holds_the_run_the_watch_and_the_proof(desk: Desk, name: str) -> None:
    filed(desk)

    page = (desk.run.path / "incidents" / "INC-0001" / name).read_text()

    for word in ("AdamW", "0.95", "cosine to 3e-4", "v1.2", "tensor", "bf16", "parameters"):
        assert word in page
    for word in ("no recurrence, back on the trend", "flops lost", "seconds lost"):
        assert word in page
    assert "ledger steps 51..70" in page


def test_each_round_is_a_row_of_the_stability_log(desk: Desk) -> None:
    desk.go("resume")
    orders = resume(desk.run)
    assert orders is not None
    train(desk.run, desk.manifest, steps=64, cursor=orders.cursor, reason="rewind")
    desk.json("reopen", "INC-0001", "--onset", "63", "--reason", "it came back", "--yes")
    desk.json("escalate", "INC-0001", "--reason", "for others", "--yes")

    rows = desk.json("stability-log")["spikes"]

    shown = [(r["id"], r["round"], r["onset"], r["rewound_to"], r["outcome"]) for r in rows]
    assert shown == [
        ("INC-0001", 1, 60, 50, "reopened"),
        ("INC-0001", 2, 63, None, "escalated"),
    ]
    assert [row["next_spike_after"] for row in rows] == [3, None]


def test_the_window_is_told_beside_its_controls(desk: Desk) -> None:
    desk.go("confirm")

    told = desk.type("identify", "INC-0001").output

    assert "in 4 control windows" in told


def test_the_impact_says_share_and_steps_after_a_rewind_too(desk: Desk) -> None:
    desk.go("rewind")
    desk.quarantine("add", "--doc", "17", "--reason", "junk")
    words = ["quarantine", "impact", "--by", "lang", "--run", str(desk.run.path)]

    found = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    told = CliRunner().invoke(cli, words).output

    [group] = found["groups"]
    assert group["name"] == "en"
    assert group["share"] == pytest.approx(group["tokens"] / group["of_tokens"])
    assert found["steps"] is not None
    assert "{'name'" not in told


def test_signals_of_a_watch_over_a_restart_are_asked_of_every_piece(desk: Desk) -> None:
    desk.go("resume")
    for last in (63, 75):
        orders = resume(desk.run)
        assert orders is not None
        train(desk.run, desk.manifest, steps=last, cursor=orders.cursor, reason=orders.reason)
    desk.json("watch", "INC-0001", "--yes")
    paths = desk.json("file", "INC-0001", "--yes")["paths"]

    steps: dict[str, set[int]] = {}
    for line in json.loads(Path(paths[0]).read_bytes())["commands"]:
        words = shlex.split(line)[1:]
        piece = line.partition("piece = ")[2].partition(" ")[0]
        if words[:2] == ["ledger", "sql"] and piece in ("2", "3"):
            result = CliRunner().invoke(cli, [*words, "--json"])
            assert result.exit_code == 0, result.output
            steps[piece] = {row["step"] for row in json.loads(result.stdout)["rows"]}

    assert steps == {"2": set(range(51, 61)), "3": {61, 62}}


def test_what_a_rewind_lost_is_asked_of_the_branch_that_was_left(desk: Desk) -> None:
    desk.go("rewind")
    desk.json("reopen", "INC-0001", "--reason", "again", "--yes")
    desk.json("dismiss", "INC-0001", "--reason", "no", "--yes")
    orders = resume(desk.run)
    assert orders is not None
    train(desk.run, desk.manifest, steps=66, cursor=orders.cursor, reason=orders.reason)
    desk.json("reopen", "INC-0001", "--reason", "it was one", "--yes")
    for words in (
        ("confirm", "--accept", "so"),
        ("identify",),
        ("rewind",),
        ("skip", "--window", "60-62"),
        ("resume", "--watch-length", "12"),
    ):
        desk.json(words[0], "INC-0001", *words[1:], "--yes")
    desk.train_on()
    desk.json("watch", "INC-0001", "--yes")
    report = json.loads(Path(desk.json("file", "INC-0001", "--yes")["paths"][0]).read_bytes())

    [line] = [each for each in report["commands"] if "ledger steps 51..66 " in each]
    rows = json.loads(run(line + " --json").stdout)["rows"]
    assert "--branch 2" in line
    assert len(rows) == report["impact"]["steps_lost"] == 16


@pytest.mark.parametrize("factor", ["nan", "inf", "0", "-1"])
def test_a_factor_that_nothing_can_be_multiplied_by_is_refused_in_the_preview_too(
    desk: Desk, factor: str
) -> None:
    desk.go("skip")

    for words in (
        ("not-data", "INC-0001", "--reason", "the rate", "--lr-factor", factor),
        ("resume", "INC-0001", "--lr-factor", factor),
        ("resume", "INC-0001", "--clip-factor", factor),
    ):
        for more in ((), ("--yes",)):
            result = desk.type(*words, *more)
            assert (result.exit_code, f"'{words[-2]}'" in result.stderr) == (2, True)


def test_a_factor_without_orders_and_an_empty_reason_are_refused_in_the_preview_too(
    desk: Desk,
) -> None:
    desk.go("confirm")
    words = ("not-data", "INC-0001", "--reason")

    assert "no orders that could hold a factor" in desk.type(*words, "x", "--lr-factor", "2").stderr
    assert "not-data needs a reason" in desk.type(*words, " ").stderr
