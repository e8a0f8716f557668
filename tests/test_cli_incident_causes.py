"""What may have caused it, and leaving an incident whose cause is not the data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers_diagnose import an_event
from helpers_incident import Desk, train

from shardward.cli.main import cli
from shardward.loader.manifest import Manifest
from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.events import Event
from shardward.quarantine.diagnose.evidence import Evidence
from shardward.quarantine.diagnose.series import Series
from shardward.quarantine.respond.command import Spec
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.resume import resume
from shardward.quarantine.respond.telemetry import event_of
from shardward.quarantine.respond.trial import judge_trial


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    return Desk(tmp_path, manifest)


def test_causes_are_ranked_before_anything_is_filed_and_nothing_is_written(desk: Desk) -> None:
    desk.go("identify")
    before = len(desk.json("show", "INC-0001")["events"])
    causes = desk.json("causes", "INC-0001")["causes"]

    assert [c["score"] for c in causes] == sorted((c["score"] for c in causes), reverse=True)
    assert 0 < sum(c["score"] for c in causes) <= 1.001
    assert len(desk.json("show", "INC-0001")["events"]) == before
    assert "against" in desk.type("causes", "INC-0001").stdout


def test_a_spike_on_the_first_steps_after_a_restart_is_a_resume_fault(
    tmp_path: Path, manifest: Manifest
) -> None:
    desk = Desk(tmp_path, manifest, restarted=True)
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    best = desk.json("causes", "INC-0001")["causes"][0]

    assert best["name"] == "resume_fault"
    assert "the event begins on the first resumed step" in best["evidence_for"]


def test_the_layer_that_the_monitor_saw_move_first_is_known_to_the_incident(desk: Desk) -> None:
    moved = (("grad_norm/blocks.3", 57), ("loss", 60))
    event = an_event(onset=57, detected=62, moved=moved, signals=("loss", "grad_norm"))
    incident = IncidentStore(desk.run.path).open(
        onset=57, detected=62, kind="spike", event=event.to_json(), actor="kim"
    )
    causes = {each["name"]: each for each in desk.json("causes", incident.id)["causes"]}

    assert event_of(incident).moved == moved
    assert "blocks.3 moved 3 steps before the loss" in str(causes["gradient_explosion"])


def test_a_twin_on_the_same_data_that_did_not_spike_speaks_against_the_data(
    desk: Desk, tmp_path: Path
) -> None:
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    noise = [(step * 7919 % 13) / 400 for step in range(200)]
    rows = [f"{step},{3.0 - step / 500 + noise[step]}" for step in range(1, 200)]
    early, twin = tmp_path / "early.csv", tmp_path / "twin.csv"
    early.write_text("\n".join(["step,loss", *rows[40:]]))
    twin.write_text("\n".join(["step,loss", *rows]))

    refused = desk.type("causes", "INC-0001", "--twin", str(early))
    answer = desk.json("causes", "INC-0001", "--twin", str(twin), "--short-run")

    assert refused.exit_code == 2
    assert "cannot say" in refused.stderr
    assert answer["advice"]["action"] == "let it recover"
    after = {c["name"]: c for c in answer["causes"]}
    assert after["bad_data"]["score"] < 0.02
    assert "a twin run on the same data" in str(after["bad_data"]["evidence_against"])


def test_leaving_with_a_factor_gives_it_to_the_trainer_and_to_the_postmortem(desk: Desk) -> None:
    desk.go("rewind")
    shown = desk.type("not-data", "INC-0001", "--reason", "rate", "--lr-factor", "0.1")
    assert "with its learning rate times 0.1" in shown.stdout
    desk.json("not-data", "INC-0001", "--reason", "rate", "--lr-factor", "0.1", "--yes")
    filed = desk.json("file", "INC-0001", "--yes")
    actions = json.loads(Path(filed["paths"][0]).read_text())["actions"]
    orders = resume(desk.run)

    assert orders is not None
    assert (orders.learning_rate_factor, orders.cursor.revision) == (0.1, 0)
    assert {"what": "learning rate factor", "before": 1.0, "after": 0.1} in actions


def test_a_factor_without_a_rewind_has_no_orders_to_stand_in(desk: Desk) -> None:
    desk.go("identify")
    refused = desk.type("not-data", "INC-0001", "--reason", "rate", "--lr-factor", "0.1", "--yes")

    assert refused.exit_code == 1
    assert "rewind first" in refused.stderr
    assert desk.json("show", "INC-0001")["state"] == "identified"


def test_the_watch_learns_from_the_steps_asked_for(desk: Desk) -> None:
    desk.go("skip")
    all_of_it = desk.json("resume", "INC-0001", "--dry-run")["watch"]
    lately = desk.json("resume", "INC-0001", "--dry-run", "--trend", "10")["watch"]

    # The loss falls, so its last ten healthy steps lie below all of them.
    assert lately["thresholds"][0]["ceiling"] < all_of_it["thresholds"][0]["ceiling"]


def test_a_rebuild_joins_the_postmortem_that_was_filed(desk: Desk, tmp_path: Path) -> None:
    desk.go("resume")
    desk.quarantine("add", "--doc", "7", "--reason", "junk")
    desk.quarantine("publish")
    desk.train_on()
    desk.json("watch", "INC-0001", "--yes")
    desk.json("file", "INC-0001", "--yes")
    words = ["rebuild", "--run", str(desk.run.path), "--out", str(tmp_path / "clean"), "--yes"]
    for _ in range(2):
        done = CliRunner().invoke(cli, [*words, "--incident", "INC-0001", "--json"])
        assert done.exit_code == 0, done.output
    incident = IncidentStore(desk.run.path).get("INC-0001")
    report = json.loads((incident.path / "incident.json").read_text())

    assert report["rebuild"]["removed"] == 1
    assert [e.summary.get("name") for e in incident.events()].count("rebuild") == 1


def series(name: str, values: list[float]) -> Series:
    return Series(name=name, steps=np.arange(1, len(values) + 1), values=np.array(values))


def test_a_replay_with_the_very_numbers_is_a_return_however_high_the_line(desk: Desk) -> None:
    desk.go("identify")
    incident = IncidentStore(desk.run.path).get("INC-0001")
    calm = {"loss": series("loss", [3.0 + step % 7 for step in range(62)])}
    spec = Spec(kind="replay", run="r", checkpoint="c", cursor={}, first=51, last=62)
    other = {"loss": series("loss", [3.1 + step % 7 for step in range(62)])}

    assert judge_trial(incident, spec, calm, calm).recurred
    assert not judge_trial(incident, spec, other, calm).recurred


def test_the_proof_covers_a_resumed_trainer_that_was_restarted(desk: Desk) -> None:
    desk.go("resume")
    orders = resume(desk.run)
    assert orders is not None
    train(desk.run, desk.manifest, steps=63, cursor=orders.cursor, reason="rewind")
    again = resume(desk.run)
    assert again is not None
    assert again.kind == "continue"
    train(desk.run, desk.manifest, steps=75, cursor=again.cursor, reason="restart")
    desk.json("watch", "INC-0001", "--yes")
    filed = desk.json("file", "INC-0001", "--yes")
    proof = json.loads(Path(filed["paths"][0]).read_text())["proof"]

    assert proof["holds"]
    assert (proof["first"], proof["last"]) == (51, 75)


def test_a_gradient_norm_that_jumped_speaks_against_a_logging_fault() -> None:
    loss = [2.5 + step % 3 / 50 for step in range(100)] + [
        3.1 + step % 3 / 50 for step in range(20)
    ]
    calm = [0.5 + step % 4 / 10 for step in range(120)]
    jumped = [*calm[:100], 6.0, 5.0, *calm[102:]]
    event = Event(
        number=1, kind="spike", onset=101, detected=103, end=None,
        peak=3.2, peak_step=102, z=9.0, baseline=2.5, page=True, signals=("loss",),
    )  # fmt: skip

    def logging(norms: list[float]) -> float:
        logged = {"loss": series("loss", loss), "grad_norm": series("grad_norm", norms)}
        found = {c.name: c.score for c in attribute(Evidence(event=event, series=logged))}
        return found["logging"]

    assert logging(calm) > 0.2 > 0.05 > logging(jumped)


def test_an_earlier_spike_of_the_run_speaks_for_its_learning_rate(
    tmp_path: Path, manifest: Manifest
) -> None:
    desk = Desk(tmp_path, manifest)
    desk.json("open", "--onset", "69", "--detected", "70", "--yes")

    assert "1 earlier spike in this run" in str(desk.json("causes", "INC-0001")["causes"])


def test_what_a_machine_reported_speaks_for_the_hardware(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    causes = desk.json("causes", "INC-0001", "--hardware", "XID 79 on gpu 3")["causes"]
    found = {each["name"]: each for each in causes}

    assert "XID 79 on gpu 3" in found["hardware"]["evidence_for"]
    assert found["hardware"]["score"] > 0.5
