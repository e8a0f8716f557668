"""What an incident is told by people stays with it, up to the postmortem."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers_crash import dying
from helpers_incident import Desk
from helpers_respond import make_run

from shardward.loader.errors import IncidentError
from shardward.loader.manifest import Manifest
from shardward.loader.stream import ShardLoader
from shardward.quarantine.diagnose.evidence import HardwareSign
from shardward.quarantine.respond.filing import attach_testimony
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.testimony import NAME, Told, told

SIGN = "XID 79 on gpu 3"
LINK = "a link went down on node 7"


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    desk = Desk.__new__(Desk)
    desk.manifest, desk.run = manifest, make_run(tmp_path, manifest)
    with ShardLoader(manifest, desk.run.plan(), run=desk.run, batch=2) as loader:
        for batch in loader:
            noise = (batch.step * 7919 % 13) / 400
            loss = (9.0 if batch.step >= 60 else 3.0) + noise
            loader.observe(batch.step, loss=loss, grad_norm=loss / 3, lr=1e-3)
            if batch.step == 70:
                break
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    return desk


def notes(desk: Desk) -> list[str]:
    events = IncidentStore(desk.run.path).get("INC-0001").events()
    return [str(event.summary.get("name")) for event in events if event.act == "note"]


def evidence_of(desk: Desk, cause: str, *words: str) -> str:
    found = {each["name"]: each for each in desk.json("causes", "INC-0001", *words)["causes"]}
    return str(found[cause]["evidence_for"])


def schedule(tmp_path: Path, *rows: tuple[int, float]) -> str:
    path = tmp_path / "plan.csv"
    path.write_text("\n".join(["step,learning_rate", *(f"{s},{v}" for s, v in rows)]))
    return str(path)


def test_nothing_is_kept_without_yes(desk: Desk) -> None:
    shown = desk.type("causes", "INC-0001", "--hardware", SIGN)

    assert "say --yes to keep with the incident what it was told" in shown.stdout
    assert notes(desk) == []
    assert SIGN not in str(desk.json("causes", "INC-0001")["causes"])


def test_what_machines_reported_is_weighed_ever_after_and_kept_once(desk: Desk) -> None:
    for _ in range(2):  # as after a crash that lost the answer
        desk.json("causes", "INC-0001", "--hardware", SIGN, "--yes")
    desk.json("causes", "INC-0001", "--hardware", LINK, "--yes")

    both = evidence_of(desk, "hardware")
    assert SIGN in both
    assert LINK in both
    assert notes(desk).count(NAME) == 2
    assert f"stored testimony: {SIGN}; {LINK}" in " ".join(
        desk.type("show", "INC-0001").stdout.replace("│", " ").split()
    )


def test_what_was_told_by_mistake_can_be_taken_back(desk: Desk) -> None:
    desk.json("causes", "INC-0001", "--hardware", SIGN, "--yes")
    desk.json("causes", "INC-0001", "--forget", "hardware", "--hardware", LINK, "--yes")

    assert SIGN not in evidence_of(desk, "hardware")
    assert LINK in evidence_of(desk, "hardware")


def test_a_rate_off_its_schedule_is_the_cause_in_the_postmortem(desk: Desk, tmp_path: Path) -> None:
    plan = schedule(tmp_path, (50, 1e-4), (1, 1e-4), (90, 2e-4))
    desk.json("confirm", "INC-0001", "--yes")
    desk.json("causes", "INC-0001", "--schedule", plan, "--yes")
    Path(plan).unlink()
    desk.json("not-data", "INC-0001", "--reason", "the rate", "--yes")
    report = desk.json("file", "INC-0001", "--yes")
    filed = json.loads(Path(report["paths"][0]).read_text())

    said = "the learning rate is 0.001 where the schedule says 0.0001"
    assert said in str(next(c for c in filed["causes"] if c["name"] == "learning_rate"))
    assert any("a planned learning rate, 2 points" in each["text"] for each in filed["timeline"])


def test_what_is_told_after_the_end_joins_the_postmortem(desk: Desk) -> None:
    desk.json("confirm", "INC-0001", "--yes")
    desk.json("not-data", "INC-0001", "--reason", "a GPU", "--yes")
    paths = desk.json("file", "INC-0001", "--yes")["paths"]
    desk.json("causes", "INC-0001", "--hardware", SIGN, "--yes")

    for path in paths[:3]:
        assert SIGN in Path(path).read_text()


def test_what_was_told_about_another_spike_is_not_weighed(desk: Desk) -> None:
    desk.json("causes", "INC-0001", "--hardware", SIGN, "--yes")
    desk.json("dismiss", "INC-0001", "--as", "expected", "--reason", "r", "--yes")
    incident = IncidentStore(desk.run.path).get("INC-0001")
    desk.json("reopen", "INC-0001", "--reason", "again", "--yes")
    assert told(incident).hardware
    desk.json("dismiss", "INC-0001", "--as", "expected", "--reason", "r", "--yes")
    desk.json("reopen", "INC-0001", "--reason", "later", "--onset", "65", "--yes")

    assert not told(incident).hardware
    desk.json("causes", "INC-0001", "--hardware", SIGN, "--yes")
    assert told(incident).hardware


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (((65, 1e-4),), "plans the learning rate from step 65 on"),
        ((), "holds no rows"),
    ],
)
def test_a_schedule_that_says_nothing_about_the_spike_is_refused(
    desk: Desk, tmp_path: Path, rows: Any, said: str
) -> None:
    refused = desk.type("causes", "INC-0001", "--schedule", schedule(tmp_path, *rows), "--yes")

    assert refused.exit_code in (1, 2)
    assert said in refused.stderr
    assert notes(desk) == []


def test_a_schedule_without_a_rate_is_refused(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n1,2.0\n")

    refused = desk.type("causes", "INC-0001", "--schedule", str(log))

    assert "has no column for lr; it has 'step', 'loss'; call it 'lr'" in refused.stderr


def test_what_was_told_as_the_process_died_can_be_told_again(tmp_path: Path, desk: Desk) -> None:
    word = Told(hardware=(HardwareSign(step=None, what=SIGN),))

    def tell(place: Path) -> list[tuple[str, Any]]:
        incident = IncidentStore(place).get("INC-0001")
        attach_testimony(incident, desk.run, word, {"causes": []}, seen=Told(), actor="kim")
        return [(event.act, event.summary) for event in incident.events()]

    with dying(0) as life:
        wanted = tell(Path(shutil.copytree(desk.run.path, tmp_path / "whole")))
    assert [summary for act, summary in wanted if act == "note"] == [
        {"name": NAME, "what": SIGN},
        {"name": "causes"},
    ]
    for at in range(1, life.seen + 1):
        place = Path(shutil.copytree(desk.run.path, tmp_path / str(at)))
        with dying(at):
            tell(place)
        assert tell(place) == wanted, at


@pytest.mark.parametrize("rate", ["nan", "inf"])
def test_a_schedule_whose_rate_is_no_number_is_refused(
    desk: Desk, tmp_path: Path, rate: str
) -> None:
    plan = schedule(tmp_path, (1, 1e-4), (50, float(rate)))
    refused = desk.type("causes", "INC-0001", "--schedule", plan, "--yes")

    assert refused.exit_code == 1
    assert f"plans a learning rate of {rate} at step 50" in refused.stderr
    assert notes(desk) == []


def test_a_report_that_says_nothing_blames_no_machine(desk: Desk) -> None:
    refused = desk.type("causes", "INC-0001", "--hardware", " ", "--yes")

    assert refused.exit_code == 2
    assert "--hardware is blank" in refused.stderr
    assert notes(desk) == []


def test_what_another_person_told_meanwhile_is_not_lost(desk: Desk) -> None:
    incident = IncidentStore(desk.run.path).get("INC-0001")
    mine, theirs = (Told(hardware=(HardwareSign(step=None, what=s),)) for s in (SIGN, LINK))
    attach_testimony(incident, desk.run, theirs, {"causes": []}, seen=Told(), actor="lee")

    with pytest.raises(IncidentError, match="told something else at the same time"):
        attach_testimony(incident, desk.run, mine, {"causes": []}, seen=Told(), actor="kim")
    assert told(incident) == theirs


def test_what_is_told_in_many_words_takes_few_of_the_timeline() -> None:
    signs = tuple(HardwareSign(step=None, what=f"XID {number}") for number in range(400))
    words = Told(hardware=signs).describe()

    assert words.startswith("XID 0; XID 1; ")
    assert words.endswith("XID 7; and 392 more")


def test_twins_whose_long_paths_begin_alike_are_two(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 120) / ("b" * 120)
    folder.mkdir(parents=True)
    words = []
    for name in ("one.csv", "two.csv"):
        rows = [f"{step},{3 + (step * 7919 % 13) / 400}" for step in range(1, 101)]
        (folder / name).write_text("\n".join(["step,loss", *rows]))
        words += ["--twin", str(folder / name)]

    found = desk.json("causes", "INC-0001", *words, "--short-run")
    assert len(found["told"]["twins"]) == 2
