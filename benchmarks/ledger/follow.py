"""How old the newest step in the ledger is while a process follows a running trainer."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from shardward.loader.cursor import Cursor
from shardward.loader.records import prepare_delivered
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger

from .data import Corpus, records
from .results import percentile, report

TRAINER = """
import sys, time
from benchmarks.ledger.follow import train
train(sys.argv[1])
"""


def train(home: str, steps: int = 400) -> None:
    """Write 40 steps a second of 160 samples."""
    run = Run.open(home)
    piece = run.open_piece(cursor=Cursor(plan_id=run.plan_id), topology=Topology())
    with run.journal_writer(piece) as writer:
        for (record,) in records(Corpus(1 << 20), 160, 1, steps * 500):
            writer.append(prepare_delivered(record))
            time.sleep(0.025)


def follow(home: Path) -> None:
    """Ingest every 0.1 s and look at the age of each step when it can first be asked for."""
    run = Run.create(home / "run", plan=Corpus(1 << 20).plan, manifest_path=home / "none")
    lags: list[float] = []
    with (
        subprocess.Popen([sys.executable, "-c", TRAINER, str(run.path)]) as trainer,
        Ledger.open(run, wait=30) as ledger,
    ):
        seen = 0
        while trainer.poll() is None:
            ledger.ingest()
            now = time.time_ns()
            rows = ledger.sql(
                f"SELECT step, time_ns FROM deliveries WHERE step > {seen} ORDER BY step"
            ).to_pylist()
            lags += [(now - row["time_ns"]) / 1e9 for row in rows]
            seen = rows[-1]["step"] if rows else seen
            time.sleep(0.1)
    report(
        "freshness",
        bar="under 0.5 s while a process follows the run",
        holds=percentile(lags, 0.95) < 0.5,
        steps=len(lags),
        p50_s=round(percentile(lags, 0.5), 3),
        p95_s=round(percentile(lags, 0.95), 3),
    )
