"""One decision for all ranks."""

from __future__ import annotations

import math
from itertools import permutations

import pytest

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
