"""Journals that are missing, cut, garbage or torn, and records that a rank never made."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers_ledger import cursor, make_run, slice_of, train, train_really

from shardward.cli.main import cli
from shardward.loader.journal import JournalWriter, read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.records import prepare_delivered
from shardward.loader.run import Run
from shardward.quarantine.ledger import Ledger


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run of two pieces, ingested."""
    run = make_run(tmp_path / "run")
    train(run, range(1, 6))
    train(run, range(6, 9), cursor(5, 1))
    Ledger.open(run).close()
    return run


def shardward(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def serious(run: Run) -> dict[str, bool]:
    with Ledger.open(run) as ledger:
        return {problem.kind: problem.serious for problem in ledger.check()}


def forget(run: Run) -> None:
    (run.path / "ledger.duckdb").unlink()


def test_a_run_whose_journals_are_whole_has_no_problem(run: Run) -> None:
    assert serious(run) == {}


@pytest.mark.parametrize("ingested", [True, False])
def test_a_journal_that_is_garbage_is_a_problem(run: Run, ingested: bool) -> None:
    run.journal_path(2, 0).write_bytes(os.urandom(5000))
    if not ingested:
        forget(run)
    codes = [shardward("ledger", word, "--run", run.path).exit_code for word in ("check", "ingest")]

    assert serious(run)["journal_start"]
    assert codes == [5, 5]


def test_a_journal_shorter_than_what_was_read_is_a_problem(run: Run) -> None:
    path = run.journal_path(2, 0)
    os.truncate(path, path.stat().st_size // 2)

    assert serious(run)["journal_short"]


def test_a_journal_that_was_read_and_is_gone_is_a_problem(run: Run) -> None:
    run.journal_path(2, 0).unlink()

    assert serious(run) == {"journal_missing": True}


def test_verify_does_not_pass_a_run_whose_journal_is_cut(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path)
    whole = shardward("ledger", "verify", "--run", run.path)
    os.truncate(run.journal_path(1, 0), 700)
    cut = shardward("ledger", "verify", "--run", run.path)

    assert (whole.exit_code, cut.exit_code) == (0, 5)
    assert "has 700 bytes" in cut.stderr


def test_a_journal_whose_steps_a_later_piece_names_is_missed(run: Run) -> None:
    run.journal_path(1, 0).unlink()
    forget(run)
    result = shardward("ledger", "check", "--run", run.path, "--json")
    found = {
        problem["kind"]: problem["message"] for problem in json.loads(result.stdout)["problems"]
    }

    assert result.exit_code == 5
    assert "piece 2 names step 5 of piece 1" in found["journal_missing"]


def test_steps_that_the_orders_of_a_rewind_name_are_missed(run: Run) -> None:
    (run.path / "resume.json").write_text(json.dumps({"cursor": {"piece": 2, "step": 20}}))
    with Ledger.open(run) as ledger:
        (problem,) = ledger.check()

    assert (problem.kind, problem.serious) == ("steps_lost", True)
    assert "steps 9 to 20 of piece 2, though resume.json names step 20" in problem.message


def test_the_head_without_a_journal_is_a_problem_and_every_answer_says_so(run: Run) -> None:
    run.journal_path(2, 0).unlink()
    forget(run)
    steps = shardward("ledger", "steps", "1..9", "--run", run.path)

    assert serious(run) == {"piece_silent": True}
    assert steps.exit_code == 0
    assert "piece 2 is in the history of the head and has no journal" in steps.stderr


def test_a_piece_that_the_head_has_left_without_a_journal_is_a_note(run: Run) -> None:
    run.journal_path(2, 0).unlink()
    forget(run)
    train(run, range(6, 8), cursor(5, 1))
    steps = shardward("ledger", "steps", "1..9", "--run", run.path)

    assert serious(run) == {"piece_silent": False}
    assert "no journal" not in steps.stderr


def test_a_rank_without_a_journal_is_a_problem_where_another_completed_a_step(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 6), size=2, launch="job")
    run.journal_path(1, 1).unlink()

    assert serious(run)["journal_missing"]


def test_D7_a_torn_tail_is_a_note(run: Run) -> None:
    path = run.journal_path(2, 0)
    forget(run)
    os.truncate(path, path.stat().st_size - 10)

    assert serious(run) == {"journal_tail": False}
    assert shardward("ledger", "check", "--run", run.path).exit_code == 0


def test_D7_a_journal_cut_at_every_byte_of_its_last_step(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 4))
    path = run.journal_path(1, 0)
    data = path.read_bytes()
    delivered = [frame for frame in read_journal(path).frames if frame.kind == Kind.DELIVERED]
    first, last = delivered[-1].offset, delivered[-1].end
    with Ledger.open(run, ingest_seconds=0) as ledger:
        for size in range(first, last + 1):
            path.write_bytes(data[:size])
            ledger.ingest()
            tails = [problem.serious for problem in ledger.journal_problems()]
            assert ledger.last_step() == (3 if size == last else 2)
            assert tails == ([False] if first < size < last else [])


@pytest.mark.parametrize("left", [1, 20, 39, 40, 41, 90])
def test_D7_what_is_appended_to_a_torn_journal_is_read(tmp_path: Path, left: int) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 3))
    path = run.journal_path(1, 0)
    (torn,) = [frame.offset for frame in read_journal(path).frames
               if frame.kind == Kind.DELIVERED and frame.step == 2]  # fmt: skip
    os.truncate(path, torn + left)
    with JournalWriter(path) as writer:
        writer.append(prepare_delivered(slice_of(2, 1, 0, 1)))
    with Ledger.open(run) as ledger:
        assert ledger.step_documents(2)["doc"].to_pylist() == list(range(8, 16))
        assert [problem.kind for problem in ledger.check()] == ["journal_damage"]


def test_an_empty_journal_or_a_torn_first_record_is_no_damage(run: Run, tmp_path: Path) -> None:
    data = run.journal_path(2, 0).read_bytes()
    for size in (0, 3, 30, 60):
        copy = Run.open(shutil.copytree(run.path, tmp_path / f"copy-{size}"))
        forget(copy)
        copy.journal_path(2, 0).write_bytes(data[:size])
        assert not any(serious(copy).values())


def test_a_step_that_a_rank_never_recorded_is_a_problem_once_a_piece_went_on(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 6), size=2, ranks=[0], launch="job")
    train(run, range(1, 4), size=2, ranks=[1], launch="job")
    before = serious(run)
    train(run, range(6, 8), cursor(5, 1), size=2)
    result = shardward("ledger", "check", "--run", run.path)

    assert before == {"incomplete_step": False}
    assert serious(run) == {"step_never_recorded": True}
    assert (result.exit_code, "piece 2 went on from behind it" in result.stderr) == (5, True)
