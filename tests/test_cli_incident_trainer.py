"""`shardward incident` and the trainer: orders, trials, evaluations, what is delivered."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers_incident import Desk, train

from shardward.loader.errors import SupersededCursor
from shardward.loader.manifest import Manifest
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.operations import choose_rewind
from shardward.quarantine.respond.resume import resume


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    return Desk(tmp_path, manifest)


def test_the_skipped_positions_are_not_delivered_and_the_rest_is(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()

    def positions(ledger: Ledger, first: int, last: int, piece: int | None) -> list[int]:
        tables = [ledger.step_documents(s, piece) for s in range(first, last + 1)]
        return [p for table in tables for p in dict.fromkeys(table["sample_position"].to_pylist())]

    with Ledger.open(desk.run) as ledger:
        new = positions(ledger, 51, 75, None)
        skipped = positions(ledger, 60, 65, 1)

    assert new == [p for p in range(new[0], new[-1] + 1) if p not in skipped]
    assert len(skipped) == 12


def test_L13_a_job_requeued_after_a_newer_checkpoint_goes_on_from_it(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()

    orders = resume(desk.run)

    assert orders is not None
    assert (orders.kind, orders.checkpoint.step, orders.checkpoint.piece) == ("continue", 70, 2)
    assert orders.reason == "restart"
    assert (orders.cursor.step, orders.cursor.revision) == (70, 1)
    assert orders.learning_rate_factor == 1.0
    train(desk.run, desk.manifest, steps=80, cursor=orders.cursor)
    again = resume(desk.run)
    assert again is not None
    assert again.checkpoint.step == 80


def test_a_checkpoint_of_a_trial_is_never_handed_to_the_run(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()
    orders = resume(desk.run)
    assert orders is not None
    train(desk.run, desk.manifest, steps=90, cursor=orders.cursor, reason="trial")

    again = resume(desk.run)

    assert again is not None
    assert (again.checkpoint.step, again.checkpoint.piece) == (70, 2)


def test_a_rewind_that_was_begun_is_finished_as_it_was_begun(desk: Desk) -> None:
    desk.go("identify")
    incident = IncidentStore(desk.run.path).get("INC-0001")
    with Ledger.open(desk.run) as ledger:
        plan = choose_rewind(incident, desk.run, ledger, checkpoint=40)
    incident.record("intent", actor="kim", summary={"step": 40}, evidence={"plan": plan.to_json()})

    shown = desk.json("rewind", "INC-0001", "--yes")

    assert shown["plan"]["checkpoint"]["step"] == 40


TRIAL = """
import json, sys
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
spec = json.load(open(sys.argv[1]))
run = Run.open(spec["run"])
skipping = spec["cursor"]["revision"] > 0
with ShardLoader(
    Manifest.load(run.manifest_path), run.plan(), run=run, batch=2, cursor=spec["cursor"],
    reason="trial",
) as loader, open(sys.argv[2], "w") as out:
    for batch in loader:
        step = batch.step
        bad = 60 <= step < 66 and not skipping
        noise = (step * 7919 % 13) / 400 + float(sys.argv[3])
        loss = (9.0 if bad else 3.0 - step / 500) + noise
        loader.observe(step, loss=loss)
        print(json.dumps({"step": step, "loss": loss}), file=out)
        if step == spec["last"]:
            break
