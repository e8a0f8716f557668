"""The whole response on a real run directory, and crashes between any two of its writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers_respond import checkpoint, losses, make_corpus, start_piece, write_back
from helpers_scene import Scene
from jsonschema import Draft202012Validator

from shardward.loader.cursor import Cursor
from shardward.loader.errors import (
    FormatError,
    IncidentError,
    IntegrityError,
    NotFound,
    SupersededCursor,
)
from shardward.loader.run import Run
from shardward.quarantine.respond import response
from shardward.quarantine.respond.exits import reopen
from shardward.quarantine.respond.filing import file
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.resume import read_resume, resume
from shardward.quarantine.respond.rewind import plan_rewind
from shardward.schemas import load_schema


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_whole_response_ends_in_a_valid_report(scene: Scene) -> None:
    incident = scene.open()
    scene.go(incident, "file")

    report = json.loads((incident.path / "incident.json").read_text())

    Draft202012Validator(load_schema("incident.v1")).validate(report)
    assert (report["state"], report["outcome"]) == ("filed", "resolved")
    assert [d["scope"]["documents"] for d in report["decisions"]] == [[12, 13]]
    assert report["actions"][1] == {"what": "revision", "before": 0, "after": 1}


def test_the_checkpoint_before_the_onset_is_chosen_not_the_one_before_the_detection(
    scene: Scene,
) -> None:
    plan = scene.plan()

    assert plan.checkpoint.step == 15
    assert [c.step for c, _ in plan.passed_over] == [20]
    assert plan.steps_lost == 9


def test_weights_that_end_on_the_step_before_the_onset_are_healthy(scene: Scene) -> None:
    steps = [checkpoint(scene.run, step) for step in (16, 17, 18)]

    plan = plan_rewind(steps, scene.run.lineage(), onset=18, head_step=20)

    assert plan.checkpoint.step == 17


def test_no_checkpoint_before_the_onset_is_said_with_each_reason(scene: Scene) -> None:
    steps = [checkpoint(scene.run, 20), checkpoint(scene.run, 12)]

    with pytest.raises(IncidentError, match=r"step 20: its weights.*step 12: it is within"):
        plan_rewind(steps, scene.run.lineage(), onset=18, head_step=24, margin=8)


def test_the_rewind_moves_the_head_and_the_poisoned_latest_is_refused(scene: Scene) -> None:
    incident = scene.open()
    scene.go(incident, "rewind")
    latest = Cursor.from_json(checkpoint(scene.run, 20).cursor)

    with pytest.raises(SupersededCursor, match="rewind INC-0001"):
        start_piece(scene.run, "requeued", cursor=latest)


@pytest.mark.parametrize("lines", [0, 1])
def test_a_head_log_that_is_gone_or_cut_brings_no_poisoned_checkpoint_back(
    scene: Scene, lines: int
) -> None:
    scene.go(scene.open(), "resume")
    orders = resume(scene.run)
    assert orders is not None
    assert start_piece(scene.run, "resumed", cursor=orders.cursor) == 2
    latest = Cursor.from_json(checkpoint(scene.run, 20).cursor)
    for piece in scene.run.pieces():
        scene.run.journal_writer(piece).close()
    cut(scene.run, lines)
    with pytest.raises(IntegrityError, match=r"head\.log has . entries and lacks entry 4"):
        start_piece(scene.run, "requeued", cursor=latest)
    (scene.run.path / "head.last").unlink()  # as in a run of an earlier release

    with pytest.raises(IntegrityError, match=r"head\.log does not name branch piece"):
        start_piece(scene.run, "requeued", cursor=latest)


def cut(run: Run, lines: int) -> bytes:
    """Leave the first lines of the head's log; return all of it."""
    log = run.path / "head.log"
    whole = log.read_bytes()
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
    return whole


@pytest.mark.parametrize(("to", "lines"), [("rewind", 1), ("resume", 1), ("resume", 2)])
def test_a_head_log_without_its_newest_rewind_loads_nothing_and_can_be_mended(
    scene: Scene, to: str, lines: int
) -> None:
    scene.go(scene.open(), to)
    latest = Cursor.from_json(checkpoint(scene.run, 20).cursor)
    healthy = Cursor.from_json(checkpoint(scene.run, 15).cursor)
    whole = cut(scene.run, lines)

    for cursor in (latest, healthy):
        with pytest.raises(IntegrityError, match="'rewind INC-0001' to step 15"):
            start_piece(scene.run, "requeued", cursor=cursor)
    if to == "resume":
        with pytest.raises(IntegrityError, match="was cut or replaced"):
            resume(scene.run)
    with pytest.raises(IntegrityError) as told:
        scene.run.head()
    remedy = str(told.value).rpartition("again: ")[2]
    assert remedy.startswith("cat ") == (lines + 1 == whole.count(b"\n"))
    if remedy.startswith("cat "):
        subprocess.run(["sh", "-c", remedy], check=True)
        assert (scene.run.path / "head.log").read_bytes() == whole
        with pytest.raises(SupersededCursor):
            start_piece(scene.run, "requeued", cursor=latest)


