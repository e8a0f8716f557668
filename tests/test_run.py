"""A run: pieces are opened once for each start, and nothing superseded comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shardward.loader.cursor import Cursor
from shardward.loader.errors import (
    Busy,
    FormatError,
    IntegrityError,
    MismatchError,
    NotFound,
    SupersededCursor,
    TopologyError,
    UsageError,
)
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.pieces import Piece
from shardward.loader.plan import Plan
from shardward.loader.records import note
from shardward.loader.revision import Revision
from shardward.loader.revision_store import publish_revision_files
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.schemas import load_schema

PLAN = Plan(fingerprint="f" * 64, seed=1, seq_len=8, separator=256, pad=257)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", plan=PLAN, manifest_path=tmp_path / "manifest")


def at(step: int, piece: int | None, revision: int = 0) -> Cursor:
    digest = None if revision == 0 else "d" * 64
    return Cursor(
        plan_id=PLAN.plan_id,
        step=step,
        position=step * 4,
        piece=piece,
        revision=revision,
        revision_digest=digest,
    )


def load(run: Run, cursor: Cursor, reason: str = "restart", **options: object) -> Piece:
    piece = run.open_piece(
        cursor=cursor,
        topology=Topology(),
        reason=reason,
        revision=cursor.revision,
        **options,  # type: ignore[arg-type]
    )
    run.close()
    return piece


def test_a_run_opens_as_it_was_made(run: Run) -> None:
    again = Run.open(run.path)

    assert (again.run_id, again.plan_id, again.plan()) == (run.run_id, PLAN.plan_id, PLAN)
    assert (again.head(), again.pieces(), again.lineage()) == (None, (), ())


def test_a_directory_in_use_is_refused(run: Run) -> None:
    with pytest.raises(UsageError, match=run.run_id):
        Run.create(run.path, plan=PLAN, manifest_path=run.manifest_path)


def test_a_directory_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no run"):
        Run.open(tmp_path)


def test_an_unknown_run_version_is_refused(run: Run) -> None:
    value = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**value, "version": 2}))

    with pytest.raises(FormatError, match="version 2"):
        Run.open(run.path)


@pytest.mark.parametrize(
    "change", [{"run_id": None}, {"manifest": 7}, {"context": []}, {"remote": 1}]
)
def test_a_malformed_run_file_is_refused(run: Run, change: dict[str, object]) -> None:
    value = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**value, **change}))

    with pytest.raises(FormatError, match="restore it from a copy"):
        Run.open(run.path)


def test_a_changed_plan_file_is_refused(run: Run) -> None:
    value = json.loads((run.path / "plan.json").read_text())
    (run.path / "plan.json").write_text(json.dumps({**value, "seed": 2}))

    with pytest.raises(MismatchError, match="plan id"):
        run.plan()


def test_the_first_piece_starts_at_step_1_and_the_head_follows(run: Run) -> None:
    piece = load(run, at(0, None), "start")
    head = run.head()

    assert (piece.piece, piece.parent, piece.first_step) == (1, None, 1)
    assert head is not None
    assert (head.piece, head.step, head.reason) == (1, None, "start")


def test_a_restart_forks_at_the_cursor(run: Run) -> None:
    load(run, at(0, None), "start")
    load(run, at(10, 1))

    assert [(s.piece, s.first, s.last) for s in run.lineage()] == [(1, 1, 10), (2, 11, None)]


def test_a_rewind_supersedes_what_came_after_it(run: Run) -> None:
    load(run, at(0, None), "start")
    with pytest.raises(NotFound, match="publish it first"):
        run.move_head(piece=1, step=20, cursor=at(20, 1), revision=1)
    publish_revision_files(run.path, Revision(number=1, manifest=PLAN.fingerprint))
    run.move_head(piece=1, step=20, cursor=at(20, 1), revision=1)
    with pytest.raises(SupersededCursor, match=r"step 40 of piece 1.*piece 1 step 20"):
        load(run, at(40, 1, 1))
    piece = load(run, at(20, 1, 1), "rewind")

    with pytest.raises(SupersededCursor, match="up to 20"):
        load(run, at(21, 1, 1))
    assert (piece.piece, piece.fork_step) == (2, 20)
    assert load(run, at(15, 1, 1)).piece == 3


def test_a_superseded_cursor_may_be_forked_on_purpose(run: Run) -> None:
    load(run, at(0, None), "start")
    run.move_head(piece=1, step=20, cursor=at(20, 1), revision=0)

    assert load(run, at(40, 1), fork=True).piece == 2


def test_a_revision_older_than_the_heads_is_refused(run: Run) -> None:
    load(run, at(0, None), "start")
    publish_revision_files(run.path, Revision(number=2, manifest=PLAN.fingerprint))
    run.move_head(piece=1, step=20, cursor=at(20, 1), revision=2)

    with pytest.raises(SupersededCursor, match=r"revision 1.*revision 2"):
        load(run, at(20, 1, 1))


def test_a_trial_leaves_the_head_alone_and_is_outside_the_lineage(run: Run) -> None:
    load(run, at(0, None), "start")
    run.move_head(piece=1, step=20, cursor=at(20, 1), revision=0)
    trial = load(run, at(40, 1), "trial")
    head = run.head()

    assert head is not None
    assert (head.piece, head.step) == (1, 20)
    with pytest.raises(SupersededCursor, match="none of its steps"):
        load(run, at(45, trial.piece))


def test_the_head_moves_only_within_its_lineage(run: Run) -> None:
    load(run, at(0, None), "start")
    load(run, at(10, 1))

    with pytest.raises(SupersededCursor):
        run.move_head(piece=1, step=12, cursor=at(12, 1), revision=0)
    with pytest.raises(MismatchError, match="step 9"):
        run.move_head(piece=1, step=8, cursor=at(9, 1), revision=0)


def test_cursors_of_elsewhere_are_refused(run: Run) -> None:
    load(run, at(0, None), "start")
    load(run, at(10, 1))
    other = Cursor(plan_id="0" * 64)

    with pytest.raises(MismatchError, match="000000000000"):
        load(run, other)
    with pytest.raises(NotFound, match="piece 9"):
        load(run, at(10, 9))
    with pytest.raises(MismatchError, match="starts after step 10"):
        load(run, at(5, 2))
    with pytest.raises(MismatchError, match="no piece"):
        load(run, at(5, None))


def test_ranks_of_one_launch_share_a_piece(run: Run) -> None:
    topologies = [Topology(dp_rank=rank, dp_size=2) for rank in range(2)]
    pieces = [run.open_piece(cursor=at(0, None), topology=t, launch="job-1") for t in topologies]

    assert [piece.piece for piece in pieces] == [1, 1]
    assert len(run.heads()) == 1


def test_a_rank_with_another_cursor_or_topology_is_refused(run: Run) -> None:
    load(run, at(0, None), "start")
    run.open_piece(cursor=at(6, 1), topology=Topology(dp_size=2), launch="job")

    with pytest.raises(MismatchError, match="step 7"):
        run.open_piece(cursor=at(7, 1), topology=Topology(dp_rank=1, dp_size=2), launch="job")
    with pytest.raises(MismatchError, match="dp_size"):
        run.open_piece(cursor=at(6, 1), topology=Topology(dp_rank=1, dp_size=3), launch="job")


@pytest.mark.parametrize(
    "change",
    [
        {"revision": 1},
        {"revision_digest": "c" * 64},
        {"mode": "hold"},
        {"record": "runs"},
        {"reason": "trial"},
        {"terms": {"batch": [[1, 16]]}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_rank_that_would_take_other_samples_is_refused(run: Run, change: dict[str, Any]) -> None:
    common: dict[str, Any] = {"cursor": at(0, None), "launch": "job", "terms": {"batch": [[1, 8]]}}
    run.open_piece(topology=Topology(dp_size=2), **common)

    with pytest.raises(MismatchError, match=f"brings {next(iter(change))}"):
        run.open_piece(topology=Topology(dp_rank=1, dp_size=2), **{**common, **change})


def test_a_rendezvous_without_a_name_is_no_token(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")

    with pytest.raises(TopologyError, match="SHARDWARD_LAUNCH"):
        run.open_piece(cursor=at(0, None), topology=Topology(dp_size=2))


def test_several_processes_need_a_launch_token(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = Topology(dp_size=2)
    with pytest.raises(TopologyError, match="SHARDWARD_LAUNCH"):
        run.open_piece(cursor=at(0, None), topology=topology)
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    piece = run.open_piece(cursor=at(0, None), topology=topology)

    assert piece.launch == "slurm-77-0-0"


def test_a_second_live_trainer_is_refused_and_named(run: Run) -> None:
    piece = run.open_piece(cursor=at(0, None), topology=Topology())
    other = Run.open(run.path)
    with run.journal_writer(piece), pytest.raises(Busy, match="this process"):
        other.open_piece(cursor=at(0, None), topology=Topology())

    assert len(run.pieces()) == 1
    assert load(other, at(0, None)).piece == 2


TRAINER = """
import sys
from shardward.loader.cursor import Cursor
from shardward.loader.run import Run
from shardward.loader.topology import Topology
run = Run.open(sys.argv[1])
run.open_piece(cursor=Cursor(plan_id=run.plan_id), topology=Topology())
print("ready", flush=True)
sys.stdin.read()
"""


def test_the_slot_of_a_killed_trainer_is_free_again(run: Run) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "ready\n"
        with pytest.raises(Busy, match=f"process {trainer.pid}"):
            load(run, at(0, None))
        trainer.kill()

    assert load(run, at(0, None)).piece == 2


def test_a_wider_job_still_alive_blocks_a_narrower_one(run: Run) -> None:
    run.open_piece(cursor=at(0, None), topology=Topology(dp_rank=7, dp_size=8), launch="old")

    with pytest.raises(Busy, match="rank-7-0"):
        Run.open(run.path).open_piece(cursor=at(0, None), topology=Topology())


def test_a_journal_begins_with_its_piece(run: Run) -> None:
    piece = run.open_piece(cursor=at(0, None), topology=Topology())
    run.journal_writer(piece).close()
    (path,) = run.journals()
    (frame,) = read_journal(path).frames
    values = note(frame).values

    assert frame.kind == Kind.BRANCH
    assert Piece.from_json({k: v for k, v in values.items() if k not in ("pid", "host")}) == piece


def test_a_rank_records_once_in_a_piece(run: Run) -> None:
    piece = run.open_piece(cursor=at(0, None), topology=Topology(dp_size=2), launch="job")
    run.journal_writer(piece).close()
    again = run.open_piece(cursor=at(0, None), topology=Topology(dp_size=2), launch="job")

    with pytest.raises(MismatchError, match="already recorded"):
        run.journal_writer(again)


def test_an_edited_head_log_is_detected(run: Run) -> None:
    load(run, at(0, None), "start")
    load(run, at(3, 1))
    log = run.path / "head.log"
    log.write_bytes(log.read_bytes().replace(b'"reason":"start"', b'"reason":"trial"'))

    with pytest.raises(IntegrityError, match="line 2"):
        run.head()


def test_a_head_line_torn_by_a_crash_does_not_count(run: Run) -> None:
    load(run, at(0, None), "start")
    log = run.path / "head.log"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"format":"shardward.he')
    load(run, at(3, 1))

    assert [head.sequence for head in run.heads()] == [1, 2]
    assert log.read_bytes().startswith(whole)


def test_the_files_of_a_run_fit_their_schemas(run: Run) -> None:
    load(run, at(0, None), "start")
    run.move_head(piece=1, step=20, cursor=at(20, 1), revision=0)
    lines = (run.path / "head.log").read_text().splitlines()
    for schema, texts in (
        ("run.v1", [(run.path / "run.json").read_text()]),
        ("piece.v1", [(run.path / "pieces" / "000001.json").read_text()]),
        ("head.v1", lines),
    ):
        for text in texts:
            Draft202012Validator(load_schema(schema)).validate(json.loads(text))
