"""Ingest and questions on a large run."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from shardward.loader.run import Run
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.ledger.database import Database, Owner
from shardward.quarantine.ledger.derive import Deriver
from shardward.quarantine.ledger.ingest import SLICE_BYTES, ingest

from .data import Corpus, write_run
from .results import percentile, report, timed


def build(home: Path, ids: int) -> tuple[Run, Corpus, int]:
    """Write the journals: one rank, 512 samples a step, about 1,650 ids a record."""
    corpus = Corpus(max(1 << 20, ids // 1024 * 1024))
    began = time.perf_counter()
    run, total = write_run(home / "run", corpus, batch=512, ranks=1, ids=ids)
    size = sum(path.stat().st_size for path in run.journals())
    report(
        "journal.written",
        ids=total,
        seconds=round(time.perf_counter() - began, 1),
        bytes_per_id=round(size / total, 2),
    )
    return run, corpus, total


def ingesting(run: Run, total: int) -> None:
    """Ingest on one DuckDB thread."""
    path = run.path / "ledger.duckdb"
    memory = os.environ["SHARDWARD_LEDGER_MEMORY"]
    database = Database(path, Owner.of(run), memory=memory, threads=1)
    slices: list[float] = []
    last = [time.perf_counter()]

    def advance(_: int) -> None:
        now = time.perf_counter()
        slices.append(now - last[0])
        last[0] = now

    wall, cpu = time.perf_counter(), time.process_time()
    ingest(database, run, advance=advance)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    database.close()
    report(
        "ingest",
        bar=">= 3M ids per second on one core (of processor time), slices <= 1 s",
        holds=total / cpu >= 3e6 and percentile(slices, 0.95) <= 1,
        ids=total,
        million_ids_per_cpu_second=round(total / cpu / 1e6, 2),
        million_ids_per_second=round(total / wall / 1e6, 2),
        slice_p50_s=round(percentile(slices, 0.5), 2),
        slice_p95_s=round(percentile(slices, 0.95), 2),
        slice_bytes=SLICE_BYTES,
    )
    report(
        "ledger.bytes_per_id",
        bar="<= 7 bytes per id",
        holds=path.stat().st_size / total <= 7,
        bytes_per_id=round(path.stat().st_size / total, 2),
    )


def questions(run: Run, corpus: Corpus, total: int) -> None:
    """Latencies, warm: the first question of each kind is not counted."""
    rng = random.Random(0)
    with Ledger.open(run) as ledger:
        ledger.__dict__["_deriver"] = _deriver(run, corpus)
        last = ledger.last_step()
        seen = ledger.sql("SELECT DISTINCT doc FROM segments USING SAMPLE 20000 ROWS")
        docs = seen["doc"].to_pylist()

        def step() -> None:
            assert ledger.step_documents(rng.randint(1, last)).num_rows

        def doc() -> None:
            assert ledger.document_steps(rng.choice(docs)).num_rows

        def window() -> None:
            first = rng.randint(1, max(1, last - 200))
            assert ledger.window_documents(first, first + 199).num_rows

        def thousand() -> None:
            assert ledger.document_steps(rng.sample(docs, 1000)).num_rows

        for name, ask, repeats, bar in (
            ("step", step, 100, 0.010),
            ("document", doc, 100, 0.020),
            ("window_of_200_steps", window, 20, 0.200),
            ("thousand_documents", thousand, 5, 1.0),
        ):
            timed(ask, 2)
            busy = time.process_time()
            found = timed(ask, repeats)
            busy = (time.process_time() - busy) / repeats
            report(
                f"ask.{name}",
                bar=f"p50 <= {bar * 1e3:.0f} ms at 100M ids",
                holds=percentile(found, 0.5) <= bar,
                ids=total,
                p50_ms=round(percentile(found, 0.5) * 1e3, 2),
                p95_ms=round(percentile(found, 0.95) * 1e3, 2),
                cpu_ms=round(busy * 1e3, 2),
            )
    report(
        "memory",
        ids=total,
        setting=os.environ["SHARDWARD_LEDGER_MEMORY"],
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def cold(run: Run, total: int) -> None:
    """The command line, with a ledger that has ingested nothing, from start to answer."""
    for path in run.path.glob("ledger.duckdb*"):
        path.unlink()
    command = [sys.executable, "-m", "shardward.cli.main", "ledger", "step", "1000"]
    command[1:3] = ["-c", "from shardward.cli.main import main; main()"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--run", str(run.path), "--json"],
        capture_output=True,
        check=False,
        env=os.environ,
    )
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report(
        "cold_step",
        bar="<= 2 s with 5e8 ids that nobody has ingested",
        holds=done.returncode == 0 and seconds <= 2,
        ids=total,
        seconds=round(seconds, 2),
        cpu_seconds=round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        exit_code=done.returncode,
    )


def _deriver(run: Run, corpus: Corpus) -> Deriver:
    return Deriver(run, corpus)  # type: ignore[arg-type]
