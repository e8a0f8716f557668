"""Asking the ledger: every answer is what the journals say, whichever way it is found."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers_ledger import cursor, docs, make_run, slice_of, train

from shardward.loader.errors import (
    Busy,
    IntegrityError,
    NotFound,
    ShardwardError,
    UsageError,
)
from shardward.loader.journal_frame import Kind
from shardward.loader.records import NoteRecord, prepare_delivered, prepare_note
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import ALL, Ledger, View, at_checkpoint


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run")


def test_a_step_names_every_segment_in_order(run: Run) -> None:
    train(run, range(1, 6), size=2)
    with Ledger.open(run) as ledger:
        rows = ledger.step_documents(3).to_pylist()

    assert [row["doc"] for row in rows] == list(range(16, 24))
    assert [row["rank"] for row in rows] == [0] * 4 + [1] * 4
    assert [row["sample_position"] for row in rows] == [8, 8, 9, 9, 10, 10, 11, 11]
    assert (rows[0]["token_start"], rows[0]["token_end"], rows[0]["step"]) == (5, 9, 3)


@pytest.mark.parametrize("ingest_seconds", [0, None])
def test_unread_steps_are_answered_from_the_journal(run: Run, ingest_seconds: float | None) -> None:
    train(run, range(1, 50), size=2)
    with Ledger.open(run, ingest_seconds=ingest_seconds) as ledger:
        assert [docs(ledger.step_documents(step)) for step in (1, 25, 49)] == [
            list(range(8 * (step - 1), 8 * step)) for step in (1, 25, 49)
        ]
        with pytest.raises(NotFound, match="step 50"):
            ledger.step_documents(50)


def test_a_second_ingest_adds_only_what_is_new(run: Run) -> None:
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    with run.journal_writer(piece) as writer, Ledger.open(run) as ledger:
        for step in range(1, 6):
            writer.append(prepare_delivered(slice_of(step, 1, 0, 1)))
            report = ledger.ingest()
            assert (report.records, report.ids, report.unread_bytes) == (1, 8, 0)

        assert ledger.steps(1, 9)["segments"].to_pylist() == [8] * 5


def test_steps_come_with_their_counts_and_the_digest_of_all_ranks(run: Run) -> None:
    train(run, [1, 2], size=2)
    with Ledger.open(run) as ledger:
        (row,) = ledger.steps(2, 2).to_pylist()

    assert (row["ranks"], row["complete"], row["completed"], row["samples"]) == (2, True, True, 4)
    assert (row["first_position"], row["end_position"]) == (4, 8)
    assert int.from_bytes(row["digest"]) == 2000 + 2001


def test_documents_name_their_steps(run: Run) -> None:
    train(run, range(1, 6))
    with Ledger.open(run) as ledger:
        assert ledger.document_steps(17)["step"].to_pylist() == [3]
        assert ledger.document_steps([3, 30])["step"].to_pylist() == [1, 4]
        assert ledger.document_steps(999).num_rows == 0


def test_a_window_lists_its_documents_once(run: Run) -> None:
    train(run, range(1, 6))
    with Ledger.open(run) as ledger:
        table = ledger.window_documents(2, 3)

    assert table["doc"].to_pylist() == list(range(8, 24))
    assert set(table["segments"].to_pylist()) == {1}


def test_the_effective_history_leaves_superseded_steps_out(run: Run) -> None:
    train(run, range(1, 11))
    run.move_head(piece=1, step=4, cursor=cursor(4, 1), revision=0)
    train(run, range(5, 8), cursor(4, 1), reason="rewind")
    with Ledger.open(run) as ledger:
        assert ledger.steps(1, 99)["piece"].to_pylist() == [1] * 4 + [2] * 3
        assert ledger.steps(1, 99, 1)["piece"].to_pylist() == [1] * 10
        assert ledger.steps(5, 5, ALL)["piece"].to_pylist() == [1, 2]
        assert ledger.steps(1, 99, at_checkpoint(run, "1:6")).num_rows == 6
        assert ledger.steps(1, 99, at_checkpoint(run, "6")).num_rows == 6
        assert ledger.steps(1, 99, View(piece=2, step=3))["piece"].to_pylist() == [1] * 3
        assert ledger.document_steps(40)["piece"].to_pylist() == [2]
        assert ledger.step_documents(9, View(piece=1)).num_rows == 8
        with pytest.raises(NotFound, match="--all"):
            ledger.step_documents(9, View(piece=2, step=7))


def test_L13_after_two_rewinds_every_step_names_what_was_really_trained(run: Run) -> None:
    train(run, range(1, 11))
    train(run, range(4, 8), cursor(3, 1), fork=True)
    train(run, range(3, 6), cursor(2, 1), fork=True)
    with Ledger.open(run) as ledger:
        rows = ledger.sql("SELECT step, piece FROM effective_steps ORDER BY step").to_pylist()

    assert [(row["step"], row["piece"]) for row in rows] == [
        (1, 1), (2, 1), (3, 3), (4, 3), (5, 3),
    ]  # fmt: skip


def test_branches_that_repeat_each_other_are_checked_one_by_one(run: Run) -> None:
    train(run, range(1, 11))
    train(run, range(4, 8), cursor(3, 1))
    with Ledger.open(run) as ledger:
        assert (ledger.check(), ledger.check(1), ledger.check(ALL)) == ((), (), ())


def test_a_history_that_lacks_its_beginning_is_a_problem(run: Run) -> None:
    train(run, range(1, 4))
    train(run, range(4, 8), cursor(3, 1))
    run.journal_path(1, 0).unlink()
    with Ledger.open(run) as ledger:
        gap, journal = ledger.check()

    assert (gap.kind, gap.message) == ("missing_steps", "no record of steps 1 to 3")
    assert (journal.kind, journal.serious) == ("journal_missing", True)


def test_L14_step_n_is_the_batch_trained_at_n(run: Run) -> None:
    train(run, [1])
    with Ledger.open(run) as ledger:
        assert docs(ledger.step_documents(1)) == list(range(8))
        with pytest.raises(NotFound):
            ledger.step_documents(0)


def test_a_step_without_all_its_ranks_is_incomplete(run: Run) -> None:
    train(run, [1, 2], size=2, ranks=[0])
    train(run, [1], size=2, ranks=[1], launch="launch-1")
    with Ledger.open(run) as ledger:
        assert ledger.steps(1, 2)["complete"].to_pylist() == [True, False]
        (problem,) = ledger.check()

    assert (problem.kind, problem.serious, problem.step) == ("incomplete_step", False, 2)
    assert "1 of 2 ranks" in problem.message


def test_telemetry_is_long_by_method_and_wide_by_view(run: Run) -> None:
    train(run, [1, 2])
    with Ledger.open(run) as ledger:
        wide = ledger.sql("SELECT step, loss, lr FROM telemetry_wide ORDER BY step").to_pylist()

        assert wide == [{"step": s, "loss": float(s), "lr": 0.5} for s in (1, 2)]
        assert ledger.telemetry("loss")["value"].to_pylist() == [1.0, 2.0]
        assert ledger.telemetry().num_rows == 4


def test_signals_of_any_name_make_a_wide_view(run: Run) -> None:
    piece = train(run, [1])
    values = {"Loss": 1, "step": 2, 'it\'s "odd"': float("nan"), "": 4, "word": "text"}
    with run.journal_writer(piece, 5) as writer:
        sent = NoteRecord(kind=Kind.TELEMETRY, piece=1, step=1, rank=5, values=values)
        writer.append(prepare_note(sent))
    with Ledger.open(run) as ledger:
        (row,) = ledger.sql("SELECT * FROM telemetry_wide").to_pylist()

    assert math.isnan(row.pop('it\'s "odd"'))
    assert row == {
        "step": 1, "piece": 1, "Loss": 1.0, "lr": 0.5, "unnamed": 4.0, "loss_": 1.0, "step_": 2.0,
        "word": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM segments",
        "SELECT 1; DROP TABLE segments",
        "COPY segments TO '/tmp/x.csv'",
        "SELECT * FROM read_text('/etc/hostname')",
        "SET threads = 4",
        "ATTACH '/tmp/other.db'",
        "SELEC 1",
        "",
    ],
)
def test_sql_answers_one_select_and_nothing_else(run: Run, query: str) -> None:
    train(run, [1])
    with Ledger.open(run) as ledger:
        with pytest.raises(UsageError):
            ledger.sql(query)

        assert ledger.sql("SELECT count(*) AS n FROM segments")["n"].to_pylist() == [8]


HOLD = """
import sys, time
from shardward.quarantine.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


