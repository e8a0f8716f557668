"""Transforms get one seed per sample, whatever the world size, and leave the record alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_loader import arrow_corpus

from shardward.loader import Batch, Plan, Run, ShardLoader, ShardwardError, Topology
from shardward.loader.arrays import Int64Array, UInt64Array
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.permutation import derive_key
from shardward.loader.records import delivered
from shardward.loader.sample_seed import sample_seeds
from shardward.loader.torch import TorchLoader

BLOCKS = [[f"block {b} text {t} " * 2 for t in range(8)] for b in range(4)]


def drop_tokens(batch: Batch, seeds: UInt64Array) -> Batch:
    """Replace a tenth of each row by the pad token, chosen by the row's seed."""
    tokens = batch.tokens.copy()
    for row, seed in enumerate(seeds.tolist()):
        tokens[row, np.random.default_rng(seed).random(tokens.shape[1]) < 0.1] = 257
    return replace(batch, tokens=tokens)


def test_the_vector_of_seeds_is_the_key_of_each_position() -> None:
    plan = Plan(fingerprint="f" * 64, seed=7, seq_len=8, separator=256, pad=257)
    positions: Int64Array = np.array([0, 1, 5, 2**40, -1])

    assert sample_seeds(plan, 3, positions).tolist() == [
        derive_key(7, 4, 3, position) for position in positions.tolist()
    ]


def test_a_sample_is_transformed_alike_at_any_world_size_and_the_digest_is_of_the_original(
    tmp_path: Path,
) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    plan = manifest.plan(seed=5, seq_len=16)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with ShardLoader(manifest, plan, batch=6, run=run, transform=drop_tokens) as whole:
        rows = {
            int(p): row.tolist()
            for b in whole
            for p, row in zip(b.positions, b.tokens, strict=True)
        }
    with ShardLoader(manifest, plan, batch=6) as plain:
        digests = [step.digest for step in plain.source.steps(plain.place)]
    for rank in range(3):
        topology = Topology(dp_rank=rank, dp_size=3)
        with ShardLoader(
            manifest, plan, batch=6, topology=topology, micros=2, transform=drop_tokens
        ) as part:
            for batch in part:
                for position, row in zip(batch.positions, batch.tokens, strict=True):
                    assert row.tolist() == rows[int(position)]
    frames = read_journal(run.journals()[0]).frames

    assert [delivered(f).digest for f in frames if f.kind == Kind.DELIVERED] == digests
    assert any(257 in row for row in rows.values())


def error_of(batches: Any, given: list[tuple[int, int]]) -> BaseException:
    """Take batches until an error comes, and return it."""
    try:
        while True:
            batch = next(batches)
            given.append((batch.step, getattr(batch, "batch", batch).micro))
    except BaseException as error:  # an interrupt is one of the errors to see
        return error


@pytest.mark.parametrize("wrong", ["raises", "returns nothing", "is interrupted"])
@pytest.mark.parametrize("torch", [False, True])
def test_a_transform_that_fails_names_the_step_and_nothing_is_handed_out_after_it(
    tmp_path: Path, wrong: str, torch: bool
) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    plan = manifest.plan(seed=5, seq_len=16)
    given: list[tuple[int, int]] = []

    def transform(batch: Batch, seeds: UInt64Array) -> Batch:
        if (batch.step, batch.micro) == (2, 1):
            if wrong == "raises":
                raise KeyError("no such language")
            if wrong == "is interrupted":
                raise KeyboardInterrupt
            return None  # type: ignore[return-value]
        return batch

    with ShardLoader(manifest, plan, batch=6, micros=3, transform=transform) as loader:
        batches = TorchLoader(loader) if torch else loader
        errors = [error_of(batches, given) for _ in range(3)]

    words = {"raises": "no such language", "returns nothing": "NoneType, not a Batch"}
    if wrong == "is interrupted":
        assert isinstance(errors.pop(0), KeyboardInterrupt)
    for error in errors:
        message = str(error)
        assert isinstance(error, ShardwardError)
        assert "failed at step 2, micro-batch 2 of 3, on the samples at positions" in message
        assert words.get(wrong, "KeyboardInterrupt") in message
    assert given == [(1, 0), (1, 1), (1, 2), (2, 0)]


def test_the_step_of_a_failed_transform_is_neither_reported_nor_kept(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    plan = manifest.plan(seed=5, seq_len=16)

    def transform(batch: Batch, seeds: UInt64Array) -> Batch:
        if batch.step == 2:
            raise KeyError("no such language")
        return batch

    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with ShardLoader(manifest, plan, batch=6, run=run, transform=transform) as loader:
        error_of(loader, [])
        with pytest.raises(ShardwardError, match="failed at step 2"):
            loader.observe(2, loss=1.0)
        with pytest.raises(ShardwardError, match="failed at step 2"):
            loader.checkpoint(2, "a")
        loader.observe(1, loss=1.0)
        assert loader.checkpoint(1, "b")["step"] == 1
        assert loader.state_dict()["step"] == 1
