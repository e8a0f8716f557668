"""What a plan, a cursor and a schedule take, and what they refuse in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shardward.loader.cursor import Cursor
from shardward.loader.errors import FormatError
from shardward.loader.permutation import Permutation
from shardward.loader.schedule import BatchSchedule

GOOD = Cursor(plan_id="a" * 64, epoch=1, position=7, step=3, piece=2).to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"plan_id": 3},
        {"epoch": -1},
        {"position": "7"},
        {"position": 7.0},
        {"step": True},
        {"piece": "2"},
        {"piece": 0},
        {"mode": "drop"},
        {"revision": 1},
        {"revision_digest": "b" * 64},
        {"surprise": 1},
    ],
    ids=str,
)
def test_a_cursor_with_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="malformed"):
        Cursor.from_json({**GOOD, **change})


@pytest.mark.parametrize("value", [None, "cursor", 3, [GOOD]])
def test_a_cursor_that_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(FormatError, match="not a JSON object"):
        Cursor.from_json(value)


def test_a_cursor_cut_short_names_what_is_missing() -> None:
    with pytest.raises(FormatError, match="position"):
        Cursor.from_json({key: value for key, value in GOOD.items() if key != "position"})


@pytest.mark.parametrize("batch", [8, np.int64(8), [(1, 8)], BatchSchedule(pairs=((1, 8),))])
def test_a_constant_batch_may_be_given_in_several_ways(batch: Any) -> None:
    assert BatchSchedule.of(batch).size_at(5) == 8


@pytest.mark.parametrize("batch", [8.5, "8", [8, 16], [(1, 8.5)], [(1, 8, 9)], None])
def test_what_is_no_batch_is_refused_in_words(batch: Any) -> None:
    with pytest.raises(ValueError, match=r"a number of samples, or \(first step, samples\) pairs"):
        BatchSchedule.of(batch)


@pytest.mark.parametrize("pairs", [(), ((2, 8),), ((1, 8), (1, 9)), ((1, 0),)])
def test_a_schedule_that_says_nothing_for_a_step_is_refused(pairs: Any) -> None:
    with pytest.raises(ValueError, match=r"schedule starts at step 1|at least one sample"):
        BatchSchedule(pairs=pairs)


@pytest.mark.parametrize("size", [5, 1000])
@pytest.mark.parametrize("outside", [-1001, 1000])
def test_an_element_outside_a_permutation_is_refused(size: int, outside: int) -> None:
    with pytest.raises(IndexError):
        Permutation(size, 7).forward(np.array([0, outside], dtype=np.int64))
