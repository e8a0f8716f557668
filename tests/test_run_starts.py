"""Starts of several ranks: no slot is kept by the wrong one, nothing is warned of in vain."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from helpers_ledger import make_run, train
from helpers_loader import arrow_corpus

from shardward.loader import Run, ShardLoader, Topology
from shardward.loader import run_locks as module
from shardward.loader.errors import FormatError
from shardward.loader.run_locks import Holder, live_holder, take_rank_slot, take_slot
from shardward.loader.topology import MOST_PROCESSES


def test_the_slot_of_a_rank_that_dies_while_it_is_looked_at_is_left_to_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = take_slot(tmp_path / "rank-1-0.lock", "old")

    def dies(path: Path) -> Holder | None:
        holder = live_holder(path)
        old.release()
        return holder

    monkeypatch.setattr(module, "live_holder", dies)
    first = take_rank_slot(tmp_path, Topology(dp_size=2), "new", trial=False, first=True)

    take_slot(tmp_path / "rank-1-0.lock", "new").release()
    first.release()


def test_only_a_run_that_starts_over_is_said_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = arrow_corpus(tmp_path, [["some text"] * 8])
    plan = manifest.plan(seed=1, seq_len=8)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    said = []
    for launch in ("first", "second"):
        for rank in range(2):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                ShardLoader(
                    manifest,
                    plan,
                    batch=2,
                    run=run,
                    topology=Topology(dp_rank=rank, dp_size=2),
                    launch=launch,
                ).close()
            said.append("starts again at step 1" in caplog.text)

    assert said == [False, False, True, False]


@pytest.mark.parametrize(
    "sizes",
    [
        {"dp_size": "2"},
        {"dp_size": None},
        {"dp_size": 1.5},
        {"dp_size": True},
        {"dp_size": 0},
        {"dp_size": 10**9},
        {"dp_size": 1 << 9, "replicas": 1 << 9},
    ],
)
def test_a_piece_with_an_impossible_number_of_ranks_is_refused(
    tmp_path: Path, sizes: dict[str, Any]
) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    path = run.path / "pieces" / "000001.json"
    value = json.loads(path.read_text())
    value["topology"].update(sizes)
    path.write_text(json.dumps(value))

    with pytest.raises(FormatError, match="is malformed: dp_size and replicas are"):
        Run.open(run.path).pieces()


def test_a_job_may_not_have_more_processes_than_a_piece_can_name() -> None:
    assert Topology(dp_size=MOST_PROCESSES).processes == MOST_PROCESSES
    with pytest.raises(ValueError, match="are the most"):
        Topology(dp_size=MOST_PROCESSES, replicas=2)
