"""Answers over several pieces and ranks: which have the step, and what is missing is said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from helpers_ledger import cursor, docs, make_run, train, train_really

from shardward.loader.cursor import Cursor
from shardward.loader.errors import NotFound, ShardwardError, UsageError
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import ALL, EFFECTIVE, Ledger
from shardward.quarantine.ledger import documents as by_document
from shardward.quarantine.ledger.step_answer import step_from_journals


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run")


@pytest.mark.parametrize("seconds", [0, None])
def test_a_step_that_only_one_piece_reached_is_found_in_all(
    run: Run, seconds: float | None
) -> None:
    train(run, range(1, 13))
    train(run, range(7, 9), cursor(6, 1))
    with Ledger.open(run, ingest_seconds=seconds) as ledger:
        assert [one.piece for one in ledger.step(10, ALL).deliveries] == [1]
        assert [one.piece for one in ledger.step(8, ALL).deliveries] == [1, 2]
        with pytest.raises(NotFound, match=r"piece 2; piece 1 has such a step: ask with --all"):
            ledger.step_documents(10)
        with pytest.raises(NotFound, match="timeline"):
            ledger.step_documents(20, ALL)

    assert docs(step_from_journals(run, ALL, 10).rows) == list(range(72, 80))
    with pytest.raises(NotFound, match="piece 1 has such a step"):
        step_from_journals(run, EFFECTIVE, 10)


@pytest.mark.parametrize("seconds", [0, None])
def test_a_step_says_which_ranks_have_not_recorded_it(run: Run, seconds: float | None) -> None:
    train(run, [1, 2], size=4, ranks=[0, 2], launch="job")
    train(run, [1], size=4, ranks=[1, 3], launch="job")
    with Ledger.open(run, ingest_seconds=seconds) as ledger:
        for whole in (ledger.step(2), step_from_journals(run, EFFECTIVE, 2)):
            (one,) = whole.deliveries
            assert (one.ranks, one.dp_size, one.complete) == (2, 4, False)
            assert one.missing_ranks == (1, 3)
        assert ledger.step(1).deliveries[0].complete


def test_a_step_is_completed_when_all_ranks_reported_it(run: Run) -> None:
    train(run, [1, 2], size=4, ranks=[0], launch="job")
    train(run, [1], size=4, ranks=[1, 2, 3], launch="job")
    with Ledger.open(run) as ledger:
        table = ledger.steps(1, 2)

    assert table["completed"].to_pylist() == [True, False]
    assert table["completed_ranks"].to_pylist() == [4, 1]


def resumed(run: Run, ranks: int, start: Cursor, steps: int, record: Any = "documents") -> int:
    """Train `steps` steps after `start` on so many ranks, as a branch of its own."""
    manifest = Manifest.load(run.manifest_path)
    for rank in range(ranks):
        with ShardLoader(
            manifest, run.plan(), run=run, batch=4, cursor=start, fork=True, record=record,
            topology=Topology(dp_rank=rank, dp_size=ranks), launch=f"job-{len(run.pieces()) - rank}"
            if rank == 0 else run.pieces()[-1].launch,
        ) as loader:  # fmt: skip
            for _ in range(steps):
                loader.observe(next(loader).step)
    return run.pieces()[-1].piece


def test_branches_of_other_rank_counts_are_alike_when_their_samples_are(tmp_path: Path) -> None:
    run, batches = train_really(tmp_path)
    start = batches[1].cursor_after
    two, four = resumed(run, 2, start, 3), resumed(run, 4, start, 3)
    lean = resumed(run, 2, batches[2].cursor_after, 2, "runs")
    with Ledger.open(run) as ledger:
        assert ledger.diff(two, four).num_rows == 0
        assert ledger.diff(1, four).num_rows == 0
        assert ledger.diff(four, lean).num_rows == 0


def test_a_difference_without_recorded_documents_has_no_numbers(run: Run) -> None:
    train(run, [1, 2, 3])
    train(run, [3], cursor(2, 1), digest=b"another-digest-!")
    train(run, [3], cursor(2, 1), digest=b"some-more-digest", record="runs", fork=True)
    with Ledger.open(run) as ledger:
        ledger.database.rows("UPDATE deliveries SET record = 'runs' WHERE piece = 3")
        documents, lean = ledger.diff(1, 2).to_pylist(), ledger.diff(1, 3).to_pylist()

    assert documents == [{"step": 3, "piece": 1, "other": 2, "only_piece": 0, "only_other": 0}]
    assert lean == [{"step": 3, "piece": 1, "other": 3, "only_piece": None, "only_other": None}]


def test_documents_on_many_branches_take_no_longer_than_a_scan(tmp_path: Path) -> None:
    run, batches = train_really(tmp_path)
    for _ in range(12):
        resumed(run, 1, batches[1].cursor_after, 3)
    with Ledger.open(run) as ledger:
        ledger.document_steps([0], ALL)
        began = time.perf_counter()
        few = ledger.document_steps(list(range(60)), ALL)
        took = time.perf_counter() - began
        assert few.equals(ledger.document_steps([*range(60), *range(1000, 1010)], ALL))
        assert [
            ledger.document_steps([doc], ALL).num_rows for doc in range(60)
        ] == [few["doc"].to_pylist().count(doc) for doc in range(60)]  # fmt: skip

    # One query for each document, epoch and piece took 8 seconds.
    assert took < 2


@pytest.mark.parametrize("most", [0, 1, 1000])
def test_stretches_and_scan_agree(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, batches = train_really(tmp_path)
    resumed(run, 2, batches[3].cursor_after, 2)
    monkeypatch.setattr(by_document, "MOST_RANGES", most)
    with Ledger.open(run) as ledger:
        for wanted in ([3], [7, 44], [999], list(range(50))):
            for view in (EFFECTIVE, ALL):
                expected = [
                    row
                    for row in ledger.sql("SELECT * FROM all_step_documents").to_pylist()
                    if row["doc"] in wanted
                    and (view is ALL or row["piece"] == 2 or row["step"] <= 4)
                ]
                assert ledger.document_steps(wanted, view).num_rows == len(expected)


@pytest.mark.parametrize("record", ["documents", "runs"])
def test_documents_outside_the_corpus_fed_nothing(tmp_path: Path, record: str) -> None:
    run, _ = train_really(tmp_path, record=record)
    with Ledger.open(run) as ledger:
        assert ledger.document_steps([60, 1000, (1 << 63) - 1, -1]).num_rows == 0
        assert ledger.document_steps([3, 60]).num_rows == ledger.document_steps([3]).num_rows


def test_a_run_that_has_delivered_nothing_has_no_documents(tmp_path: Path) -> None:
    run, batches = train_really(tmp_path, steps=1, record="runs")
    run.journal_path(1, 0).unlink()
    with Ledger.open(run) as ledger:
        assert ledger.document_steps(batches[0].segments.doc).num_rows == 0
        assert (ledger.sample(1).num_rows, ledger.verify().records) == (0, 0)


def test_a_query_that_runs_too_long_is_stopped(run: Run) -> None:
    train(run, [1])
    endless = "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range <> b.range"
    with Ledger.open(run) as ledger:
        began = time.perf_counter()
        with pytest.raises(ShardwardError, match=r"ran for 0.5 s and was stopped.*--timeout"):
            ledger.sql(endless, seconds=0.5)
        assert time.perf_counter() - began < 5

        assert ledger.sql("SELECT 1 AS one", seconds=5)["one"].to_pylist() == [1]


def test_sql_fetches_no_more_than_asked_and_tells_columns_apart(run: Run) -> None:
    train(run, [1])
    with Ledger.open(run) as ledger:
        many = ledger.sql("SELECT i FROM range(1000000) t(i) ORDER BY i DESC", most=3)
        twice = ledger.sql("SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a")
        plan = ledger.sql("EXPLAIN SELECT 1", most=9)
        with pytest.raises(UsageError):
            ledger.sql("DROP TABLE segments", most=3)

    assert many["i"].to_pylist() == [999999, 999998, 999997]
    assert twice.to_pylist() == [{"a": 1, "a_1": 2, "a_1_1": 3, "a_2": 4}]
    assert plan.num_rows > 0
