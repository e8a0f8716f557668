"""`shardward incident` from the outside: the whole response on a run that really recorded."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers_incident import ONSET, Desk

from shardward.cli.main import cli
from shardward.loader.manifest import Manifest
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.respond.resume import resume


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


def test_a_recurrence_reopens_and_ends_with_exit_code_3(desk: Desk, tmp_path: Path) -> None:
    desk.go("resume")
    log = tmp_path / "after.csv"
    log.write_text("step,loss\n" + "\n".join(f"{s},{9 if s > 55 else 3}" for s in range(51, 63)))

    shown = desk.json("watch", "INC-0001", "--log", str(log), "--yes", code=3)

    assert shown["verdict"] == "recurrence"
    assert shown["state"] == "opened"


def test_a_watch_can_be_followed_until_it_is_over(desk: Desk, tmp_path: Path) -> None:
    desk.go("resume")
    log = tmp_path / "after.csv"

    def write(last: int) -> None:
        rows = "\n".join(f"{s},2.8,1.0" for s in range(51, last + 1))
        (tmp_path / "next.csv").write_text("step,loss,grad_norm\n" + rows)
        (tmp_path / "next.csv").replace(log)

    write(54)
    later = threading.Timer(0.5, write, [62])
    later.start()

    result = desk.type("watch", "INC-0001", "--log", str(log), "--follow", "0.2", "--yes", "--json")
    later.join()

    assert "loss was seen to step 54 of 62" in result.stderr
    assert json.loads(result.stdout)["verdict"] == "clear"


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


def test_the_monitor_opens_the_incident_by_itself(desk: Desk, tmp_path: Path) -> None:
    shown = desk.json("open", "--short-run", "--yes")

    assert abs(shown["onset"] - ONSET) <= 1


def test_two_incidents_on_one_spike_are_refused(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")

    result = desk.type("open", "--onset", "62", "--yes")

    assert "INC-0001 is open on the spike" in result.stderr


def test_a_glitch_is_dismissed_and_filed_without_a_skip(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")
    desk.json("dismiss", "INC-0001", "--reason", "the logger restarted", "--yes")
    desk.json("file", "INC-0001", "--yes")

    shown = desk.json("stability-log")["spikes"]

    assert [(s["outcome"], s["revision"]) for s in shown] == [("dismissed", None)]
    table = desk.type("stability-log", env={"COLUMNS": "80"}).stdout
    whole = ("INC-0001", "dismissed", "steps lost", "rewound to")
    assert [word for word in whole if word not in table] == []
    assert "skipped_ranges" in desk.type("stability-log", "--as", "markdown").stdout


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


def test_a_hostile_reason_does_nothing_to_the_terminal(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")

    shown = desk.type("dismiss", "INC-0001", "--reason", "a\x1b[2J\u202eb", "--yes").output

    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_an_unknown_incident_is_said_with_the_known_ones(desk: Desk) -> None:
    desk.json("open", "--onset", "60", "--yes")

    result = desk.type("show", "INC-0007")

    assert result.exit_code == 1
    assert "known: INC-0001" in result.stderr
