"""The memory setting bounds what ingest and questions take; what does not fit goes to disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers_ledger import cursor, make_run, slice_of, train

from shardward.loader.errors import UsageError
from shardward.loader.records import prepare_delivered
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger

RECORDS, SEGMENTS = 16, 1 << 17
ASK = """
import re, sys
from pathlib import Path
from shardward.quarantine.ledger import Ledger
with Ledger.open(sys.argv[1], path=sys.argv[2], memory=sys.argv[3], threads=1) as ledger:
    rows = ledger.sql("SELECT doc, list(step) AS steps FROM segments GROUP BY doc ORDER BY doc")
    docs = ledger.window_documents(1, 99).num_rows
status = Path("/proc/self/status").read_text()
print(rows.num_rows, docs, int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) // 1024)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of two million segments of as many documents."""
    run = make_run(tmp_path_factory.mktemp("memory") / "run")
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    rng = np.random.default_rng(0)
    with run.journal_writer(piece) as writer:
        for step in range(1, RECORDS + 1):
            docs = rng.permutation(SEGMENTS) + step * SEGMENTS
            record = slice_of(
                step,
                1,
                0,
                1,
                doc=docs,
                sample_index=np.sort(rng.integers(0, 4, SEGMENTS)),
                token_start=np.zeros(SEGMENTS, dtype=np.int64),
                token_end=np.full(SEGMENTS, 9),
            )
            writer.append(prepare_delivered(record))
    return run


def asked(run: Run, tmp_path: Path, memory: str) -> tuple[int, int, int]:
    """Return rows of two answers, and the peak of resident memory in MB."""
    command = [sys.executable, "-c", ASK, str(run.path), str(tmp_path / f"{memory}.duckdb"), memory]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows, docs, peak = map(int, done.stdout.split())
    return rows, docs, peak


def test_a_small_setting_gives_the_same_answers_in_less_memory(run: Run, tmp_path: Path) -> None:
    small, large = (asked(run, tmp_path, memory) for memory in ("64MB", "2GB"))

    assert small[:2] == large[:2] == (RECORDS * SEGMENTS, RECORDS * SEGMENTS)
    assert small[2] < large[2] - 64


def test_the_setting_is_taken_from_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT current_setting('memory_limit') AS bytes"
    for value, expected in (("100MB", "95.3 MiB"), ("1GB", "953.6 MiB")):
        monkeypatch.setenv("SHARDWARD_LEDGER_MEMORY", value)
        with Ledger.open(run, path=tmp_path / "x.duckdb", ingest_seconds=0) as ledger:
            assert ledger.sql(query)["bytes"].to_pylist() == [expected]


def test_a_setting_without_sense_is_explained(tmp_path: Path) -> None:
    train(run := make_run(tmp_path / "run"), [1])
    with pytest.raises(UsageError, match="memory limit of 'plenty'"):
        Ledger.open(run, memory="plenty")
