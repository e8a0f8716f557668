"""`shardward incident` over several rounds: which branch, which onset, which checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers_incident import Desk, train
from helpers_respond import make_run

from shardward.cli.main import cli
from shardward.loader.errors import NotFound
from shardward.loader.manifest import Manifest
from shardward.loader.stream import ShardLoader
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.operations import choose_rewind
from shardward.quarantine.respond.resume import resume


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    return Desk(tmp_path, manifest)


def shardward(desk: Desk, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--run", str(desk.run.path)])


def fed(desk: Desk, first: int, last: int, piece: int) -> set[int]:
    with Ledger.open(desk.run) as ledger:
        tables = [ledger.step_documents(step, piece) for step in range(first, last + 1)]
    return {doc for table in tables for doc in table["doc"].to_pylist()}


def identified(desk: Desk) -> set[int]:
    window = desk.json("identify", "INC-0001", "--yes")["window"]
    return set(window["documents"]["doc"])


def train_to_a_second_spike(desk: Desk) -> None:
    """Take the orders and train to step 82; the loss jumps at step 78."""
    orders = resume(desk.run)
    assert orders is not None
    with ShardLoader(
        desk.manifest, desk.run.plan(), run=desk.run, batch=2, cursor=orders.cursor, reason="rewind"
    ) as loader:
        for batch in loader:
            step, bad = batch.step, batch.step >= 78
            noise = (step * 7919 % 13) / 400
            loader.observe(
                step, loss=(9.0 if bad else 3.0) + noise, grad_norm=(8.0 if bad else 1.0) + noise
            )
            if step % 10 == 0:
                loader.checkpoint(step, f"again-{step}")
            if step == 82:
                return


def test_a_round_after_a_resume_looks_at_the_branch_that_spiked(desk: Desk) -> None:
    desk.go("resume")
    desk.json("reopen", "INC-0001", "--reason", "the skip was too short", "--yes")

    assert desk.json("confirm", "INC-0001", "--yes")["verdict"] == "confirmed"
    assert identified(desk) == fed(desk, 60, 62, 1)
    for words in (("rewind",), ("skip", "--window", "66-67"), ("resume", "--watch-length", "12")):
        desk.json(words[0], "INC-0001", *words[1:], "--yes")
    orders = resume(desk.run)
    assert orders is not None
    assert (orders.round, orders.checkpoint.step, orders.cursor.revision) == (2, 50, 2)


def test_an_incident_left_after_the_rewind_can_be_taken_up_again(desk: Desk) -> None:
    desk.go("rewind")
    shown = desk.type("not-data", "INC-0001", "--reason", "ECC errors")
    assert "next start goes on from step 50 and meets the same batches" in shown.output
    desk.json("not-data", "INC-0001", "--reason", "ECC errors", "--yes")
    desk.json("file", "INC-0001", "--yes")
    orders = resume(desk.run)
    assert orders is not None
    train(desk.run, desk.manifest, steps=55, cursor=orders.cursor, reason=orders.reason)

    desk.json("reopen", "INC-0001", "--reason", "it was the data", "--yes")
    desk.json("confirm", "INC-0001", "--yes")

    assert identified(desk) == fed(desk, 60, 62, 1)


def test_a_recurrence_at_another_step_is_the_round_that_follows(desk: Desk) -> None:
    desk.go("resume")
    train_to_a_second_spike(desk)

    desk.json("watch", "INC-0001", "--window", "51-90", "--yes", code=3)

    assert desk.json("list")["incidents"][0]["onset"] == 78
    assert desk.json("page", "INC-0001")["rewind_to"] == 70
    assert desk.json("confirm", "INC-0001", "--yes")["verdict"] == "confirmed"
    assert identified(desk) == fed(desk, 78, 82, 2)
    assert desk.json("rewind", "INC-0001", "--dry-run")["plan"]["checkpoint"]["step"] == 70
    assert desk.json("report", "INC-0001")["report"]["detection"]["onset"] == 78


def test_a_person_can_name_the_onset_of_the_next_round(desk: Desk) -> None:
    desk.go("resume")
    train_to_a_second_spike(desk)

    desk.json(
        "reopen", "INC-0001", "--onset", "78", "--detected", "80", "--reason", "again", "--yes"
    )  # fmt: skip
    desk.json("confirm", "INC-0001", "--yes")

    assert identified(desk) == fed(desk, 78, 80, 2)


def quarantined(desk: Desk) -> set[int]:
    shown = json.loads(shardward(desk, "quarantine", "list", "--json").stdout)
    return {row["doc"] for row in shown["documents"]}


ADD = ("quarantine", "add", "--steps", "60-61", "--reason", "the window", "--yes")


@pytest.mark.parametrize("named", [("--incident", "INC-0001"), ("--branch", "1")])
@pytest.mark.parametrize("resumed", [False, True])
def test_steps_of_an_incident_are_those_of_the_branch_that_spiked(
    desk: Desk, named: tuple[str, ...], resumed: bool
) -> None:
    desk.go("resume" if resumed else "rewind")
    if resumed:
        desk.train_on()

    result = shardward(desk, *ADD, *named)

    assert result.exit_code == 0, result.output
    assert "branch piece 1" in result.stderr
    assert quarantined(desk) == fed(desk, 60, 61, 1)


def test_steps_that_two_branches_had_are_refused_until_one_is_named(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()

    result = shardward(desk, *ADD)

    assert result.exit_code != 0
    assert "were trained on branch piece 1, which the run has left" in result.stderr
    assert quarantined(desk) == set()


def test_a_scan_of_an_incident_takes_the_losses_of_its_branch(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.go("resume")
    desk.train_on()
    asked: list[Any] = []

    def losses(ledger: Any, first: int, last: int) -> dict[int, float]:
        asked.append(ledger.step_documents(first)["piece"].to_pylist())
        return {}

    monkeypatch.setattr("shardward.quarantine.respond.suspects.document_losses", losses)
    result = shardward(desk, "scan", "--incident", "INC-0001", "--json")

    assert result.exit_code == 0, result.output
    assert set(asked[0]) == {1}


def test_a_resume_that_died_unrecorded_is_completed_with_the_orders_that_stand(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.go("skip")
    real = Incident.record

    def record(self: Incident, act: str, **more: Any) -> Any:
        if act == "resume":
            raise NotFound("the power failed")
        return real(self, act, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Incident, "record", record)
        assert desk.type("resume", "INC-0001", "--watch-length", "12", "--yes").exit_code == 1
    desk.train_on()

    for other in (("--lr-factor", "0.5"), ("--mode", "hold")):
        changed = desk.type("resume", "INC-0001", *other, "--yes")
        assert "were written and not recorded" in changed.stderr
    assert desk.json("resume", "INC-0001", "--yes")["watch"]["last"] == 62
    assert desk.json("watch", "INC-0001", "--yes")["verdict"] == "clear"


def begin(desk: Desk) -> None:
    """Leave what a rewind to step 50 leaves that died after its first write."""
    incident = IncidentStore(desk.run.path).get("INC-0001")
    with Ledger.open(desk.run) as ledger:
        plan = choose_rewind(incident, desk.run, ledger)
    summary = {"step": plan.checkpoint.step, "piece": plan.checkpoint.piece}
    incident.record("intent", actor="kim", summary=summary, evidence={"plan": plan.to_json()})


def test_a_rewind_that_was_begun_is_finished_as_it_was_and_not_otherwise(desk: Desk) -> None:
    desk.go("identify")
    begin(desk)

    for other in (("--checkpoint", "20"), ("--margin", "5")):
        result = desk.type("rewind", "INC-0001", *other, "--yes")
        assert result.exit_code == 1
        assert "was begun and not finished" in result.stderr

    assert desk.json("rewind", "INC-0001", "--yes")["plan"]["checkpoint"]["step"] == 50


def test_a_begun_rewind_whose_checkpoint_was_superseded_is_planned_anew(desk: Desk) -> None:
    desk.go("identify")
    begin(desk)
    desk.json("open", "--onset", "40", "--detected", "42", "--separate", "--yes")
    for words in (("confirm", "--accept", "x"), ("identify",), ("rewind",)):
        desk.json(words[0], "INC-0002", *words[1:], "--yes")
    refused = desk.type("rewind", "INC-0001", "--yes")
    assert "INC-0002 has rewound the run to step 30" in refused.stderr
    desk.json("skip", "INC-0002", "--window", "40-42", "--yes")
    desk.json("resume", "INC-0002", "--watch-length", "12", "--yes")
    orders = resume(desk.run)
    assert orders is not None
    train(desk.run, desk.manifest, steps=58, cursor=orders.cursor, reason="rewind")

    plan = desk.json("rewind", "INC-0001", "--yes")["plan"]

    assert (plan["checkpoint"]["step"], plan["checkpoint"]["piece"]) == (50, 2)


def test_a_checkpoint_that_is_not_there_is_said_with_those_that_are(desk: Desk) -> None:
    desk.go("identify")

    result = desk.type("rewind", "INC-0001", "--checkpoint", "33")

    assert "has no checkpoint of step 33; it has 0, 10, 20, 30" in result.stderr


def test_without_a_healthy_checkpoint_the_run_starts_over(desk: Desk) -> None:
    desk.json("open", "--onset", "5", "--detected", "6", "--yes")
    desk.json("confirm", "INC-0001", "--accept", "x", "--yes")
    desk.json("identify", "INC-0001", "--yes")
    assert desk.json("page", "INC-0001")["rewind_to"] == 0

    assert "fresh weights" in desk.type("rewind", "INC-0001", "--yes").output
    desk.json("skip", "INC-0001", "--window", "5-6", "--yes")
    desk.json("resume", "INC-0001", "--watch-plan", str(watch_plan(desk)), "--yes")

    orders = resume(desk.run)
    assert orders is not None
    assert (orders.checkpoint.path, orders.cursor.step, orders.cursor.position) == ("", 0, 0)
    train(desk.run, desk.manifest, steps=12, cursor=orders.cursor, reason=orders.reason)
    with Ledger.open(desk.run) as ledger:
        rows = ledger.steps(1, 12).to_pylist()
    assert [(row["step"], row["piece"]) for row in rows] == [(s, 2) for s in range(1, 13)]
    requeued = resume(desk.run)
    assert requeued is not None
    assert (requeued.kind, requeued.checkpoint.step) == ("continue", 10)
    desk.json("watch", "INC-0001", "--yes")
    assert desk.json("file", "INC-0001", "--yes")["state"] == "filed"


def watch_plan(desk: Desk) -> Path:
    plan = {
        "first": 1,
        "last": 12,
        "thresholds": [{"signal": "loss", "ceiling": 4.0, "level": 3.5}],
    }
    path = desk.run.path / "plan.json.txt"
    path.write_text(json.dumps(plan))
    return path


def test_a_checkpoint_whose_file_is_gone_is_passed_over(tmp_path: Path, manifest: Manifest) -> None:
    run = make_run(tmp_path, manifest)
    kept, gone = tmp_path / "ckpt-3", tmp_path / "ckpt-6"
    kept.touch()
    with ShardLoader(manifest, run.plan(), run=run, batch=2) as loader:
        for batch in loader:
            loader.observe(batch.step, loss=1.0)
            if batch.step in (3, 6):
                loader.checkpoint(batch.step, str(kept if batch.step == 3 else gone))
            if batch.step == 9:
                break
    incident = IncidentStore(run.path).open(onset=8, detected=8, actor="kim")

    with Ledger.open(run) as ledger:
        plan = choose_rewind(incident, run, ledger)

    assert plan.checkpoint.step == 3
    assert [(c.step, why) for c, why in plan.passed_over] == [(6, f"{gone} is gone")]


def test_the_page_after_a_rewind_counts_what_was_trained_until_then(desk: Desk) -> None:
    desk.go("rewind")

    shown = desk.json("page", "INC-0001")

    assert shown["bad_steps"] == 11
    assert "had been trained since the onset" in shown["waiting"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--onset", "0"), "are no steps of a spike"),
        (("--detected", "62"), "--detected goes with --onset"),
        (("--onset", "9", "--detected", "3"), "are no steps of a spike"),
    ],
)
def test_steps_that_no_spike_has_are_refused(desk: Desk, words: tuple[str, ...], said: str) -> None:
    result = desk.type("open", *words, "--yes")

    assert result.exit_code != 0
    assert said in result.stderr
    assert desk.json("list")["incidents"] == []


@pytest.mark.parametrize(
    ("signals", "said"),
    [({"grad_norm": 1.0}, "no loss was logged"), ({"loss": 1.0}, "too few for the monitor")],
)
def test_a_run_that_the_monitor_cannot_judge_is_said(
    tmp_path: Path, manifest: Manifest, signals: dict[str, Any], said: str
) -> None:
    run = make_run(tmp_path, manifest)
    with ShardLoader(manifest, run.plan(), run=run, batch=2) as loader:
        for batch in loader:
            loader.observe(batch.step, **signals)
            if batch.step == 5:
                break

    words = ["incident", "open", "--short-run", "--yes", "--run", str(run.path)]
    result = CliRunner().invoke(cli, words)

    assert result.exit_code == 1
    assert said in result.stderr


def test_a_tracker_file_that_holds_superseded_rows_is_watched_by_its_new_ones(
    desk: Desk, tmp_path: Path
) -> None:
    desk.go("resume")
    steps = [*range(1, 71), *range(51, 58)]
    rows = [
        {"step": s, "loss": 9.0 if i < 70 and 60 <= s < 66 else 3 - s / 500, "grad_norm": 1.0}
        for i, s in enumerate(steps)
    ]
    log = tmp_path / "tracker.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)) + "\n")

    shown = desk.json("watch", "INC-0001", "--log", str(log), "--yes")

    assert (shown["verdict"], shown["seen_to"]) == ("running", 57)
