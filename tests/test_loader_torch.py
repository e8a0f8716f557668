"""The torch adapter: any number of workers, one order, the main process keeps the record."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_loader import arrow_corpus

from shardward.loader import Manifest, Plan, Run, ShardLoader
from shardward.loader.errors import UsageError
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.torch import TorchLoader, to_torch

BLOCKS = [[f"the text {row} of block {block} " * 3 for row in range(6)] for block in range(6)]


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Manifest, Plan]:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    return manifest, manifest.plan(seed=4, seq_len=16, window_blocks=2)


def tokens(loader: Any) -> list[list[list[int]]]:
    return [batch.tokens.tolist() for batch in loader]


def test_batches_become_int64_tensors(corpus: tuple[Manifest, Plan]) -> None:
    manifest, plan = corpus
    with ShardLoader(manifest, plan, batch=4) as loader:
        batch = to_torch(next(loader))

    assert batch.tokens.dtype == torch.int64
    assert batch.tokens.shape == batch.loss_mask.shape == (4, 16)
    assert batch.segment_ids().dtype == batch.position_ids().dtype == torch.int32
    assert (batch.segment_ids() > 0).tolist() == batch.loss_mask.tolist()
    assert batch.to("cpu").step == 1


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [1, 4])
def test_L5_workers_change_nothing_and_only_consumed_steps_count(
    corpus: tuple[Manifest, Plan], tmp_path: Path, workers: int
) -> None:
    manifest, plan = corpus
    with ShardLoader(manifest, plan, batch=8, micros=2) as plain:
        expected = tokens(plain)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    got: list[list[list[int]]] = []
    cursor = None
    for steps in (3, 1, 1000):
        loader = ShardLoader(manifest, plan, batch=8, micros=2, run=run, cursor=cursor, threads=0)
        batches = TorchLoader(
            loader, num_workers=workers, prefetch_factor=4, multiprocessing_context="fork"
        )
        for batch in batches:
            got.append(batch.tokens.tolist())
            if batch.is_last_micro:
                loader.observe(batch.step, loss=1.0)
                if batch.step == steps + (cursor or {"step": 0})["step"]:
                    break
        cursor = batches.state_dict()
        batches.close()

    assert got == expected
    recorded = [
        frame.step
        for path in run.journals()
        for frame in read_journal(path).frames
        if frame.kind == Kind.DELIVERED
    ]
    assert recorded == list(range(1, len(expected) // 2 + 1))


def test_workers_may_be_spawned(corpus: tuple[Manifest, Plan]) -> None:
    manifest, plan = corpus
    context = multiprocessing.get_context("spawn")
    with ShardLoader(manifest, plan, batch=8) as plain:
        expected = tokens(plain)
    loader = ShardLoader(manifest, plan, batch=8)
    batches = TorchLoader(loader, num_workers=1, multiprocessing_context=context)

    assert tokens(batches) == expected
    assert len(batches) == len(expected)
    batches.close()


def test_options_that_would_regroup_steps_are_refused(corpus: tuple[Manifest, Plan]) -> None:
    manifest, plan = corpus
    with (
        ShardLoader(manifest, plan, batch=8) as loader,
        pytest.raises(UsageError, match="shuffle is decided by the plan"),
    ):
        TorchLoader(loader, shuffle=True)


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_the_bytes_that_all_workers_read_are_counted(corpus: tuple[Manifest, Plan]) -> None:
    manifest, plan = corpus
    read = []
    for workers in (0, 2):
        loader = ShardLoader(manifest, plan, batch=4, threads=0)
        batches = TorchLoader(loader, num_workers=workers, multiprocessing_context="fork")
        assert list(batches)
        read.append(loader.stats.bytes_read)
        batches.close()

    assert read[1] == 2 * read[0] > 0  # each worker reads every window


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_pinned_where_there_is_a_gpu(
    corpus: tuple[Manifest, Plan], monkeypatch: pytest.MonkeyPatch, workers: int, gpu: bool
) -> None:
    manifest, plan = corpus
    with ShardLoader(manifest, plan, batch=8) as plain:
        expected = tokens(plain)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    pinned: list[torch.Tensor] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    loader = ShardLoader(manifest, plan, batch=8, threads=0)
    batches = TorchLoader(loader, num_workers=workers, pin_memory=True)

    assert tokens(batches) == expected
    assert len(pinned) == 2 * len(expected) * gpu
    batches.close()
