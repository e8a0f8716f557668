"""Memory that goes round: never while anything refers to it, and not more than is in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

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
