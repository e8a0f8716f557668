"""One decision for all ranks."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from helpers_loader import arrow_corpus

from shardward.loader import Run, ShardLoader
from shardward.loader.errors import UsageError
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.run_signals import reduce_signals


def test_S10_a_nan_on_one_rank_is_one_decision_everywhere() -> None:
    ranks = [{"loss": 2.0, "grad_norm": 1.0}] * 3 + [{"loss": math.nan, "grad_norm": 1.0}]
    found = reduce_signals(ranks)

    assert math.isnan(found["loss"])
    assert (found["grad_norm"], found["nonfinite_ranks"]) == (1.0, 1.0)


def test_the_mean_is_weighted_and_does_not_depend_on_the_order_of_summing() -> None:
    ranks = [({"loss": 0.1}, 3.0), ({"loss": 1e9}, 1.0), ({"loss": -1e9}, 1.0)]
    found = {
        reduce_signals([s for s, _ in order], weights=[w for _, w in order])["loss"]
        for order in permutations(ranks)
    }

    assert found == {0.1 * 3 / 5}


def test_a_signal_of_some_ranks_is_the_mean_of_those() -> None:
    assert reduce_signals([{"a": 1.0}, {"b": 4.0}, {"a": 3.0}]) == {
        "a": 2.0, "b": 4.0, "nonfinite_ranks": 0.0,
    }  # fmt: skip


def test_a_rank_without_tokens_does_not_divide_by_nothing() -> None:
    assert reduce_signals([{"loss": 2.0}], weights=[0.0])["loss"] == 2.0


def test_weights_must_fit_the_ranks() -> None:
    with pytest.raises(ValueError, match="2 weights were given for 1 ranks"):
        reduce_signals([{"loss": 2.0}], weights=[1.0, 2.0])


def test_a_name_that_cannot_be_written_is_refused_before_anything_is_recorded(
    tmp_path: Path,
) -> None:
    manifest = arrow_corpus(tmp_path, [["some text"] * 8])
    plan = manifest.plan(seed=1, seq_len=8)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    odd: Any = {"loss\ud800": 1.0}
    with ShardLoader(manifest, plan, batch=2, run=run) as loader:
        next(loader)
        with pytest.raises(UsageError, match="a name that cannot be written"):
            loader.observe(1, **odd)
    kinds = [frame.kind for frame in read_journal(run.journals()[0]).frames]

    assert Kind.DELIVERED in kinds
    assert not {Kind.COMPLETED, Kind.TELEMETRY} & set(kinds)