@pytest.mark.parametrize("to", ["rewind", "resume"])
def test_older_copies_of_the_heads_log_and_its_last_line_bring_no_poisoned_checkpoint_back(
    scene: Scene, to: str
) -> None:
    files = [scene.run.path / name for name in ("head.log", "head.last")]
    older = [path.read_bytes() for path in files]
    scene.go(scene.open(), to)
    newest = [path.read_bytes() for path in files]
    latest = Cursor.from_json(checkpoint(scene.run, 20).cursor)
    write_back(files, older)

    with pytest.raises(IntegrityError, match="INC-0001 rewound the run to step 15 of branch piece"):
        start_piece(scene.run, "requeued", cursor=latest)
    write_back(files, newest)
    with pytest.raises(SupersededCursor):
        start_piece(scene.run, "requeued", cursor=latest)


@pytest.mark.parametrize("to", ["rewind", "resume"])
def test_a_log_from_before_a_second_rewind_to_the_same_step_is_known_for_an_older_copy(
    scene: Scene, to: str
) -> None:
    incident = scene.open()
    scene.go(incident, "resume")
    orders = read_resume(scene.run.path)
    assert orders is not None
    start_piece(scene.run, "resumed", cursor=orders.cursor)
    poisoned = replace(orders.cursor, piece=2, step=20)
    files = [scene.run.path / name for name in ("head.log", "head.last")]
    older = [path.read_bytes() for path in files]
    reopen(incident, actor="kim", reason="again")
    steps = scene.steps(incident)
    scene.decide(incident, 14)
    for name in ("confirm", "identify", "rewind", "skip", "resume"):
        steps[name]()
        if name == to:
            break
    newest = [path.read_bytes() for path in files]
    write_back(files, older)

    with pytest.raises(IntegrityError, match="lacks that entry: it is an older copy"):
        start_piece(scene.run, "requeued", cursor=poisoned)
    write_back(files, newest)
    with pytest.raises(SupersededCursor):
        start_piece(scene.run, "requeued", cursor=poisoned)


def test_a_start_between_rewind_and_resume_is_refused(scene: Scene) -> None:
    incident = scene.open()
    scene.go(incident, "rewind")

    with pytest.raises(IncidentError, match="would eat the same batches"):
        resume(scene.run)


def test_after_the_skip_the_old_revision_is_refused(scene: Scene) -> None:
    incident = scene.open()
    scene.go(incident, "resume")
    plain = Cursor.from_json(checkpoint(scene.run, 15).cursor)

    with pytest.raises(SupersededCursor, match="revision 0"):
        start_piece(scene.run, "requeued", cursor=plain)
    orders = resume(scene.run)
    assert orders is not None
    assert start_piece(scene.run, "requeued", cursor=orders.cursor) == 2


def test_the_orders_fit_their_schema_and_name_the_revision(scene: Scene) -> None:
    scene.go(scene.open(), "resume")

    value = json.loads((scene.run.path / "resume.json").read_text())

    Draft202012Validator(load_schema("resume.v1")).validate(value)
    assert (value["cursor"]["step"], value["cursor"]["revision"]) == (15, 1)


def test_L13_a_requeued_job_gets_the_same_answer_and_no_second_skip(scene: Scene) -> None:
    scene.go(scene.open(), "resume")

    first, second = resume(scene.run, launch="a"), resume(scene.run, launch="b")

    assert first == second
    marker = next((scene.run.path / "resumes").glob("*.taken"))
    assert len(list((scene.run.path / "resumes").glob("*.taken"))) == 1
    assert json.loads(marker.read_text())["launch"] == "a"


def test_a_resume_without_orders_is_none(scene: Scene) -> None:
    assert resume(scene.run) is None


def test_asking_for_orders_loads_no_database_and_no_report() -> None:
    code = "import sys, shardward.quarantine.respond.resume; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    heavy = {"duckdb", "jsonschema", "matplotlib", "numba", "click", "torch"}
    assert not heavy & set(result.stdout.split())


def test_edited_orders_are_refused(scene: Scene) -> None:
    scene.go(scene.open(), "resume")
    path = scene.run.path / "resume.json"
    path.write_text(
        path.read_text().replace('"learning_rate_factor":1.0', '"learning_rate_factor":9.0')
    )

    with pytest.raises(IntegrityError, match="it was edited"):
        resume(scene.run)


@pytest.mark.parametrize("content", [b"", b'{"form', None], ids=["empty", "cut", "directory"])
def test_damaged_orders_name_the_copy_that_mends_them(scene: Scene, content: bytes | None) -> None:
    scene.go(scene.open(), "resume")
    path = scene.run.path / "resume.json"
    orders = read_resume(scene.run.path)
    assert orders is not None
    kept = scene.run.path / "resumes" / f"{orders.id}.json"
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    for start in (lambda: resume(scene.run), lambda: start_piece(scene.run, "requeued")):
        with pytest.raises(FormatError, match=f"remove it and copy {kept} to it"):
            start()


