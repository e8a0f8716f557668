"""The rows of a log as the observations that they are: one for each loss, in the order of logging.

What a tracker logged in several rows of one step is put together where the rows stand near the row
of the loss, without another loss between them. Where the log is cut into chunks changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cells import Column
from .reader import Chunk

# Rows that what belongs to a loss may be away from it.
NEAR = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Some steps in a row: `steps` int64 [n], the losses float64 [n], and the other signals.

    The rows of a column count from the first of these steps.
    """

    steps: NDArray[np.int64]
    losses: NDArray[np.float64]
    others: Mapping[str, Column]

    def rows(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield (step, {name: value}), without what was not logged."""
        names, columns = ["loss"], [self.losses.tolist()]
        # Names that only some rows have are kept by row: a cell for each would be quadratic.
        some: dict[int, dict[str, float]] = {}
        for name, column in self.others.items():
            if len(column.rows) == len(self.steps):
                names.append(name)
                columns.append(column.values.tolist())
                continue
            for row, value in zip(column.rows.tolist(), column.values.tolist(), strict=True):
                some.setdefault(row, {})[name] = value
        for place, (step, *row) in enumerate(zip(self.steps.tolist(), *columns, strict=True)):
            yield step, {**dict(zip(names, row, strict=True)), **some.get(place, {})}


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
    """Hold back the last loss, which others of its step may follow, and the rows around it.

    The rows before it are in both parts, since some belong to it and some to the loss before.
    """
    steps, count = chunk.steps, len(chunk.steps)
    loss = chunk.columns.get("loss")
    if loss is None:
        return _slice(chunk, 0, 0), _slice(chunk, max(0, count - NEAR), count)
    last = int(loss.rows[-1])
    others = np.flatnonzero(steps[loss.rows] != steps[last])
    place = int(others[-1]) + 1 if len(others) else 0
    first = int(loss.rows[place])
    before = int(loss.rows[place - 1]) + 1 if place else 0
    held = _slice(chunk, max(before, first - NEAR), min(count, last + 1 + NEAR))
    if count > last + 1 + NEAR:
        held = _joined(held, _slice(chunk, max(last + 1 + NEAR, count - NEAR), count))
    return _slice(chunk, 0, first), held


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
    fits_before = (before >= 0) & _fit(rows, losses[np.maximum(before, 0)], steps)
    fits_after = _fit(rows, losses[after], steps)
    return np.where(fits_before, before, np.where(fits_after, after, -1))


def _fit(
    rows: NDArray[np.int64], losses: NDArray[np.int64], steps: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which of `rows` has the step of the row in `losses` beside it, and stands near."""
    near = np.abs(losses - rows) <= NEAR
    return np.asarray(near & (steps[losses] == steps[rows]))


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
