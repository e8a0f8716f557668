"""Logged signals as series: the edge where files are read.

CSV (with a header), JSON lines, Hugging Face `trainer_state.json` and TensorBoard event files
are told apart by their content, not by their name. A cell that is empty is a gap; a logged NaN
is kept, since in the loss it is an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...loader.errors import FormatError
from .logfile import LogFile
from .order import in_order
from .reader import LogReader
from .series import Series

# What a log may hold in memory, in numbers: a gigabyte or two.
MOST_HELD = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The series of one log, and in words what of it was left out and what was put in order."""

    series: dict[str, Series]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_series(path: Path | str, *, columns: Mapping[str, str] | None = None) -> dict[str, Series]:
    """Return the series of the log at `path`, by name; see `read_log`."""
    return read_log(path, columns=columns).series


def read_log(path: Path | str, *, columns: Mapping[str, str] | None = None) -> Log:
    """Read the log at `path`, its rows in the order of their steps; see `order.in_order`.

    Args:
        path: A CSV file, JSON lines, a Hugging Face `trainer_state.json` or a TensorBoard
            event file.
        columns: The column to take for a name ("step", "loss", "grad_norm", ...) where the
            usual names do not find it.

    Raises:
        NotFound: there is no such file.
        FormatError: the file is empty, not text, lacks a column or holds a cell that is not a
            number; the message names file and row.
    """
    with LogFile(Path(path)) as log:
        return held(LogReader(log, columns or {}))


def read_signal(path: Path | str, name: str) -> Series:
    """Return one signal of the log at `path`, which needs no loss, its rows as they stand.

    Raises:
        NotFound, FormatError: as `read_log`, or the signal is not logged at all.
    """
    with LogFile(Path(path)) as log:
        reader = LogReader(log, {}, needs=name)
        parts = [
            Series(name=name, steps=chunk.steps[column.rows], values=column.values)
            for chunk in reader.chunks()
            if (column := chunk.columns.get(name)) is not None
        ]
    reader.refuse_without(sum(map(len, parts)))
    return _joined(parts)


def held(reader: LogReader) -> Log:
    """Return the whole log of `reader`, its rows in the order of their steps.

    Raises:
        FormatError: as `read_log`, or the log is too long to be held.
    """
    parts: dict[str, list[Series]] = {}
    count = 0
    for chunk in reader.chunks():
        for name in reader.left_out & parts.keys():
            del parts[name]
        for name, column in chunk.columns.items():
            part = Series(name=name, steps=chunk.steps[column.rows], values=column.values)
            parts.setdefault(name, []).append(part)
            count += len(part)
        if count > MOST_HELD:
            raise FormatError(
                f"{reader.path} holds over {MOST_HELD} numbers, too many to be sorted or compared "
                "here; sort its rows by step first, or keep only the columns that matter"
            )
    series = {name: _joined(found) for name, found in parts.items() if name not in reader.left_out}
    reader.refuse_without(len(series.get("loss", ())))
    ordered, notes = in_order(series, reader.path)
    return Log(series=ordered, skipped=reader.skipped, notes=notes)


def _joined(parts: list[Series]) -> Series:
    return Series(
        name=parts[0].name,
        steps=np.concatenate([part.steps for part in parts]),
        values=np.concatenate([part.values for part in parts]),
    )
