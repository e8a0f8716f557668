"""Memory that goes round, never while anything refers to it, and what waiting steps are charged."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers_loader import arrow_corpus
from numpy.typing import NDArray

from shardward.loader import Run, ShardLoader
from shardward.loader.buffers import SMALLEST, SPARE, Buffers


def address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_that_nothing_refers_to_is_used_again() -> None:
    buffers = Buffers()
    first = buffers.empty((4, SMALLEST), np.uint16)
    where = address(first)
    del first

    assert address(buffers.empty((4, SMALLEST), np.uint16)) == where


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[1:2, 5:6],
        lambda array: array.reshape(-1).view(np.uint8),
        memoryview,
        lambda array: pa.py_buffer(array).slice(3, 1),
        lambda array: array.T[3].base,
    ],
)
def test_memory_that_any_view_refers_to_is_left_alone(view: Callable[[Any], Any]) -> None:
    buffers = Buffers()
    first = buffers.empty((4, SMALLEST), np.uint16)
    where, kept = address(first), view(first)
    del first

    others = [buffers.empty((4, SMALLEST), np.uint16) for _ in range(3)]

    assert where not in [address(other) for other in others]
    assert kept is not None


def test_arrays_in_use_share_no_memory() -> None:
    buffers = Buffers()
    kept = [buffers.empty((SMALLEST + size,), np.uint8) for size in range(20)]
    for number, array in enumerate(kept):
        array.fill(number)

    assert [set(array.tolist()) for array in kept] == [{number} for number in range(20)]


def test_memory_of_a_crowd_is_given_back_when_the_crowd_has_left() -> None:
    buffers = Buffers()
    crowd = [buffers.empty((SMALLEST,), np.uint8) for _ in range(50)]
    crowd.clear()

    for _ in range(3):
        kept = buffers.empty((SMALLEST,), np.uint8)

    assert kept.size == SMALLEST
    assert len(buffers) <= 2 + SPARE


@pytest.mark.parametrize("micros", [1, 4])
def test_a_waiting_step_is_charged_what_it_takes(tmp_path: Path, micros: int) -> None:
    manifest = arrow_corpus(tmp_path, [["some text", "and more of it"] * 400])
    plan = manifest.plan(seed=1, seq_len=4)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with ShardLoader(manifest, plan, run=run, batch=8, micros=micros, threads=0) as loader:
        steps = loader.source.steps(loader.place)
        next(steps)
        tracemalloc.start()
        waiting = [next(steps) for _ in range(300)]
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    charged = sum(step.nbytes for step in waiting)
    assert 0.8 * taken < charged < 1.6 * taken
