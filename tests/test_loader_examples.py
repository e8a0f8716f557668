"""The examples run as they are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from helpers_loader import arrow_corpus, write_parquet
from helpers_tree import ROOT

from shardward.loader import Run, ShardLoader
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.records import delivered

QUIET = {**os.environ, "OMP_NUM_THREADS": "1"}


def delivered_positions(run: Run) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for path in run.journals():
        for frame in read_journal(path).frames:
            if frame.kind == Kind.DELIVERED:
                found.setdefault(frame.step, []).extend(delivered(frame).positions.tolist())
    return found


def test_the_plain_loop_trains_and_goes_on_where_it_was(tmp_path: Path) -> None:
    texts: list[object] = [f"a line of text number {number}" for number in range(400)]
    write_parquet(tmp_path / "data" / "a.parquet", {"text": texts}, group=50)
    command = [sys.executable, str(ROOT / "examples/plain_loop.py"), str(tmp_path / "data")]

    first, second = (
        subprocess.run(
            [*command, str(tmp_path / "work"), "20"],
            capture_output=True,
            text=True,
            check=True,
            env=QUIET,
        ).stdout
        for _ in range(2)
    )
    found = delivered_positions(Run.open(tmp_path / "work" / "run"))

    assert first.startswith("step 20 loss")
    assert second.startswith("step 40 loss")
    assert sorted(found) == list(range(1, 41))
    assert all(len(positions) == 8 for positions in found.values())


def test_ddp_over_gloo_makes_its_run_and_goes_on_at_another_number_of_ranks(tmp_path: Path) -> None:
    blocks = [[f"block {b} text {t} " * 24 for t in range(12)] for b in range(8)]
    manifest = arrow_corpus(tmp_path, blocks)
    run_path = tmp_path / "run"

    for ranks in (2, 1):
        subprocess.run(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *("--nproc-per-node", str(ranks), str(ROOT / "examples/ddp_gloo.py")),
                *(str(manifest.path), str(run_path), "3"),
            ],
            check=True,
            capture_output=True,
            env=QUIET,
        )
    run = Run.open(run_path)
    found = delivered_positions(run)
    with ShardLoader(manifest, run.plan(), batch=24) as whole:
        expected = {batch.step: batch.positions.tolist() for batch in whole}

    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert [piece.topology["dp_size"] for piece in run.pieces()] == [2, 1]
    assert {step: sorted(positions) for step, positions in found.items()} == {
        step: sorted(expected[step]) for step in found
    }