"""


def try_out(desk: Desk, tmp_path: Path, *words: str, shift: str = "0") -> Any:
    (tmp_path / "trial.py").write_text(TRIAL)
    command = f"{sys.executable} {tmp_path / 'trial.py'} {{spec}} {{metrics}} {shift}"
    return desk.json("trial", "INC-0001", "--command", command, *words, "--yes")


def test_a_replay_brings_the_spike_back_and_moves_no_head(desk: Desk, tmp_path: Path) -> None:
    desk.go("identify")
    head = desk.run.head()

    shown = try_out(desk, tmp_path)

    assert (shown["recurred"], shown["bitwise"]) == (True, True)
    # The event was opened before it ended, so its replay goes as far as the run had gone.
    assert shown["strikes"] == [60, 61, 62, 63, 64, 65]
    assert shown["last"] == 70
    assert desk.run.head() == head
    assert desk.run.pieces()[-1].reason == "trial"


def test_every_trial_keeps_its_files(desk: Desk, tmp_path: Path) -> None:
    desk.go("identify")
    try_out(desk, tmp_path)
    try_out(desk, tmp_path, shift="1e-9")

    work = desk.run.path / "incidents" / "INC-0001" / "work"
    assert sorted(p.name for p in work.iterdir()) == ["trial-001-replay", "trial-002-replay"]
    first, second = (p.read_text() for p in sorted(work.glob("*/metrics.jsonl")))
    assert first != second


def test_a_trial_without_time_is_refused(desk: Desk) -> None:
    desk.go("identify")
    words = ("trial", "INC-0001", "--command", "true {spec}", "--timeout", "0", "--yes")

    result = desk.type(*words)

    assert result.exit_code == 2
    assert "--timeout" in result.stderr


def test_S15_a_replay_with_other_numbers_is_told(desk: Desk, tmp_path: Path) -> None:
    desk.go("identify")

    shown = try_out(desk, tmp_path, shift="1e-9")

    assert (shown["recurred"], shown["bitwise"]) == (True, False)


def test_the_spike_stays_away_when_the_suspects_are_skipped(desk: Desk, tmp_path: Path) -> None:
    desk.go("skip")

    shown = try_out(desk, tmp_path, "--kind", "skip")

    assert (shown["recurred"], shown["bitwise"]) == (False, None)
    report = desk.json("report", "INC-0001")["report"]
    assert [(t["kind"], t["recurred"]) for t in report["trials"]] == [("skip", False)]


def test_a_trial_of_a_skip_needs_something_to_skip(desk: Desk) -> None:
    desk.go("identify")

    result = desk.type("trial", "INC-0001", "--kind", "skip", "--command", "x {spec}", "--yes")

    assert "a trial of skip needs a revision after 0" in result.stderr


def test_S9_both_skip_ranges_are_honoured_and_reported(desk: Desk) -> None:
    desk.go("rewind")
    desk.quarantine(
        "add", "--positions", "0:134-136", "--as", "skip", "--reason", "second", "--incident",
        "INC-0001",
    )  # fmt: skip
    desk.json("skip", "INC-0001", "--window", "60-65", "--yes")
    desk.json("resume", "INC-0001", "--watch-length", "12", "--yes")
    desk.train_on()

    report = desk.json("report", "INC-0001")["report"]
    ranges = [(r["start"], r["end"]) for d in report["decisions"] for r in d["scope"]["ranges"]]
    with Ledger.open(desk.run) as ledger:
        tables = [ledger.step_documents(step) for step in range(51, 76)]
    delivered = {p for table in tables for p in table["sample_position"].to_pylist()}
    assert len(ranges) == report["skip"]["skips"] == 2
    assert not delivered & {p for start, end in ranges for p in range(start, end)}


def test_the_superseded_latest_is_refused_after_the_rewind(desk: Desk) -> None:
    desk.go("rewind")
    with Ledger.open(desk.run) as ledger:
        latest = ledger.checkpoints(1).to_pylist()[-1]

    with pytest.raises(SupersededCursor, match="rewind INC-0001"):
        train(desk.run, desk.manifest, steps=75, cursor=json.loads(latest["cursor"]))


EVAL = """
import json, sys
spec = json.load(open(sys.argv[1]))
loss = 2.0 if spec["first"] < 60 else float(sys.argv[3])
open(sys.argv[2], "w").write(json.dumps({"step": spec["first"], "loss": loss}) + "\\n")
"""


@pytest.mark.parametrize(("scene", "agrees"), [("4.0", True), ("2.0", False)])
def test_an_evaluation_of_scene_and_healthy_checkpoint_speaks(
    desk: Desk, tmp_path: Path, scene: str, agrees: bool
) -> None:
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    script = tmp_path / "eval.py"
    script.write_text(EVAL)
    command = f"{sys.executable} {script} {{spec}} {{metrics}} {scene}"

    shown = desk.json("confirm", "INC-0001", "--eval", command, "--yes")

    said = {item["signal"]: item["agrees"] for item in shown["items"]}
    assert said["eval/loss"] is agrees


def test_an_evaluation_that_fails_is_said_and_nothing_is_recorded(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")

    result = desk.type("confirm", "INC-0001", "--eval", "false {spec}", "--yes")

    assert result.exit_code == 1
    assert "false exited with 1" in result.stderr
    assert desk.json("show", "INC-0001")["state"] == "opened"
