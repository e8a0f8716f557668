"""Twelve known faults, one seed each: is the cause that is named the one that was injected?

`benchmarks/monitor/faults.py` does the same with more seeds.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import pytest
import torch
from helpers_tree import ROOT

FAULTS = (
    "attention",
    "bitflip",
    "epsilon",
    "junk",
    "loader",
    "mixture",
    "moments",
    "output",
    "overflow",
    "rate",
    "repetition",
    "scaled",
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "monitor"))
    return import_module("faults")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_cause_of_an_injected_fault_is_named(bench: Any, fault: str) -> None:
    threads = torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers = bench.answer((fault, 1))
    torch.set_num_threads(threads)

    for matrix, (named, shown) in answers.items():
        assert named in (bench.TRUTH[fault], "unknown"), (matrix, shown)
    assert answers["documents"][0] == bench.TRUTH[fault]
    if bench.TRUTH[fault] != "bad_data":
        assert "bad_data" not in [named for named, _ in answers.values()]
