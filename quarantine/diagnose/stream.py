"""The rows of a log as the observations that they are: one for each loss, in the order of logging.

What a tracker logged in several rows of one step is put together where the rows stand next to the
row of the loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cells import Column
from .reader import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Some steps in a row: `steps` int64 [n], the losses float64 [n], and the other signals.

    The rows of a column count from the first of these steps.
    """

    steps: NDArray[np.int64]
    losses: NDArray[np.float64]
    others: Mapping[str, Column]

    def rows(self) -> Iterator[tuple[int, dict[str, float | None]]]:
        """Yield (step, {name: value}), with None for what was not logged."""
        columns = [self.losses.tolist(), *(self._cells(each) for each in self.others.values())]
        names = ["loss", *self.others]
        for step, *row in zip(self.steps.tolist(), *columns, strict=True):
            yield step, dict(zip(names, row, strict=True))

    def _cells(self, column: Column) -> list[float | None]:
        if len(column.rows) == len(self.steps):
            return list(column.values.tolist())
        cells: list[float | None] = [None] * len(self.steps)
        for row, value in zip(column.rows.tolist(), column.values.tolist(), strict=True):
            cells[row] = value
        return cells


def observations(chunks: Iterable[Chunk], *, merge: bool) -> Iterator[Observations]:
    """Yield the observations of a log whose rows are in order.

    With `merge`, neighbouring losses of one step are one, their mean, and so are other signals.
    """
    held: Chunk | None = None
    for chunk in chunks:
        whole = chunk if held is None else _joined(held, chunk)
        ready, held = _cut(whole)
        if "loss" in ready.columns:
            yield _gathered(ready, merge)
    if held is not None and "loss" in held.columns:
        yield _gathered(held, merge)


def _cut(chunk: Chunk) -> tuple[Chunk, Chunk]:
    """Hold back the last rows of one step: more of them may follow."""
    steps, first = chunk.steps, len(chunk.steps) - 1
    loss = chunk.columns.get("loss")
    if loss is not None and steps[loss.rows[-1]] == steps[-1]:
        others = np.flatnonzero(steps[loss.rows] != steps[-1])
        first = int(loss.rows[others[-1] + 1 if len(others) else 0])
    others = np.flatnonzero(steps[:first] != steps[-1])
    first = int(others[-1]) + 1 if len(others) else 0
    return _slice(chunk, 0, first), _slice(chunk, first, len(steps))


def _slice(chunk: Chunk, first: int, end: int) -> Chunk:
    columns = {}
    for name, column in chunk.columns.items():
        low, high = np.searchsorted(column.rows, [first, end])
        if low < high:
            columns[name] = Column(
                rows=column.rows[low:high] - first, values=column.values[low:high]
            )
    return Chunk(steps=chunk.steps[first:end], columns=columns)


def _joined(one: Chunk, other: Chunk) -> Chunk:
    columns = dict(one.columns)
    for name, column in other.columns.items():
        before = columns.get(name, Column(rows=np.empty(0, np.int64), values=np.empty(0)))
        columns[name] = Column(
            rows=np.concatenate([before.rows, column.rows + len(one.steps)]),
            values=np.concatenate([before.values, column.values]),
        )
    return Chunk(steps=np.concatenate([one.steps, other.steps]), columns=columns)


def _gathered(chunk: Chunk, merge: bool) -> Observations:
    loss = chunk.columns["loss"]
    steps = chunk.steps[loss.rows]
    groups = np.arange(len(steps))
    if merge:
        groups = np.cumsum(np.diff(steps, prepend=steps[:1]) != 0)
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    others = {}
    for name, column in chunk.columns.items():
        if name != "loss":
            near = _nearest(column.rows, chunk.steps, loss.rows)
            places = np.flatnonzero(near >= 0)
            places = places[np.argsort(near[places], kind="stable")]
            found = Column(rows=groups[near[places]], values=column.values[places])
            others[name] = _means(found) if merge else _latest(found)
    whole = _means(Column(rows=groups, values=loss.values)) if merge else loss
    return Observations(steps=steps[first], losses=whole.values, others=others)


def _nearest(
    rows: NDArray[np.int64], steps: NDArray[np.int64], losses: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each of `rows` which of the rows `losses` next to it has its step, or -1."""
    if len(rows) == len(losses) and np.array_equal(rows, losses):
        return np.arange(len(losses))
    before = np.searchsorted(losses, rows, side="right") - 1
    after = np.minimum(before + 1, len(losses) - 1)
    fits_before = (before >= 0) & (steps[losses[np.maximum(before, 0)]] == steps[rows])
    fits_after = steps[losses[after]] == steps[rows]
    return np.where(fits_before, before, np.where(fits_after, after, -1))


def _latest(column: Column) -> Column:
    last = np.flatnonzero(np.diff(column.rows, append=-1))
    return Column(rows=column.rows[last], values=column.values[last])


def _means(column: Column) -> Column:
    """Return one value for each group of rows, their mean (NaN if one is)."""
    first = np.flatnonzero(np.diff(column.rows, prepend=-1))
    if len(first) == len(column.rows):
        return column
    counts = np.diff(first, append=len(column.rows))
    with np.errstate(invalid="ignore", over="ignore"):
        values = np.add.reduceat(column.values, first) / counts
    return Column(rows=column.rows[first], values=values)
