"""A log as chunks of numbers under the names that the monitor knows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...loader.errors import FormatError
from .cells import Column, Steps, numbers_of, quoted
from .columns import canonical_names, is_bookkeeping, renamed
from .logfile import LogFile
from .rows import Block, CsvRows, JsonRows, Objects, Rows, Some, delimiter
from .tensorboard import is_event_file, read_scalars

# A pretty-printed trainer_state.json is one object and is held as a whole; no larger file is.
LARGEST_OBJECT = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some rows of a log: `steps` int64 [n], and the numbers of each named signal."""

    steps: NDArray[np.int64]
    columns: Mapping[str, Column]


class LogReader:
    """Reads the chunks of one log, as often as they are asked for.

    Step and loss are found among the columns up to the first block that has both; what stands
    before it is passed over. A column that holds something other than numbers is left out
    altogether: those who read once have to drop what they have of `left_out`, those who read again
    never see it.

    Args:
        log: The open log: CSV (or TSV), JSON lines, trainer_state.json or a TensorBoard event file.
        chosen: The column to take for a name, where the usual names do not find it.
        needs: The signal that it is read for.

    Raises:
        FormatError: the log cannot be used; the message names file and row.
    """

    def __init__(self, log: LogFile, chosen: Mapping[str, str], *, needs: str = "loss") -> None:
        self._log, self._chosen, self._needs = log, dict(chosen), needs
        self.path: Path = log.path
        self._rows: Rows = _rows(log)
        self._columns: dict[str, str] = {}
        self._left_out: dict[str, str] = {}
        self._seen: dict[str, None] = {}
        self._first: int | None = None
        self._passed = 0

    @property
    def is_streamed(self) -> bool:
        """Whether the log is read in blocks; formats that are one object are held instead."""
        return not isinstance(self._rows, Objects)

    @property
    def size(self) -> int:
        """The bytes of the log."""
        return self._log.size

    def passed(self) -> int:
        """Return how many bytes were read since it was last asked."""
        passed, self._passed = self._log.position - self._passed, self._log.position
        return passed

    @property
    def skipped(self) -> tuple[str, ...]:
        """What was left out so far, in words."""
        words = (f"column {column!r} is not numeric" for column in self._left_out)
        return (*self._rows.skipped, *words)

    @property
    def left_out(self) -> frozenset[str]:
        """The signals left out so far, by name."""
        return frozenset(self._left_out.values())

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows of the log."""
        empty = True
        blocks = self._rows.blocks(partial(self._column, "step"), self._left_out)
        for place, block in enumerate(blocks):
            self._take_columns(list(block.columns), len(block.numbers))
            if len(block.numbers):
                if self._columns and self._first is None:
                    self._first = 0 if empty else place
                empty = False
                # Who reads again, and knows the columns, is given the same blocks.
                if self._first is not None and place >= self._first:
                    yield self._chunk(block)
        if empty:
            raise FormatError(f"{self.path} holds no rows; a log has a header and at least one row")
        if not self._columns:
            self._refuse_columns(list(self._seen))

    def refuse_without(self, values: int) -> None:
        """Refuse a log that has no values of the signal that it is read for."""
        if not values:
            raise FormatError(
                f"{self.path} logs no {self._needs} at all in its column "
                f"{self._column(self._needs)!r}"
            )

    def _column(self, name: str) -> str | None:
        return next((column for column, known in self._columns.items() if known == name), None)

    def _take_columns(self, columns: list[str], rows: int) -> None:
        fresh = [column for column in columns if column not in self._columns]
        if self._columns and fresh:
            known = {name: column for column, name in self._columns.items()}
            self._columns = canonical_names([*self._columns, *fresh], known)
        if self._columns or not rows:
            return
        # Rows before the first loss may be of another kind; nothing of them can be judged.
        self._seen |= dict.fromkeys(columns)
        if self._missing(self._seen) is None:
            self._refuse_columns(list(self._seen))
            self._columns = canonical_names(self._seen, self._chosen)

    def _missing(self, columns: Iterable[str]) -> str | None:
        """Return which of step and signal is not among `columns`, None where both are."""
        known = set(canonical_names(columns, self._chosen).values())
        return next((name for name in ("step", self._needs) if name not in known), None)

    def _refuse_columns(self, columns: list[str]) -> None:
        """Refuse a log whose `columns` lack one that was chosen, a step or the signal."""
        for name, column in self._chosen.items():
            if column not in columns:
                raise FormatError(
                    f"{self.path} has no column {column!r} for {name}; it has {_listed(columns)}"
                )
        missing = self._missing(columns)
        if missing is not None:
            options = self._needs == "loss"  # what is read for another signal has none
            remedy = f"name it with --{missing} COLUMN" if options else f"call it {missing!r}"
            raise FormatError(
                f"{self.path} has no column for {missing}; it has {_listed(columns)}; {remedy}"
            )

    def _chunk(self, block: Block) -> Chunk:
        step_column = self._column("step")
        assert step_column is not None
        steps = Steps(_of_every_row(block, step_column))
        found = {}
        for column, written in block.columns.items():
            if column == step_column or column in self._left_out:
                continue
            name = self._columns[column]
            if name in (column, renamed(column)) and is_bookkeeping(column):
                continue
            numbers, fault = numbers_of(written)
            if fault is not None and name == self._needs:
                raise FormatError(
                    f"{self.path} row {block.numbers[fault]} has "
                    f"{quoted(_of_every_row(block, column)[fault])} as "
                    f"{column}, not a number"
                )
            if fault is not None:
                self._left_out[column] = name
                continue
            wrong = steps.fault(numbers.rows)
            if wrong is not None:
                raise steps.refusal(wrong, block.numbers[wrong], step_column, self.path)
            if len(numbers.rows):
                found[name] = numbers
        return Chunk(steps=steps.values, columns=found)


def _of_every_row(block: Block, column: str) -> list[Any] | pa.Array:
    """Return what was written in `column` in every row of the block, None for a gap."""
    written = block.columns.get(column, Some(places=[], cells=[]))
    if not isinstance(written, Some):
        return written
    cells: list[Any] = [None] * len(block.numbers)
    for place, cell in zip(written.places, written.cells, strict=True):
        cells[place] = cell
    return cells


def _rows(log: LogFile) -> Rows:
    if is_event_file(log.path, log.start()[:16]) and log.size:
        return Objects(*read_scalars(log.path, log.read_all()))
    head = next((lines.data for lines in log.blocks() if not lines.data.isspace()), b"")
    if not head:
        raise FormatError(f"{log.path} is empty; a log has a header and at least one row")
    first = head.lstrip()
    if first[:1] == b"[":
        raise FormatError(f"{log.path} is a JSON array; write one JSON object a line")
    if first[:1] != b"{":
        header = next(line for line in head.split(b"\n") if line.strip())
        return CsvRows(log, delimiter(header.decode()))
    return _trainer_state(log, first) or JsonRows(log)


def _trainer_state(log: LogFile, first: bytes) -> Rows | None:
    """Return the rows of a trainer_state.json, None where each line is an object of its own."""
    line, _, more = first.partition(b"\n")
    whole = _object(line)
    if whole is None and more and log.size <= LARGEST_OBJECT:
        whole = _object(log.read_all().decode("utf-8-sig"))
    if whole is None or "log_history" not in whole:
        return None
    history = whole["log_history"]
    if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
        raise FormatError(f"{log.path} has a log_history that is not a list of objects")
    return Objects(history, [])


def _object(text: str | bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _listed(columns: list[str]) -> str:
    shown = [quoted(column) for column in columns[:12]]
    return ", ".join(shown) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
