"""Faults that must lose nothing: kills of trainer and ingester, refused locks."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from helpers_ledger import cursor, docs, make_run, train

from shardward.loader.errors import ShardwardError
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.run import Run
from shardward.quarantine.ledger import Ledger

INGEST = """
import sys
from shardward.quarantine.ledger import Ledger, ingest as module
from shardward.quarantine.ledger.ingest import ingest
ledger = Ledger.open(sys.argv[1], ingest_seconds=0)
while True:
    ingest(ledger.database, ledger.run, seconds=0, slice_bytes=1)
    print("slice", flush=True)
"""
TRAIN = """
import sys
sys.path.insert(0, sys.argv[2])
from helpers_ledger import cursor, slice_of
from shardward.loader.records import prepare_delivered
from shardward.loader.run import Run
from shardward.loader.topology import Topology
run = Run.open(sys.argv[1])
pieces = run.pieces()
start = cursor(0, None)
piece = run.open_piece(cursor=start, topology=Topology())
writer = run.journal_writer(piece, sync_seconds=0.001)
ends, step = [], 0
while True:
    step += 1
    ends.append(writer.append(prepare_delivered(slice_of(step, piece.piece, 0, 1))))
    synced = sum(end <= writer.synced for end in ends)
    print(piece.piece, step, synced, flush=True)
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run")


def start(script: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def kill_after(process: subprocess.Popen[str], lines: int, seconds: float = 0.0) -> list[str]:
    """Let `process` print some lines, kill it, and return all that it printed."""
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(lines)]
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    seen += process.stdout.read().splitlines(keepends=True)
    process.wait()
    process.stdout.close()
    return [line for line in seen if line.endswith("\n")]


def test_D5_an_ingester_killed_in_a_loop_counts_everything_once(run: Run) -> None:
    for piece in range(4):
        train(run, range(1, 400), cursor(0, None) if piece == 0 else cursor(0, 1), size=2)
    rng = random.Random(5)
    for _ in range(3):
        kill_after(start(INGEST, run.path), 1 + rng.randrange(3), rng.random() / 50)
    with Ledger.open(run) as ledger:
        rows = ledger.sql("SELECT count(*) AS n, count(DISTINCT (piece, step, rank)) AS d, "
                          "sum(segments)::BIGINT AS s FROM deliveries").to_pylist()  # fmt: skip
        segments = ledger.sql("SELECT count(*) AS n FROM segments")["n"].to_pylist()
        problems = [problem for problem in ledger.check() if problem.serious]

    assert rows == [{"n": 4 * 399 * 2, "d": 4 * 399 * 2, "s": 4 * 399 * 8}]
    assert segments == [4 * 399 * 8]
    assert problems == []


def test_D5_rows_and_watermark_are_one_transaction(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run, range(1, 20))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with Ledger.open(run, ingest_seconds=0) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr("shardward.quarantine.ledger.ingest._mark", stop)
            with pytest.raises(KeyboardInterrupt):
                ledger.ingest()
        assert ledger.stats()["segments"] == 0
        ledger.ingest()
        assert ledger.stats()["segments"] == 19 * 8


def test_D5_a_killed_trainer_loses_nothing_that_was_acknowledged(run: Run) -> None:
    helpers = Path(__file__).parent
    rng = random.Random(7)
    acknowledged: dict[int, int] = {}
    for _ in range(3):
        lines = kill_after(start(TRAIN, run.path, helpers), 3, rng.random() / 20)
        piece, _, synced = map(int, lines[-1].split())
        acknowledged[piece] = synced
    for piece, synced in acknowledged.items():
        content = read_journal(run.journal_path(piece, 0))
        steps = [frame.step for frame in content.frames if frame.kind == Kind.DELIVERED]
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) >= synced


def test_D5_trainer_and_ingester_killed_in_a_loop_count_everything_once(run: Run) -> None:
    helpers = Path(__file__).parent
    rng = random.Random(3)
    for _ in range(3):
        trainer = start(TRAIN, run.path, helpers)
        assert trainer.stdout is not None
        assert trainer.stdout.readline()
        first, second = (start(INGEST, run.path), trainer)
        if rng.random() < 0.5:
            kill_after(first, 2, rng.random() / 50)
            kill_after(second, 1)
        else:
            kill_after(second, 1, rng.random() / 50)
            kill_after(first, 1)
    frames = [frame for path in run.journals() for frame in read_journal(path).frames]
    delivered = [(f.piece, f.step) for f in frames if f.kind == Kind.DELIVERED]
    with Ledger.open(run) as ledger:
        rows = ledger.sql("SELECT piece, step FROM deliveries ORDER BY ALL").to_pylist()

    assert {piece for piece, _ in delivered} == {1, 2, 3}
    assert [(row["piece"], row["step"]) for row in rows] == sorted(delivered)


def test_D3_a_kill_while_the_tables_are_made_leaves_nothing_half_made(run: Run) -> None:
    train(run, [1, 2])
    script = """
import os, sys
import shardward.quarantine.ledger.schema as module
# Called when the tables are made and not yet committed.
module.asdict = lambda _: os._exit(9)
from shardward.quarantine.ledger import Ledger
Ledger.open(sys.argv[1])
"""
    done = subprocess.run([sys.executable, "-c", script, str(run.path)], check=False)
    assert done.returncode == 9
    with Ledger.open(run) as ledger:
        assert docs(ledger.step_documents(2)) == list(range(8, 16))


def test_D6_a_file_system_without_locks_is_explained(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run, [1])

    class Refusing:
        def execute(self, query: str) -> None:
            if query.startswith("ATTACH"):
                raise duckdb.IOException('Could not set lock on file "x": No locks available')

        def close(self) -> None:
            pass

    monkeypatch.setattr(duckdb, "connect", lambda **_: Refusing())
    with pytest.raises(ShardwardError, match=r"refuses locks.*SHARDWARD_LEDGER"):
        Ledger.open(run)


def test_a_ledger_elsewhere_is_found_by_its_variable(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run, [1])
    monkeypatch.setenv("SHARDWARD_LEDGER", str(tmp_path / "local" / "x.duckdb"))
    (tmp_path / "local").mkdir()
    Ledger.open(run).close()

    assert (tmp_path / "local" / "x.duckdb").exists()
    assert not (run.path / "ledger.duckdb").exists()
