"""`shardward incident` from the outside: the whole response on a run that really recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers_respond import make_corpus, make_run

from shardward.cli.main import cli
from shardward.loader.errors import SupersededCursor
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.operations import choose_rewind
from shardward.quarantine.respond.resume import resume

ONSET = 60


def train(
    run: Run,
    manifest: Manifest,
    *,
    steps: int,
    cursor: Any = None,
    spike: bool = False,
    **more: Any,
) -> None:
    """Train to step `steps` with a checkpoint every ten; with `spike` the loss jumps at 60."""
    with ShardLoader(manifest, run.plan(), run=run, batch=2, cursor=cursor, **more) as loader:
        for batch in loader:
            step = batch.step
            bad = spike and ONSET <= step < ONSET + 6
            noise = (step * 7919 % 13) / 400
            loader.observe(
                step,
                loss=(9.0 if bad else 3.0 - step / 500) + noise,
                grad_norm=(8.0 if bad else 1.0) + noise,
            )
            if step % 10 == 0:
                loader.checkpoint(step, f"ckpt-{step}")
            if step == steps:
                return


class Desk:
    """A run that spiked at step 60 and stands at step 70."""

    def __init__(self, home: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        self.run = make_run(home, manifest)
        train(self.run, manifest, steps=70, spike=True)

    def type(self, *words: str, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(
            cli,
            ["incident", *words, "--run", str(self.run.path)],
            env={"SHARDWARD_ACTOR": "kim", **(env or {})},
        )

    def json(self, *words: str, code: int = 0) -> Any:
        result = self.type(*words, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def quarantine(self, *words: str) -> None:
        result = CliRunner().invoke(
            cli, ["quarantine", *words, "--run", str(self.run.path), "--yes"]
        )
        assert result.exit_code == 0, result.output

    def go(self, to: str) -> None:
        """Do every step up to `to`."""
        self.json("open", "--onset", "60", "--detected", "62", "--yes")
        for words in (
            ("confirm",),
            ("identify",),
            ("rewind",),
            ("skip", "--window", "60-65"),
            ("resume", "--watch-length", "12"),
        ):
            self.json(words[0], "INC-0001", *words[1:], "--yes")
            if words[0] == to:
                return

    def train_on(self) -> None:
        orders = resume(self.run)
        assert orders is not None
        train(self.run, self.manifest, steps=75, cursor=orders.cursor, reason="rewind")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return make_corpus(tmp_path_factory.mktemp("corpus"), documents=300, group=10)


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    return Desk(tmp_path, manifest)


def test_the_whole_response_goes_through_the_commands(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()

    assert desk.json("watch", "INC-0001", "--yes")["verdict"] == "clear"
    filed = desk.json("file", "INC-0001", "--yes")

    report = json.loads(Path(filed["paths"][0]).read_text())
    assert (report["state"], report["outcome"]) == ("filed", "resolved")
    assert report["confirm"]["verdict"] == "confirmed"
    assert report["rewind"]["checkpoint"]["step"] == 50
    assert report["skip"]["skips"] == 1
    assert report["proof"]["holds"]
    assert {"no excluded document or position was delivered"} <= {
        c["name"] for c in report["proof"]["checks"]
    }
    assert [b["name"] for b in report["curves"]["branches"]] == ["before", "after"]
    assert report["impact"]["steps_lost"] == 20
    assert report["impact"]["tokens_lost"] == 20 * 2 * 32
    assert report["causes"]
    assert desk.json("list")["incidents"][0]["outcome"] == "resolved"


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


def test_all_that_steps_were_fed_can_be_quarantined(desk: Desk) -> None:
    desk.quarantine("add", "--steps", "60-61", "--reason", "the window")

    with Ledger.open(desk.run) as ledger:
        docs = {d for s in (60, 61) for d in ledger.step_documents(s)["doc"].to_pylist()}
    runner = CliRunner()
    words = ["quarantine", "list", "--run", str(desk.run.path), "--json"]
    shown = json.loads(runner.invoke(cli, words).stdout)
    assert {d["doc"] for d in shown["documents"]} == docs


def test_the_impact_counts_from_where_the_run_stands(desk: Desk) -> None:
    desk.quarantine("add", "--steps", "1-70", "--reason", "eaten already")

    words = ["quarantine", "impact", "--run", str(desk.run.path), "--json"]
    shown = json.loads(CliRunner().invoke(cli, words).stdout)

    with Ledger.open(desk.run) as ledger:
        end = ledger.steps(70, 70).to_pylist()[0]["end_position"]
    assert end > 100
    assert shown["samples"] < 40  # pieces of cut documents in the window under way
    assert shown["steps"] is not None


def test_L13_a_job_requeued_after_a_newer_checkpoint_goes_on_from_it(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()

    orders = resume(desk.run)

    assert orders is not None
    assert (orders.kind, orders.checkpoint.step, orders.checkpoint.piece) == ("continue", 70, 2)
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


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("identify", "INC-0001"), "confirm"),
        (("rewind", "INC-0001"), "confirm"),
        (("file", "INC-0001"), "confirm"),
    ],
)
def test_a_step_out_of_order_is_refused_by_name(
    desk: Desk, words: tuple[str, ...], missing: str
) -> None:
    desk.json("open", "--onset", "60", "--yes")

    result = desk.type(*words, "--yes")

    assert result.exit_code == 1
    assert f"comes after {missing}, which is missing" in result.stderr


@pytest.mark.parametrize("step", ["confirm", "identify", "rewind", "skip", "resume"])
def test_a_dry_run_of_any_step_writes_nothing(desk: Desk, step: str) -> None:
    order = ["open", "confirm", "identify", "rewind", "skip", "resume"]
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    for name in order[1 : order.index(step)]:
        more = ("--window", "60-65") if name == "skip" else ()
        desk.json(name, "INC-0001", *more, "--yes")
    events = (desk.run.path / "incidents" / "INC-0001" / "events.log").read_bytes()
    before = {p: p.read_bytes() for p in desk.run.path.glob("*.*") if p.suffix != ".duckdb"}

    shown = desk.json(step, "INC-0001", "--dry-run", "--yes")

    assert shown["done"] is False
    assert (desk.run.path / "incidents" / "INC-0001" / "events.log").read_bytes() == events
    after = {p: p.read_bytes() for p in desk.run.path.glob("*.*") if p.suffix != ".duckdb"}
    assert before == after


def test_the_superseded_latest_is_refused_after_the_rewind(desk: Desk) -> None:
    desk.go("rewind")
    with Ledger.open(desk.run) as ledger:
        latest = ledger.checkpoints(1).to_pylist()[-1]

    with pytest.raises(SupersededCursor, match="rewind INC-0001"):
        train(desk.run, desk.manifest, steps=75, cursor=json.loads(latest["cursor"]))


def test_a_recurrence_reopens_and_ends_with_exit_code_3(desk: Desk, tmp_path: Path) -> None:
    desk.go("resume")
    log = tmp_path / "after.csv"
    log.write_text("step,loss\n" + "\n".join(f"{s},{9 if s > 55 else 3}" for s in range(51, 63)))

    shown = desk.json("watch", "INC-0001", "--log", str(log), "--yes", code=3)

    assert shown["verdict"] == "recurrence"
    assert shown["state"] == "opened"


def test_the_page_says_what_a_tired_person_needs(desk: Desk) -> None:
    desk.go("identify")

    shown = desk.json("page", "INC-0001")

    assert "the run is at step 70" in shown["happened"]
    assert shown["sure"].startswith("confirmed: 2 of 2 signals agree")
    assert (shown["bad_steps"], shown["rewind_to"], shown["rewind_steps"]) == (11, 50, 20)
    assert "documents from" in shown["ate"]
    assert shown["next"].startswith("shardward incident rewind INC-0001")
    assert "waiting" in desk.type("page", "INC-0001").output


def test_a_page_before_anything_was_done_is_shown(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")

    assert desk.json("page", "INC-0001")["sure"] == "not looked at yet"


def test_a_loss_alone_is_insufficient_until_a_person_says_why(desk: Desk, tmp_path: Path) -> None:
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    log = tmp_path / "loss.csv"
    log.write_text(
        "step,loss\n" + "\n".join(f"{s},{9 if 60 <= s < 66 else 3}" for s in range(1, 70))
    )

    first = desk.json("confirm", "INC-0001", "--log", str(log), "--yes")
    assert (first["verdict"], first["state"]) == ("insufficient", "opened")

    words = ("confirm", "INC-0001", "--log", str(log), "--accept", "I saw it", "--yes")
    assert desk.json(*words)["state"] == "confirmed"


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


def test_the_monitor_opens_the_incident_by_itself(desk: Desk, tmp_path: Path) -> None:
    shown = desk.json("open", "--short-run", "--yes")

    assert abs(shown["onset"] - ONSET) <= 1


def test_two_incidents_on_one_spike_are_refused(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")

    result = desk.type("open", "--onset", "62", "--yes")

    assert "INC-0001 is open on the spike" in result.stderr


def test_a_glitch_is_dismissed_and_filed_without_a_skip(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")
    desk.json("dismiss", "INC-0001", "--as", "eval-drift", "--reason", "new harness", "--yes")
    desk.json("file", "INC-0001", "--yes")

    shown = desk.json("stability-log")["spikes"]

    assert [(s["outcome"], s["revision"]) for s in shown] == [("dismissed", None)]


def test_a_cause_that_is_not_data_ends_without_a_skip(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    desk.json("confirm", "INC-0001", "--yes")

    desk.json("not-data", "INC-0001", "--reason", "a node with ECC errors", "--yes")

    assert desk.json("list")["incidents"][0]["outcome"] == "not-data"
    assert not (desk.run.path / "revisions").exists()


def test_a_rewind_without_a_skip_says_why(desk: Desk) -> None:
    desk.go("rewind")

    desk.json("skip", "INC-0001", "--no-skip", "the learning rate was wrong", "--yes")
    desk.json("resume", "INC-0001", "--lr-factor", "0.5", "--watch-length", "12", "--yes")

    orders = resume(desk.run)
    assert orders is not None
    assert (orders.learning_rate_factor, orders.cursor.revision) == (0.5, 0)


def test_documents_are_quarantined_between_rewind_and_skip(desk: Desk) -> None:
    desk.go("rewind")
    desk.quarantine("add", "--doc", "7", "--reason", "junk", "--incident", "INC-0001")

    shown = desk.json("skip", "INC-0001", "--yes")

    assert (shown["revision"], shown["documents"]) == (1, 1)


def test_a_watch_plan_can_be_shown_edited_and_followed(desk: Desk, tmp_path: Path) -> None:
    desk.go("skip")
    shown = desk.json("resume", "INC-0001", "--dry-run")["watch"]
    shown["last"] = 65
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(shown))

    desk.json("resume", "INC-0001", "--watch-plan", str(path), "--yes")

    orders = resume(desk.run)
    assert orders is not None
    assert orders.watch is not None
    assert orders.watch.last == 65


def test_an_escalated_incident_is_taken_up_again(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")
    desk.json("escalate", "INC-0001", "--reason", "needs help", "--yes")
    shown = desk.json("reopen", "INC-0001", "--reason", "help came", "--yes")

    assert (shown["state"], shown["next"]) == ("opened", "confirm")


def test_an_unknown_incident_is_said_with_the_known_ones(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")

    result = desk.type("show", "INC-0007")

    assert result.exit_code == 1
    assert "known: INC-0001" in result.stderr
