"""Rows of a log as observations, wherever its blocks end."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.quarantine.diagnose import stream
from shardward.quarantine.diagnose.cells import Column
from shardward.quarantine.diagnose.logfile import LogFile
from shardward.quarantine.diagnose.reader import Chunk, LogReader
from shardward.quarantine.diagnose.stream import observations

Row = tuple[int, str]


def chunk(rows: list[tuple[int, Row]]) -> Chunk:
    """Return rows of (place in the log, (step, name)); the value of a cell is its place."""
    columns = {}
    for name in {name for _, (_, name) in rows}:
        here = [(at, place) for at, (place, (_, known)) in enumerate(rows) if known == name]
        places, values = zip(*here, strict=True)
        columns[name] = Column(rows=np.array(places), values=np.array(values, np.float64))
    return Chunk(steps=np.array([step for _, (step, _) in rows], np.int64), columns=columns)


def found(chunks: Iterable[Chunk], merge: bool) -> list[tuple[int, dict[str, float]]]:
    return [
        (step, {name: value for name, value in values.items() if value is not None})
        for part in observations(chunks, merge=merge)
        for step, values in part.rows()
    ]


def cut(rows: list[Row], ends: Iterable[int]) -> list[Chunk]:
    numbered = list(enumerate(rows))
    edges = [0, *sorted({end for end in ends if 0 < end < len(rows)}), len(rows)]
    return [chunk(numbered[a:b]) for a, b in pairwise(edges)]


def test_losses_of_one_step_are_one_though_a_block_ends_between_them() -> None:
    rows = [(1, "loss"), (5, "loss"), (6, "lr"), (5, "loss"), (6, "loss"), (6, "norm"), (5, "lr")]

    for end in range(1, len(rows)):
        assert found(cut(rows, [end]), True) == [
            (1, {"loss": 0}),
            (5, {"loss": 2}),
            (6, {"loss": 4, "norm": 5}),
        ]


def test_what_stands_far_from_every_loss_belongs_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "NEAR", 3)
    rows = [(1, "loss"), *[(2, "gpu")] * 9, (1, "lr"), (2, "norm"), (2, "loss")]

    for size in (1, 2, 5, len(rows)):
        (first, second) = found(cut(rows, range(0, len(rows), size)), False)
        assert first == (1, {"loss": 0})
        assert second == (2, {"loss": 12, "norm": 11, "gpu": 9})


def test_names_that_few_rows_have_cost_only_those_rows() -> None:
    rows = [(step, name) for step in range(400) for name in ("loss", f"m{step}")]
    part, *_ = observations([chunk(list(enumerate(rows)))], merge=False)

    assert all(len(values) == 2 for _, values in part.rows())


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["loss", "lr", "norm"])), max_size=30),
    st.sets(st.integers(1, 29)),
    st.booleans(),
)
def test_it_does_not_matter_where_blocks_end(rows: list[Row], ends: set[int], merge: bool) -> None:
    near, stream.NEAR = stream.NEAR, 4
    try:
        pieces = found(cut(rows, ends), merge) if rows else []
        whole = found(cut(rows, []), merge) if rows else []
    finally:
        stream.NEAR = near

    # Without merging, neighbouring losses of one step do not occur.
    steps = [step for step, name in rows if name == "loss"]
    if merge or all(one != other for one, other in pairwise(steps)):
        assert pieces == whole
    assert len(whole) == (len(steps) if not merge else sum(np.diff(steps, prepend=-1) != 0))


def test_a_log_of_many_columns_is_read_in_blocks_of_many_rows(tmp_path: Path) -> None:
    names = ["step", "loss", *(f"norm/{place}" for place in range(1022))]
    path = tmp_path / "log.csv"
    rows = [",".join([str(step), "2", *["0.125"] * 1022]) for step in range(1, 301)]
    path.write_text("\n".join([",".join(names), *rows]) + "\n", encoding="utf-8")
    with LogFile(path) as file:
        reader = LogReader(file, {})
        once, again = ([len(part.steps) for part in reader.chunks()] for _ in range(2))

    assert sum(once) == sum(again) == 300
    assert len(once) <= 3
