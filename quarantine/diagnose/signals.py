"""Logged signals as series: the edge where files are read.

CSV (with a header), JSON lines, Hugging Face `trainer_state.json` and TensorBoard event files
are told apart by their content, not by their name. A cell that is empty is a gap; a logged NaN
is kept, since in the loss it is an event.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...loader.errors import FormatError, NotFound
from .bulk import read_regular_csv
from .columns import canonical_names
from .order import in_order
from .series import Series
from .tensorboard import is_event_file, read_scalars

MISSING = frozenset({"", "none", "null", "na", "n/a", "-"})
LARGEST_STEP = 2**62
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The series of one log, and in words what of it was left out and what was put in order."""

    series: dict[str, Series]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    number: int
    cells: Mapping[str, Any]


# The rows of a log, as often as they are asked for: a long log is never held as objects.
Rows = Callable[[], Iterator[_Row]]


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
    path, chosen = Path(path), dict(columns or {})
    log = _read(path, chosen)
    series, notes = in_order(log.series, path)
    return Log(series=series, skipped=log.skipped, notes=notes)


def _read(path: Path, chosen: dict[str, str]) -> Log:
    if path.is_file():
        regular = read_regular_csv(path, chosen)
        if regular is not None:
            return Log(series=regular)
    data = _read_bytes(path)
    if data and is_event_file(path, data[:16]):
        scalars, skipped = read_scalars(path, data)
        rows: Rows = partial(_numbered, scalars)
    else:
        rows, skipped = _rows(_text(data, path), path)
    return _collect(rows, chosen, path, skipped)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{path} does not exist; give the path of a training log") from None
    except IsADirectoryError:
        raise FormatError(f"{path} is a directory; give one log file") from None
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror})") from error


def _text(data: bytes, path: Path) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} is not UTF-8 text (byte {error.start}); convert it, for example with iconv"
        ) from error
    if "\0" in text:
        raise FormatError(f"{path} holds NUL bytes, so it is not a text log; export it as CSV")
    if not text.strip():
        raise FormatError(f"{path} is empty; a log has a header and at least one row")
    return text


def _numbered(rows: Sequence[Mapping[str, Any]]) -> Iterator[_Row]:
    return (_Row(number=index, cells=cells) for index, cells in enumerate(rows, start=1))


def _rows(text: str, path: Path) -> tuple[Rows, list[str]]:
    start = text.lstrip()[:1]
    if start == "[":
        raise FormatError(f"{path} is a JSON array; write one JSON object a line")
    if start != "{":
        return _csv_rows(text, path)
    whole = _whole_object(text)
    if whole is not None and "log_history" in whole:
        return _trainer_state_rows(whole, path)
    return _json_rows(text, path)