def test_orders_whose_revision_is_gone_are_refused(scene: Scene) -> None:
    scene.go(scene.open(), "resume")
    for path in (scene.run.path / "revisions").glob("*.json"):
        path.unlink()

    with pytest.raises(NotFound, match="revision 1"):
        resume(scene.run)


def test_a_skip_of_nothing_is_refused_unless_the_reason_is_said(scene: Scene) -> None:
    incident = scene.open()
    scene.go(incident, "rewind")

    with pytest.raises(IncidentError, match="say why nothing is skipped"):
        response.skip(incident, scene.run, scene.manifest, actor="kim")
    revision = response.skip(
        incident, scene.run, scene.manifest, actor="kim", no_skip="the learning rate did it"
    )

    assert revision.number == 0
    orders = response.resume(
        incident, scene.run, actor="kim", watch=scene.watch_plan(), learning_rate_factor=0.5
    )
    assert (orders.no_skip, orders.learning_rate_factor) == ("the learning rate did it", 0.5)


def test_a_recurrence_inside_the_watch_reopens_the_incident(scene: Scene) -> None:
    incident = scene.open()
    scene.go(incident, "resume")

    result = response.watch(
        incident, {"loss": {**losses(16, 35), 20: 9.0, 21: 9.0, 22: 8.0}}, actor="kim"
    )

    assert result.verdict == "recurrence"
    assert (incident.case().state, incident.case().round) == ("opened", 2)


def test_a_watch_that_still_runs_does_not_allow_filing(scene: Scene) -> None:
    incident = scene.open()
    scene.go(incident, "resume")

    assert response.watch(incident, {"loss": losses(16, 20)}, actor="kim").verdict == "running"
    with pytest.raises(IncidentError, match="file comes after watch"):
        file(incident, scene.run, actor="kim")


def test_an_unconfirmed_checklist_leaves_the_incident_where_it_was(scene: Scene) -> None:
    incident = scene.open()

    event = response.confirm(incident, verdict="insufficient", checklist={}, actor="kim")

    assert event.act == "attempt"
    with pytest.raises(IncidentError, match="identify comes after confirm"):
        response.identify(incident, scene.window(), actor="kim")
    response.confirm(incident, verdict="insufficient", checklist={}, actor="kim", accept="I saw it")
    assert incident.case().state == "confirmed"


def test_a_second_rewind_to_before_the_first_skip_keeps_what_was_left_out(scene: Scene) -> None:
    scene.go(scene.open(), "resume")
    orders = resume(scene.run)
    assert orders is not None
    start_piece(scene.run, "second", cursor=orders.cursor)
    again = IncidentStore(scene.run.path).open(onset=60, detected=61, actor="kim")
    response.confirm(again, verdict="confirmed", checklist={}, actor="kim")
    response.identify(again, scene.window(), actor="kim")
    plan = plan_rewind([checkpoint(scene.run, 10)], scene.run.lineage(), onset=60, head_step=61)

    response.rewind(again, scene.run, plan, actor="kim")

    pending = read_resume(scene.run.path)
    assert pending is not None
    assert pending.cursor.revision == 1


def test_a_trainer_started_behind_the_back_of_the_rewind_is_noticed(scene: Scene) -> None:
    incident = scene.open()
    scene.go(incident, "skip")
    start_piece(scene.run, "eager", cursor=Cursor.from_json(checkpoint(scene.run, 15).cursor))

    with pytest.raises(IncidentError, match="a trainer was started in between"):
        response.resume(incident, scene.run, actor="kim", watch=None)


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize(
    "step", ["confirm", "identify", "rewind", "skip", "resume", "watch", "file"]
)
def test_a_crash_between_any_two_writes_is_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Die before the n-th durable write of a step, for every n, then do the step again."""
    manifest = make_corpus(tmp_path)
    survived = False
    for n in range(1, 40):
        scene = Scene(tmp_path / f"{step}{n}", manifest)
        incident = scene.open()
        order = list(scene.steps(incident))
        if order.index(step):
            scene.go(incident, order[order.index(step) - 1])
        if step == "skip":
            scene.decide(incident, 12, 13)
        with monkeypatch.context() as patched:
            left = iter(range(n))
            real = os.fsync

            def fsync(handle: int, left: Any = left, real: Any = real) -> None:
                if next(left, None) is None:
                    raise Crash
                real(handle)

            patched.setattr(os, "fsync", fsync)
            try:
                scene.steps(incident)[step]()
                survived = True
            except Crash:
                survived = False
        if incident.case().done[-1:] != (step,):
            scene.steps(incident)[step]()
        assert incident.case().done[-1] == step
        assert [e.act for e in incident.events()].count(step) == 1
        if survived:
            break
    assert survived
