"""Cells of a log as numbers: the one place that says what counts as a number, a gap or a step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...loader.errors import FormatError
from .rows import LARGEST_STEP, MISSING, Some

# Below this every whole number is a double of its own.
EXACT = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The numbers of one column in a block: `values` float64 [k] of the rows `rows` int64 [k]."""

    rows: NDArray[np.int64]
    values: NDArray[np.float64]


def numbers_of(cells: list[Any] | Some | pa.Array) -> tuple[Column, int | None]:
    """Return the numbers among `cells`, and the row of the first cell that is none."""
    if isinstance(cells, Some):
        column, fault = numbers_of(cells.cells)
        rows = np.array(cells.places, np.int64)[column.rows]
        return replace(column, rows=rows), None if fault is None else cells.places[fault]
    if isinstance(cells, pa.Array):
        rows = np.flatnonzero(cells.is_valid().to_numpy(zero_copy_only=False))
        values = cells.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        return Column(rows=rows, values=values), None
    if set(map(type, cells)) <= {int, float}:
        try:
            return Column(rows=np.arange(len(cells)), values=np.array(cells, np.float64)), None
        except OverflowError:
            pass
    places, found = [], []
    for place, cell in enumerate(cells):
        if is_missing(cell):
            continue
        value = number(cell)
        if value is None:
            return Column(rows=np.empty(0, np.int64), values=np.empty(0)), place
        places.append(place)
        found.append(value)
    return Column(rows=np.array(places, np.int64), values=np.array(found, np.float64)), None


class Steps:
    """The steps of a block's rows; a row without one is refused only if it is asked for."""

    def __init__(self, cells: list[Any] | pa.Array) -> None:
        self._cells = cells
        self._good = isinstance(cells, pa.Array)
        if isinstance(cells, pa.Array):
            self.values = cells.to_numpy()
            return
        self.values = np.zeros(len(cells), np.int64)
        if set(map(type, cells)) == {int} and 0 <= min(cells) <= max(cells) < LARGEST_STEP:
            self.values[:] = cells
            self._good = True
            return
        self._faulty = np.zeros(len(cells), np.bool_)
        for place, cell in enumerate(cells):
            step = _step(cell)
            if step is None or not 0 <= step < LARGEST_STEP:
                self._faulty[place] = True
            else:
                self.values[place] = step

    def fault(self, rows: NDArray[np.int64]) -> int | None:
        """Return the first of `rows` that has no step, None if all have one."""
        if self._good or not len(rows):
            return None
        faulty = rows[self._faulty[rows]]
        return int(faulty[0]) if len(faulty) else None

    def refusal(self, row: int, number_of: int, column: str, path: object) -> FormatError:
        """Return what is wrong with the step in `row`, which is row `number_of` of the file."""
        cell = self._cells[row]
        value = number(cell)
        if value is None or not math.isfinite(value) or value != int(value):
            return FormatError(
                f"{path} row {number_of} has {quoted(cell)} as {column}, not a whole step number"
            )
        if EXACT <= value < LARGEST_STEP:
            return FormatError(
                f"{path} row {number_of} has step {quoted(cell)}, which is no exact number; write "
                "it as digits"
            )
        return FormatError(f"{path} row {number_of} has step {value:g}, which is out of range")


def _step(cell: object) -> int | None:
    """Return `cell` as a step, None if it is no whole number, or one that may have been rounded."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return cell
    value = number(cell)
    if value is None or not math.isfinite(value) or value != int(value):
        return None
    if abs(value) < EXACT:
        return int(value)
    try:
        return int(cell) if isinstance(cell, str) else None
    except ValueError:
        return None


def is_missing(cell: object) -> bool:
    """Whether `cell` is a gap."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def number(cell: object) -> float | None:
    """Return `cell` as a number, None if it is none."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        # float() takes "1_000", which no tracker writes on purpose.
        return None if isinstance(cell, str) and "_" in cell else float(cell)
    except (ValueError, OverflowError):
        return None


def quoted(cell: object) -> str:
    """Return `cell` for a message, not too long."""
    text = repr(cell)
    return text if len(text) <= 40 else text[:37] + "..."
