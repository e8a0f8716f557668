"""Full disks, killed processes, edited files and heads that point nowhere."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from helpers_respond import checkpoint, make_corpus, make_run, start_piece
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shardward.loader.cursor import Cursor
from shardward.loader.errors import (
    IncidentError,
    IntegrityError,
    MismatchError,
    NotFound,
    UsageError,
)
from shardward.loader.revision import Revision
from shardward.quarantine.respond.context import RunContext
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.filing import file
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.mirror import pull_revision, push_revision
from shardward.quarantine.respond.revisions import decision_anchors, load_revision, publish_revision
from shardward.quarantine.respond.rewind import plan_rewind
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision


def decide(doc: int) -> Decision:
    return Decision(action="quarantine", scope=Scope.of_documents([doc]), reason="r", actor="a")


class LogUnderFire(RuleBasedStateMachine):
    """Appends, torn writes and full disks in any order: acknowledged decisions stay, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(os.environ["SHARDWARD_TEST_HOME"]) / str(time.monotonic_ns())
        self.home.mkdir()
        self.acknowledged: list[int] = []

    @rule(doc=st.integers(0, 9))
    def append(self, doc: int) -> None:
        DecisionLog(self.home).append(decide(doc))
        self.acknowledged.append(doc)

    @rule(doc=st.integers(0, 9), part=st.integers(1, 60))
    def die_in_the_write(self, doc: int, part: int) -> None:
        path = self.home / "decisions.log"
        line = json.dumps({"format": "shardward.decision", "doc": doc, "x": "y" * 60}).encode()
        with path.open("ab") as stream:
            stream.write(line[:part])

    @rule(doc=st.integers(0, 9))
    def fill_the_disk(self, doc: int) -> None:
        real, left = os.write, [20]

        def write(handle: int, data: Any) -> int:
            if not left[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            size = real(handle, bytes(data)[: left[0]])
            left[0] -= size
            return size

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "write", write)
            with pytest.raises(OSError, match="No space"):
                DecisionLog(self.home).append(decide(doc))

    @precondition(lambda self: self.acknowledged)
    @rule()
    def verify(self) -> None:
        log = DecisionLog(self.home)
        log.verify([("here", log.head())])

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        entries = DecisionLog(self.home).entries()

        assert [e.decision.scope.documents[0] for e in entries] == self.acknowledged


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWARD_TEST_HOME", str(tmp_path))


def test_random_acts_and_accidents_never_lose_a_decision() -> None:
    run_state_machine_as_test(
        LogUnderFire, settings=settings(max_examples=25, stateful_step_count=12, deadline=None)
    )


WRITER = """
import sys
from pathlib import Path
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision
for doc in range(10**9):
    scope = Scope.of_documents([doc])
    decision = Decision(action="quarantine", scope=scope, reason="r", actor="a")
    print(DecisionLog(Path(sys.argv[1])).append(decision).sequence, flush=True)
"""


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(20)]
            process.kill()
            acknowledged += [int(line) for line in process.stdout.read().split()]

        entries = DecisionLog(tmp_path).entries()
        assert entries[-1].sequence >= acknowledged[-1]
        assert acknowledged == list(range(acknowledged[0], acknowledged[-1] + 1))
    DecisionLog(tmp_path).verify()


def test_a_log_edited_after_an_incident_is_seen_by_the_incident_alone(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.append(decide(1))
    IncidentStore(tmp_path).open(onset=5, detected=6, actor="kim")
    log.path.write_text(log.path.read_text().replace('"reason":"r"', '"reason":"x"'))

    with pytest.raises(IntegrityError, match="INC-0001 open anchors decision 1"):
        log.verify(decision_anchors(tmp_path, "fp"))


def test_a_head_that_points_nowhere_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path, make_corpus(tmp_path, documents=30))
    start_piece(run)
    point = checkpoint(run, 4)
    (run.path / "pieces" / "000001.json").unlink()

    with pytest.raises(NotFound, match=r"stands in piece 1, and pieces/ has no such file; restore"):
        plan_rewind([point], run.lineage(), onset=9, head_step=9)


def test_a_checkpoint_of_a_superseded_branch_is_not_chosen(tmp_path: Path) -> None:
    run = make_run(tmp_path, make_corpus(tmp_path, documents=30))
    start_piece(run)

    with pytest.raises(IncidentError, match="branch piece 2 was superseded"):
        plan_rewind([checkpoint(run, 4, piece=2)], run.lineage(), onset=9, head_step=9)


def test_a_checkpoint_past_the_point_a_rewind_went_back_to_is_not_chosen(tmp_path: Path) -> None:
    run = make_run(tmp_path, make_corpus(tmp_path, documents=30))
    start_piece(run)
    point = Cursor.from_json(checkpoint(run, 10).cursor)
    run.move_head(piece=1, step=10, cursor=point, revision=0)

    known = [checkpoint(run, step) for step in (5, 10, 15)]
    plan = plan_rewind(known, run.lineage(), onset=20, head_step=20)

    assert plan.checkpoint.step == 10
    assert [(c.step, "superseded" in why) for c, why in plan.passed_over] == [(15, True)]


