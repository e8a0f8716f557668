"""Answers worked out from the plan, and the proof that they are what was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers_ledger import BATCH, train_really
from helpers_loader import revision_of

from shardward.loader import ShardLoader
from shardward.loader.errors import NotFound
from shardward.loader.manifest import Manifest
from shardward.loader.revision import Skip
from shardward.loader.revision_store import publish_revision_files
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.ledger.step_answer import step_from_journals
from shardward.quarantine.ledger.views import EFFECTIVE


def resume(run: Run, steps: int, mode: Any, record: Any, excluded: list[int]) -> None:
    """Go on from the last checkpoint without some documents and one range of positions."""
    manifest = Manifest.load(run.manifest_path)
    with Ledger.open(run) as ledger:
        cursors = ledger.checkpoints()["cursor"].to_pylist()
    plan = run.plan()
    skip = Skip(plan_id=plan.plan_id, epoch=0, start=30, end=33, reason="test")
    revision = revision_of(manifest, excluded)
    revision = type(revision)(
        number=1,
        manifest=revision.manifest,
        documents=revision.documents,
        hashes=revision.hashes,
        skips=(skip,),
    )
    publish_revision_files(run.path, revision)
    with ShardLoader(
        manifest, plan, run=run, batch=BATCH, cursor=json.loads(cursors[-1]), revision=1,
        mode=mode, record=record, micros=2,
    ) as loader:  # fmt: skip
        for _ in range(steps):
            next(loader)
            loader.observe(next(loader).step)


def both(tmp_path: Path, mode: str) -> tuple[Run, Run]:
    runs = []
    for record in ("documents", "runs"):
        run, _ = train_really(tmp_path / record, record=record)
        resume(run, 4, mode, record, excluded=list(range(5, 45, 3)))
        runs.append(run)
    return runs[0], runs[1]


def plain(table: pa.Table) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = table.to_pylist()
    return rows


@pytest.mark.parametrize("mode", ["compact", "hold"])
def test_runs_mode_answers_what_documents_mode_answers(tmp_path: Path, mode: str) -> None:
    documents, runs = both(tmp_path, mode)
    with Ledger.open(documents) as full, Ledger.open(runs) as lean:
        assert lean.sql("SELECT count(*) AS n FROM segments")["n"].to_pylist() == [0]
        for step in range(1, 11):
            expected = plain(full.step_documents(step))
            assert plain(lean.step_documents(step)) == expected
            assert plain(step_from_journals(runs, EFFECTIVE, step, lean._deriver).rows) == expected
        for docs in (range(60), [7], [44, 2]):
            assert plain(lean.document_steps(list(docs))) == plain(full.document_steps(list(docs)))
        for position in (0, 9, 30, 31, 39):
            assert plain(lean.sample(position)) == plain(full.sample(position))


@pytest.mark.parametrize("mode", ["compact", "hold"])
def test_verify_agrees_for_both_records_with_holes(tmp_path: Path, mode: str) -> None:
    for run in both(tmp_path, mode):
        with Ledger.open(run) as ledger:
            result = ledger.verify()

        assert (result.records, result.differences) == (10, ())


def test_verify_agrees_with_padded_batches_and_more_ranks(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path)
    manifest = Manifest.load(run.manifest_path)
    with Ledger.open(run) as ledger:
        (cursor,) = [json.loads(text) for text in ledger.checkpoints()["cursor"].to_pylist()]
    for rank in range(2):
        with ShardLoader(
            manifest, run.plan(), run=run, batch=BATCH, cursor=cursor, launch="two", end="pad",
            topology=Topology(dp_rank=rank, dp_size=2),
        ) as loader:  # fmt: skip
            for batch in loader:
                loader.observe(batch.step)
    with Ledger.open(run) as ledger:
        last = ledger.last_step()
        result = ledger.verify()
        assert [problem for problem in ledger.check() if problem.serious] == []

    assert result.differences == ()
    assert result.records == 6 + 2 * (last - 6)


def test_few_documents_by_window_and_many_by_scan_agree(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path)
    with Ledger.open(run) as ledger:
        one_by_one = [row for doc in range(60) for row in plain(ledger.document_steps(doc))]
        together = plain(ledger.document_steps(np.arange(100)))
        ledger._deriver = None
        scanned = plain(ledger.document_steps(list(range(60))))

    assert one_by_one == together == scanned


def test_runs_mode_without_the_manifest_says_what_it_needs(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path, record="runs")
    run.manifest_path.rename(tmp_path / "elsewhere")
    with Ledger.open(run) as ledger:
        with pytest.raises(NotFound, match="--manifest"):
            ledger.step_documents(1)
        with pytest.raises(NotFound, match="--manifest"):
            ledger.document_steps(1)
    with Ledger.open(run, manifest=tmp_path / "elsewhere") as ledger:
        assert ledger.step_documents(1).num_rows > 0
