"""`shardward incident`: what else may be done, giving steps back, and watches of ended runs."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers_incident import Desk, train

from shardward.cli.main import cli
from shardward.loader.manifest import Manifest
from shardward.loader.stream import ShardLoader
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.respond import gather
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.resume import resume


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    return Desk(tmp_path, manifest)


def shardward(desk: Desk, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--run", str(desk.run.path)])


def test_a_reopened_incident_says_what_else_may_be_done_and_what_was_trained(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()
    desk.json("reopen", "INC-0001", "--reason", "the skip was too short", "--yes")

    shown = desk.json("page", "INC-0001")

    assert shown["bad_steps"] == 11
    assert "had been trained since the onset" in shown["waiting"]
    words = [command.split()[2] for command in shown["otherwise"]]
    assert words == ["dismiss", "recover", "escalate"]


def test_the_page_of_an_unconfirmed_incident_names_accept(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},3.0\n" for step in range(1, 70)))
    desk.json("open", "--onset", "60", "--yes")
    assert "--accept" not in desk.type("page", "INC-0001").output
    desk.json("confirm", "INC-0001", "--log", str(log), "--yes")

    shown = desk.json("page", "INC-0001")

    assert shown["otherwise"][0].startswith("shardward incident confirm INC-0001 --accept")
    assert any(" dismiss " in command for command in shown["otherwise"])


def test_every_command_that_a_page_names_is_one_that_works(desk: Desk) -> None:
    desk.go("rewind")

    for command in desk.json("page", "INC-0001")["otherwise"]:
        words = command.replace('"WHY"', "why").split()[1:]
        assert shardward_words(words).exit_code == 0


def shardward_words(words: list[str]) -> Result:
    return CliRunner().invoke(cli, words, env={"SHARDWARD_ACTOR": "kim"})


def test_a_released_window_gives_its_skipped_positions_back(desk: Desk) -> None:
    desk.go("skip")
    words = ("release", "--steps", "60-63", "--incident", "INC-0001", "--reason", "harmless")
    desk.quarantine(*words)
    desk.quarantine("publish")

    changed = json.loads(shardward(desk, "quarantine", "diff", "1", "2", "--json").stdout)
    listed = json.loads(shardward(desk, "quarantine", "list", "--json").stdout)

    with Ledger.open(desk.run) as ledger:
        rows = ledger.steps(60, 65, 1).to_pylist()
    left = [(skip["start"], skip["end"]) for skip in listed["skips"]]
    assert left == [(rows[4]["first_position"], rows[5]["end_position"])]
    assert [each["start"] for each in changed["skips_released"]] == [rows[0]["first_position"]]


def test_a_reopened_round_is_about_the_branch_that_spiked_in_its_causes_too(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()
    desk.json("reopen", "INC-0001", "--reason", "the skip was too short", "--yes")

    assert gather._branches(desk_incident(desk), desk.run) == [("run", 1, 1)]


def desk_incident(desk: Desk) -> Incident:
    return IncidentStore(desk.run.path).get("INC-0001")


def test_a_watch_of_a_run_that_is_over_is_judged_by_what_was_seen(desk: Desk) -> None:
    desk.go("resume")
    orders = resume(desk.run)
    assert orders is not None
    train(desk.run, desk.manifest, steps=57, cursor=orders.cursor, reason="rewind")

    assert "say --final" in desk.type("watch", "INC-0001", "--yes").output
    ended = desk.json("watch", "INC-0001", "--final", "--yes")

    assert (ended["verdict"], ended["seen_to"]) == ("clear", 57)
    assert "the run ended" in ended["reason"]
    assert desk.json("file", "INC-0001", "--yes")["state"] == "filed"


def test_following_a_watch_ends_with_the_trainer(desk: Desk) -> None:
    desk.go("resume")
    orders = resume(desk.run)
    assert orders is not None

    def work() -> None:
        with ShardLoader(
            desk.manifest,
            desk.run.plan(),
            run=desk.run,
            batch=2,
            cursor=orders.cursor,
            reason="rewind",
        ) as loader:
            for batch in islice(loader, 4):
                loader.observe(batch.step, loss=2.8, grad_norm=1.0)
                started.set()
                time.sleep(0.2)

    started = threading.Event()
    trainer = threading.Thread(target=work)
    trainer.start()
    started.wait(20)

    result = desk.type("watch", "INC-0001", "--follow", "0.1", "--yes", "--json")
    trainer.join()

    said = json.loads(result.stdout)
    assert (said["verdict"], said["seen_to"]) == ("running", 54)


def test_following_a_watch_of_a_trainer_that_is_over_ends_at_once(desk: Desk) -> None:
    desk.go("resume")
    desk.train_on()
    asked: list[float] = []

    def once(pause: float) -> None:
        asked.append(pause)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "sleep", once)
        said = desk.json("watch", "INC-0001", "--window", "51-90", "--follow", "1", "--yes")

    assert (said["verdict"], said["seen_to"], asked) == ("running", 75, [])


def test_following_a_watch_waits_for_a_trainer_that_took_its_orders_and_loads(desk: Desk) -> None:
    desk.go("resume")
    assert resume(desk.run) is not None
    asked: list[float] = []

    def start(pause: float) -> None:
        asked.append(pause)
        desk.train_on()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "sleep", start)
        said = desk.json("watch", "INC-0001", "--follow", "1", "--yes")

    assert (said["verdict"], said["seen_to"], asked) == ("clear", 62, [1.0])


def test_a_log_of_the_left_branch_is_no_recurrence_before_the_trainer_starts(
    desk: Desk, tmp_path: Path
) -> None:
    desk.go("resume")
    log = tmp_path / "log.csv"
    rows = [f"{step},{9.0 if 60 <= step < 66 else 3.0},1.0" for step in range(1, 71)]
    log.write_text("\n".join(["step,loss,grad_norm", *rows]))
    words = ("watch", "INC-0001", "--log", str(log), "--yes")

    assert desk.json(*words)["verdict"] == "running"
    log.write_text("\n".join(["step,loss,grad_norm", *rows, *rows[50:66]]))
    assert desk.json(*words, code=3)["verdict"] == "recurrence"


def log_of_a_spike(path: Path, *more: str) -> Path:
    """Write the log of the branch that spiked, which had stepped back once before."""
    rows = [f"{step},{9.0 if 60 <= step < 66 else 3.0},1.0" for step in range(1, 71)]
    path.write_text("\n".join(["step,loss,grad_norm", *rows[:20], *rows[9:], *more]))
    return path


def test_a_watch_waits_for_the_first_row_after_the_resume(desk: Desk, tmp_path: Path) -> None:
    log = log_of_a_spike(tmp_path / "log.csv")
    words = ("watch", "INC-0001", "--log", str(log), "--yes")
    desk.go("resume")
    said = desk.json(*words)
    assert (said["verdict"], said["seen_to"]) == ("running", 50)
    assert said["reason"] == "waits for the first loss of step 51 or later"

    with opened_by_a_trainer(desk):
        assert desk.json(*words) == said | {"next": said["next"]}
        log_of_a_spike(log, "51,2.9,1.0", "52,2.9,1.0")
        said = desk.json(*words)

    assert (said["verdict"], said["seen_to"], said["strikes"]) == ("running", 52, [])


@contextmanager
def opened_by_a_trainer(desk: Desk) -> Iterator[None]:
    """Hold the branch that a trainer has opened by its orders, before its first step."""
    orders = resume(desk.run)
    assert orders is not None
    with ShardLoader(
        desk.manifest, desk.run.plan(), run=desk.run, batch=2, cursor=orders.cursor, reason="rewind"
    ) as loader:
        next(loader)
        yield


def test_commands_of_a_page_are_whole_lines_also_where_the_path_is_long(
    tmp_path: Path, manifest: Manifest
) -> None:
    home = tmp_path / "a place" / ("long" * 30)
    home.mkdir(parents=True)
    desk = Desk(home, manifest)
    opened = desk.type("open", "--onset", "60", "--detected", "62", "--yes").output
    page = desk.type("page", "INC-0001").output

    shown = [line.partition(": ")[2] for line in page.splitlines() if line[:4] in ("next", "or: ")]
    stored = desk.json("page", "INC-0001")
    assert shown == [stored["next"], *stored["otherwise"]]
    assert f"next: {stored['next']}" in opened.splitlines()
    assert shardward_words(shlex.split(stored["next"])[1:]).exit_code == 0


def test_a_spike_that_the_run_has_not_reached_is_refused(desk: Desk) -> None:
    result = desk.type("open", "--onset", "500", "--yes")

    assert result.exit_code == 1
    assert "step 500 is not recorded" in result.stderr
    assert "which goes to step 70" in result.stderr
    assert desk.json("list")["incidents"] == []


def test_a_rebuild_of_a_run_whose_log_was_edited_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.quarantine("add", "--doc", "3", "--reason", "junk")
    desk.quarantine("add", "--doc", "4", "--reason", "junk")
    desk.quarantine("publish")
    log = desk.run.path / "decisions.log"
    log.write_bytes(log.read_bytes().replace(b"junk", b"fine", 1))

    result = shardward(desk, "rebuild", "--out", str(tmp_path / "out"), "--yes")

    assert result.exit_code == 5
    assert not (tmp_path / "out").exists()


def commands(shown: str) -> list[str]:
    """Return the commands that an act named when it was done, the next step first."""
    lines = shown.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("next: "))
    assert all(line.startswith("or: ") for line in lines[first + 1 :])
    return [line.partition(": ")[2] for line in lines[first:]]


def test_the_exits_are_named_after_an_answer_that_does_not_confirm(
    desk: Desk, tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},3.0\n" for step in range(1, 70)))
    desk.json("open", "--onset", "60", "--yes")

    named = commands(desk.type("confirm", "INC-0001", "--log", str(log), "--yes").stdout)

    assert named == commands(desk.type("show", "INC-0001").stdout)
    assert [" ".join(each.split()[2:6]) for each in named] == [
        'confirm INC-0001 --accept "WHY"',
        'dismiss INC-0001 --reason "WHY"',
        'recover INC-0001 --reason "WHY"',
        'escalate INC-0001 --reason "WHY"',
    ]


def test_a_decision_is_named_before_the_skip_that_would_publish_it(desk: Desk) -> None:
    desk.go("identify")
    rewound = commands(desk.type("rewind", "INC-0001", "--yes").stdout)
    path = f"--run {desk.run.path}"

    assert rewound[0] == f"shardward incident skip INC-0001 --window 60-62 {path} --yes"
    assert rewound[1] == f'shardward incident skip INC-0001 --no-skip "WHY" {path}'
    desk_incident(desk).attach("suspects", {"suspects": SUSPECTS}, actor="kim")
    named = commands(desk.type("show", "INC-0001").stdout)
    wanted = '--suspects --incident INC-0001 --expect 1 --reason "WHY"'
    assert named[0] == f"shardward quarantine add {wanted} {path}"
    assert named[1] == f"shardward incident skip INC-0001 --window 60-62 {path}"
    assert shardward_words([*shlex.split(named[0])[1:], "--yes"]).exit_code == 0
    assert commands(desk.type("show", "INC-0001").stdout) == [
        f"shardward incident skip INC-0001 {path} --yes"
    ]


SUSPECTS = [{"doc": 7, "verdict": True, "reasons": ["junk"]}]


def test_every_next_command_can_be_typed_as_it_stands(desk: Desk) -> None:
    shown = desk.type("open", "--onset", "60", "--detected", "62", "--yes").stdout
    for act in ("confirm", "identify", "rewind", "skip", "resume"):
        words = shlex.split(commands(shown)[0])[1:]
        assert words[:2] == ["incident", act]
        result = shardward_words(words)
        assert result.exit_code == 0, result.output
        shown = result.stdout

    assert desk_incident(desk).case().state == "resumed"


SAME = {
    "confirm": (),
    "identify": (),
    "rewind": (),
    "skip": ("--window", "60-65"),
    "resume": ("--watch-length", "12"),
}
OTHER = {
    "confirm": ("--accept", "seen by hand"),
    "identify": ("--steps", "60-61"),
    "rewind": ("--margin", "20"),
    "skip": ("--no-skip", "the rate"),
    "resume": ("--watch-length", "12", "--lr-factor", "0.5"),
}


@pytest.mark.parametrize("act", SAME)
def test_an_act_that_was_recorded_may_be_typed_again_and_no_other(desk: Desk, act: str) -> None:
    desk.go(act)
    events = desk_incident(desk).events()

    shown = desk.type(act, "INC-0001", *SAME[act], "--yes")
    told = desk.json(act, "INC-0001", *SAME[act])
    refused = desk.type(act, "INC-0001", *OTHER[act], "--yes")

    assert (shown.exit_code, "INC-0001: done already, 20" in shown.stdout) == (0, True)
    assert commands(shown.stdout) == commands(desk.type("show", "INC-0001").stdout)
    assert (told["done"], told["already"]) == (True, True)
    assert (refused.exit_code, f"{act} is done and its evidence" in refused.stderr) == (1, True)
    assert desk_incident(desk).events() == events


def test_a_skip_is_another_one_when_more_was_decided_since(desk: Desk) -> None:
    desk.go("skip")
    desk.quarantine("add", "--doc", "3", "--reason", "junk")

    for words in (("--window", "60-65"), ()):
        assert desk.type("skip", "INC-0001", *words, "--yes").exit_code == 1
    assert desk.type("skip", "INC-0001", "--window", "60-61", "--yes").exit_code == 1


@pytest.mark.parametrize("damage", ["edited", "gone"])
def test_the_page_and_the_list_are_shown_and_tell_of_a_damaged_decision_log(
    desk: Desk, damage: str
) -> None:
    desk.go("skip")
    assert (desk.json("list")["trouble"], desk.type("page", "INC-0001").stderr) == (None, "")
    log = desk.run.path / "decisions.log"
    edited = log.read_bytes().replace(b"INC-0001", b"INC-0002")
    log.write_bytes(edited) if damage == "edited" else log.unlink()

    for words in (("page", "INC-0001"), ("list",)):
        shown = desk.type(*words)
        assert (shown.exit_code, "restore decisions.log" in shown.stderr) == (0, True)
        assert "restore decisions.log" in desk.json(*words)["trouble"]