def test_an_incident_whose_watch_found_a_recurrence_is_not_filed(tmp_path: Path) -> None:
    run = make_run(tmp_path, make_corpus(tmp_path, documents=30))
    incident = IncidentStore(run.path).open(onset=10, detected=11, actor="kim")
    for act in ("confirm", "identify", "rewind", "skip", "resume"):
        incident.record(act, actor="kim")
    incident.record("watch", actor="kim", summary={"verdict": "recurrence", "reason": "again"})

    with pytest.raises(IncidentError, match="ended with recurrence"):
        file(incident, run, actor="kim")


def test_a_new_spike_inside_a_watch_is_a_recurrence_and_later_ones_link_back(
    tmp_path: Path,
) -> None:
    store = IncidentStore(tmp_path)
    first = store.open(onset=10, detected=11, actor="kim")
    for act in ("confirm", "identify", "rewind", "skip"):
        first.record(act, actor="kim")
    watch = {"first": 8, "last": 60}
    first.record("resume", actor="kim", evidence={"orders": {"watch": watch}})

    with pytest.raises(IncidentError, match="so this is a recurrence: run incident watch INC-0001"):
        store.open(onset=40, detected=41, actor="kim")
    later = store.open(onset=90, detected=91, actor="kim")
    assert later.events()[0].summary["earlier"] == ["INC-0001"]


@pytest.fixture
def revision(tmp_path: Path) -> Revision:
    manifest = make_corpus(tmp_path, documents=30)
    log = DecisionLog(tmp_path / "run", manifest=manifest.fingerprint)
    (tmp_path / "run").mkdir()
    log.append(decide(3))
    return publish_revision(tmp_path / "run", manifest)


def test_a_revision_travels_over_an_object_store(tmp_path: Path, revision: Revision) -> None:
    url = f"memory://{tmp_path.name}/runs/7b"
    push_revision(revision, url)
    push_revision(revision, url)

    found = pull_revision(
        url, 1, tmp_path / "elsewhere", manifest=revision.manifest, digest=revision.digest
    )

    assert found.digest == revision.digest
    assert np.array_equal(found.documents, revision.documents)


def test_other_bytes_under_the_name_of_a_revision_are_refused(
    tmp_path: Path, revision: Revision
) -> None:
    url = f"memory://{tmp_path.name}/runs/7b"
    system, root = fsspec.core.url_to_fs(url)
    system.pipe_file(f"{root}/revisions/{revision.name}.bin", b"other")

    with pytest.raises(IntegrityError, match="exists with other content"):
        push_revision(revision, url)


def test_a_revision_changed_on_the_store_is_refused(tmp_path: Path, revision: Revision) -> None:
    url = f"memory://{tmp_path.name}/runs/7b"
    header = push_revision(revision, url).removeprefix("memory:/")
    system, _ = fsspec.core.url_to_fs(url)
    system.pipe_file(header, system.cat_file(header).replace(b'"number":1', b'"number":2'))

    digest = revision.digest
    with pytest.raises(IntegrityError, match="changed on the store"):
        pull_revision(url, 1, tmp_path / "elsewhere", manifest=revision.manifest, digest=digest)
    with pytest.raises(NotFound, match="no such revision 9"):
        pull_revision(url, 9, tmp_path / "elsewhere", manifest=revision.manifest, digest=digest)


def test_the_context_of_a_run_is_checked_and_kept(tmp_path: Path) -> None:
    facts: dict[str, Any] = {
        "parameters": 7_000_000_000,
        "precision": "bf16",
        "optimizer": "AdamW",
        "betas": (0.9, 0.95),
        "eps": 1e-8,
        "schedule": "cosine to 3e-5, peak 3e-4",
        "deterministic": False,
        "code": "v1.2",
        "parallel": {"data": 64},
    }

    context = RunContext(**facts).to_json()

    assert json.loads(json.dumps(context))["betas"] == [0.9, 0.95]
    with pytest.raises(UsageError, match="lacks its code"):
        RunContext(**{**facts, "code": " "})
    with pytest.raises(UsageError, match="out of range"):
        RunContext(**{**facts, "betas": (0.9, 1.0)})


def test_a_revision_of_another_corpus_is_said_and_the_log_not_blamed(tmp_path: Path) -> None:
    runs = []
    for name, documents in (("ours", 30), ("other", 60)):
        (tmp_path / name).mkdir()
        corpus = make_corpus(tmp_path / name, documents=documents)
        runs.append(make_run(tmp_path / name, corpus))
        DecisionLog(runs[-1].path, manifest=corpus.fingerprint).append(decide(3))
        publish_revision(runs[-1].path, corpus)
    for path in (runs[1].path / "revisions").glob("000001-*"):
        target = runs[0].path / "revisions" / path.name.replace("000001", "000002")
        target.write_bytes(path.read_bytes())

    with pytest.raises(MismatchError, match=r"revision 2 is for corpus .* came from another run"):
        DecisionLog(runs[0].path).entries()


def test_a_revision_without_its_documents_is_said(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, documents=30)
    run = make_run(tmp_path, corpus)
    DecisionLog(run.path, manifest=corpus.fingerprint).append(decide(3))
    publish_revision(run.path, corpus)
    for path in (run.path / "revisions").glob("*.bin"):
        path.unlink()

    with pytest.raises(NotFound, match="restore it from a copy"):
        load_revision(run.path, 1, manifest=corpus.fingerprint)