def test_D1_a_second_process_is_told_who_holds_the_ledger(run: Run) -> None:
    train(run, [1])
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        began = time.monotonic()
        with pytest.raises(Busy, match=f"process {holder.pid} holds"):
            Ledger.open(run, wait=0.3)
        assert 0.3 <= time.monotonic() - began < 2
        holder.communicate("")

    with Ledger.open(run, wait=0.3) as ledger:
        assert ledger.last_step() == 1


def test_D2_a_handle_used_after_a_fork_raises(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    train(run, [1])
    with Ledger.open(run) as ledger:
        pid = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
        with pytest.raises(ShardwardError, match="after a fork"):
            ledger.step_documents(1)
        with pytest.raises(ShardwardError, match="after a fork"):
            ledger.ingest()
        monkeypatch.undo()

        assert ledger.step_documents(1).num_rows == 8


def test_a_closed_ledger_says_so(run: Run) -> None:
    train(run, [1])
    ledger = Ledger.open(run)
    ledger.close()
    ledger.close()

    with pytest.raises(ShardwardError, match="closed"):
        ledger.steps(1, 1)


def test_eight_threads_get_each_its_own_answer(run: Run) -> None:
    train(run, range(1, 33))
    wrong: list[int] = []

    def ask(ledger: Ledger, first: int) -> None:
        wrong.extend(
            step
            for step in range(first, 33, 8)
            if docs(ledger.step_documents(step)) != list(range(8 * (step - 1), 8 * step))
        )

    with Ledger.open(run) as ledger:
        threads = [threading.Thread(target=ask, args=(ledger, first)) for first in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert wrong == []


def test_threads_that_ingest_at_once_count_everything_once(run: Run) -> None:
    train(run, range(1, 200), size=2)
    with Ledger.open(run, ingest_seconds=0) as ledger:
        threads = [threading.Thread(target=ledger.ingest) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert ledger.stats()["segments"] == 199 * 8


def test_replicas_that_differ_name_step_and_rank(run: Run) -> None:
    for replica, digest in ((0, 7), (1, 8)):
        topology = Topology(dp_rank=0, dp_size=1, replica=replica, replicas=2)
        piece = run.open_piece(cursor=cursor(0, None), topology=topology, launch="job")
        with run.journal_writer(piece, 0, replica) as writer:
            for step in (1, 2):
                mark = digest if step == 2 else 1
                record = slice_of(step, 1, 0, 1, replica=replica, digest=mark.to_bytes(16, "big"))
                writer.append(prepare_delivered(record))
    with Ledger.open(run, ingest_seconds=0) as ledger:
        for _ in ("unread", "read"):
            assert ledger.step_documents(1).num_rows == 8
            with pytest.raises(IntegrityError, match=r"rank 0 .* step 2"):
                ledger.step_documents(2)
            ledger.ingest()
        kinds = [(problem.kind, problem.step, problem.rank) for problem in ledger.check()]

    assert kinds == [("replicas_differ", 2, 0)]