def _whole_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _trainer_state_rows(state: dict[str, Any], path: Path) -> tuple[Rows, list[str]]:
    history = state["log_history"]
    if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
        raise FormatError(f"{path} has a log_history that is not a list of objects")
    return partial(_numbered, history), []


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (number, line, whether it is the last) without a list of them all."""
    start, number = 0, 1
    while (end := text.find("\n", start)) >= 0:
        yield number, text[start:end], False
        start, number = end + 1, number + 1
    yield number, text[start:], True


def _json_rows(text: str, path: Path) -> tuple[Rows, list[str]]:
    skipped: list[str] = []
    return partial(_json_objects, text, path, skipped), skipped


def _json_objects(text: str, path: Path, skipped: list[str]) -> Iterator[_Row]:
    for number, line, last in _lines(text):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            if last:
                skipped[:] = [f"row {number} is cut off"]
                break
            raise FormatError(f"{path} row {number} is not JSON ({error}); mend the row") from error
        if not isinstance(value, dict):
            raise FormatError(
                f"{path} row {number} is a JSON {type(value).__name__}, not an object of signals"
            )
        yield _Row(number=number, cells=value)


def _csv_rows(text: str, path: Path) -> tuple[Rows, list[str]]:
    reader = csv.reader(text.splitlines(), strict=True)
    rows: list[_Row] = []
    skipped: list[str] = []
    try:
        header = [name.strip() for name in next(reader)]
        _check_header(header, path)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                if text.endswith("\n") or next(reader, None) is not None:
                    raise FormatError(
                        f"{path} row {reader.line_num} has {len(cells)} cells, the header has "
                        f"{len(header)}; mend the row"
                    )
                skipped.append(f"row {reader.line_num} is cut off")
                break
            rows.append(_Row(number=reader.line_num, cells=dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        raise FormatError(f"{path} row {reader.line_num} is not CSV ({error})") from error
    return partial(iter, rows), skipped


def _check_header(header: list[str], path: Path) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise FormatError(f"{path} has two columns named {twice[0]!r}; rename one of them")


def _column_names(rows: Rows, chosen: dict[str, str], path: Path) -> dict[str, str]:
    columns = list(dict.fromkeys(name for row in rows() for name in row.cells))
    if next(rows(), None) is None:
        raise FormatError(f"{path} holds no rows; a log has a header and at least one row")
    for name, column in chosen.items():
        if column not in columns:
            raise FormatError(
                f"{path} has no column {column!r} for {name}; it has {_listed(columns)}"
            )
    names = canonical_names(columns, chosen)
    for name in ("step", "loss"):
        if name not in names.values():
            raise FormatError(
                f"{path} has no column for {name}; it has {_listed(columns)}; "
                f"name it with --{name} COLUMN"
            )
    return names


def _collect(rows: Rows, chosen: dict[str, str], path: Path, skipped: list[str]) -> Log:
    names = _column_names(rows, chosen, path)
    wanted = {name: column for column, name in names.items()}
    parts: dict[str, list[Series]] = {column: [] for column in names if names[column] != "step"}
    left_out = []
    reading = rows()
    while block := list(islice(reading, ROWS_AT_ONCE)):
        for column in list(parts):
            part = _one_series(block, wanted["step"], column, names[column], path)
            if part is None:
                left_out.append(f"column {column!r} is not numeric")
                del parts[column]
            elif len(part):
                parts[column].append(part)
    series = {names[column]: _joined(found) for column, found in parts.items() if found}
    if "loss" not in series:
        raise FormatError(f"{path} logs no loss at all in its column {wanted['loss']!r}")
    return Log(series=series, skipped=(*skipped, *left_out))


def _joined(parts: list[Series]) -> Series:
    return Series(
        name=parts[0].name,
        steps=np.concatenate([part.steps for part in parts]),
        values=np.concatenate([part.values for part in parts]),
    )


def _one_series(
    rows: list[_Row], step_column: str, column: str, name: str, path: Path
) -> Series | None:
    steps, values = [], []
    for row in rows:
        cell = row.cells.get(column)
        if _is_missing(cell):
            continue
        value = _number(cell)
        if value is None:
            if name != "loss":
                return None
            raise FormatError(
                f"{path} row {row.number} has {_quoted(cell)} as {column}, not a number"
            )
        steps.append(_step(row, step_column, path))
        values.append(value)
    return Series(
        name=name, steps=np.array(steps, dtype=np.int64), values=np.array(values, dtype=np.float64)
    )


def _step(row: _Row, column: str, path: Path) -> int:
    value = _number(row.cells.get(column))
    if value is None or not math.isfinite(value) or value != int(value):
        raise FormatError(
            f"{path} row {row.number} has {_quoted(row.cells.get(column))} as {column}, "
            "not a whole step number"
        )
    if not 0 <= value < LARGEST_STEP:
        raise FormatError(f"{path} row {row.number} has step {value:g}, which is out of range")
    return int(value)


def _is_missing(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def _number(cell: object) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        # float() takes "1_000", which no tracker writes on purpose.
        return None if isinstance(cell, str) and "_" in cell else float(cell)
    except (ValueError, OverflowError):
        return None


def _quoted(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= 40 else text[:37] + "..."


def _listed(columns: list[str]) -> str:
    shown = [_quoted(column) for column in columns[:12]]
    return ", ".join(shown) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
