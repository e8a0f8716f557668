"""The rows of a text log, in blocks: CSV by columns where it is regular, JSON lines row by row.

Nothing is held but one block, and the rows can be asked for again.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv

from ...loader.errors import FormatError
from .logfile import LONGEST_LINE, Lines, LogFile

LARGEST_STEP = 2**62
MISSING = frozenset({"", "none", "null", "na", "n/a", "-"})
_ARROW_MISSING = ["", "none", "None", "null", "NULL", "NA", "N/A", "n/a", "-"]
_QUOTED = re.compile(r'(^|[,\t;])"(?:[^"]|"")*(?:"|$)')
ROWS_AT_ONCE = 1 << 14

Known = Callable[[], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Some:
    """What was written in some rows of a block: `cells` [k] in the rows `places` [k], from 0.

    Rows of objects may each have names of their own; a cell for every row of every name would be
    quadratic.
    """

    places: list[int]
    cells: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some rows of a log: their numbers, and what was written in each column.

    A column is a list of what was written in every row (None for a gap), or in some rows, or an
    array of numbers.
    """

    numbers: Sequence[int]
    columns: Mapping[str, list[Any] | Some | pa.Array]


class Rows(Protocol):
    """The rows of one log."""

    skipped: list[str]

    def blocks(self, step: Known, left_out: Collection[str]) -> Iterator[Block]:
        """Yield all rows; `step` gives the column of steps once it is known, and the columns
        `left_out` need not be read."""


class Objects:
    """Rows that are held as objects, of the formats that are read as a whole."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], skipped: list[str]) -> None:
        self._rows, self.skipped = rows, skipped

    def blocks(self, step: Known, left_out: Collection[str]) -> Iterator[Block]:
        """Yield all rows, numbered from 1."""
        for first in range(0, len(self._rows), ROWS_AT_ONCE):
            part = self._rows[first : first + ROWS_AT_ONCE]
            yield _block(part, range(first + 1, first + 1 + len(part)))


class JsonRows:
    """One JSON object a line."""

    def __init__(self, log: LogFile) -> None:
        self._log = log
        self.skipped: list[str] = []

    def blocks(self, step: Known, left_out: Collection[str]) -> Iterator[Block]:
        """Yield all rows; a last one that is cut off is left out."""
        for lines in self._log.blocks():
            numbers, rows = self._parsed(lines)
            if rows:
                yield _block(rows, numbers)

    def _parsed(self, lines: Lines) -> tuple[list[int], list[dict[str, Any]]]:
        numbers, rows = [], []
        path, texts = self._log.path, lines.data.split(b"\n")
        for number, text in enumerate(texts, start=lines.number):
            if not text or text.isspace():
                continue
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                if lines.last and number == lines.number + len(texts) - 1:
                    self.skipped = [f"row {number} is cut off"]
                    break
                raise FormatError(
                    f"{path} row {number} is not JSON ({error}); mend the row"
                ) from error
            if not isinstance(value, dict):
                raise FormatError(
                    f"{path} row {number} is a JSON {type(value).__name__}, not an object of "
                    "signals"
                )
            numbers.append(number)
            rows.append(value)
        return numbers, rows


def delimiter(header: str) -> str:
    """Return what separates the cells of a log with this line as its header.

    It is the comma or the tab, whichever is there more often outside quotes, and the semicolon
    where neither is: the rows are not asked, which may write numbers with commas.
    """
    bare = _QUOTED.sub(r"\1", header)
    commas, tabs = bare.count(","), bare.count("\t")
    if not commas and not tabs and ";" in bare:
        return ";"
    return "\t" if tabs > commas else ","


class CsvRows:
    """Cells under a header, separated by commas or by another `delimiter`."""

    def __init__(self, log: LogFile, delimiter: str) -> None:
        self._log, self._delimiter = log, delimiter
        self.skipped: list[str] = []

    def blocks(self, step: Known, left_out: Collection[str]) -> Iterator[Block]:
        """Yield all rows; a last one that is cut off is left out."""
        header: list[str] | None = None
        for lines in _whole_cells(self._log, self._delimiter):
            if header is None:
                if lines.data.isspace():
                    continue
                header, lines = self._header(lines)  # noqa: PLW2901  the rest of the block
                self._log.widen(len(header))
            block = None
            if (column := step()) is not None and b'"' not in lines.data:
                block = _by_columns(lines, header, column, left_out, self._delimiter)
            yield block or self._by_rows(lines, header)

    def _header(self, lines: Lines) -> tuple[list[str], Lines]:
        text = io.StringIO(lines.text(), newline="")
        reader = csv.reader(text, delimiter=self._delimiter, strict=True)
        try:
            # Blank lines may stand before the header.
            cells = next((cells for cells in reader if any(map(str.strip, cells))), [])
        except csv.Error as error:
            raise self._not_csv(reader.line_num, error) from error
        header = [name.strip() for name in cells]
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise FormatError(
                f"{self._log.path} has two columns named {twice[0]!r}; rename one of them"
            )
        data = lines.data[len(lines.text()[: text.tell()].encode()) :]
        return header, replace(lines, data=data, number=lines.number + reader.line_num)

    def _by_rows(self, lines: Lines, header: list[str]) -> Block:
        text, before = lines.text(), lines.number - 1
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, strict=True)
        numbers: list[int] = []
        rows: list[list[str]] = []
        try:
            for cells in reader:
                if len(cells) == len(header):
                    numbers.append(before + reader.line_num)
                    rows.append(cells)
                elif cells and lines.last and not text.endswith("\n") and not any(reader):
                    self.skipped = [f"row {before + reader.line_num} is cut off"]
                elif cells:
                    raise FormatError(
                        f"{self._log.path} row {before + reader.line_num} has {len(cells)} cells, "
                        f"the header has {len(header)}; mend the row"
                    )
        except csv.Error as error:
            raise self._not_csv(before + reader.line_num, error) from error
        cells_of = zip(*rows, strict=True) if rows else ([] for _ in header)
        columns = {name: list(column) for name, column in zip(header, cells_of, strict=True)}
        return Block(numbers=numbers, columns=columns)

    def _not_csv(self, row: int, error: csv.Error) -> FormatError:
        return FormatError(f"{self._log.path} row {row} is not CSV ({error})")


def _block(rows: Sequence[Mapping[str, Any]], numbers: Sequence[int]) -> Block:
    columns: dict[str, Some] = {}
    for place, row in enumerate(rows):
        for name, cell in row.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = Some(places=[], cells=[])
            column.places.append(place)
            column.cells.append(cell)
    return Block(
        numbers=numbers,
        columns={
            name: column.cells if len(column.cells) == len(rows) else column
            for name, column in columns.items()
        },
    )


def _whole_cells(log: LogFile, delimiter: str) -> Iterator[Lines]:
    """Yield blocks of lines that end outside quotes."""
    opening = _opening(delimiter)
    held: list[Lines] = []
    size, inside = 0, False
    for lines in log.blocks():
        held.append(lines)
        size += len(lines.data)
        inside = _ends_inside(lines.data, inside, opening)
        if not inside or lines.last:
            data = b"".join(each.data for each in held)
            yield Lines(number=held[0].number, data=data, last=lines.last)
            held, size = [], 0
        elif size > LONGEST_LINE:
            raise FormatError(
                f"{log.path} has a quoted cell without an end after row {held[0].number}"
            )


def _opening(delimiter: str) -> re.Pattern[bytes]:
    """Return what opens a quoted cell."""
    return re.compile(rb'(?:\A(?:\xef\xbb\xbf)?|[%s\r\n])"' % delimiter.encode())


def _ends_inside(data: bytes, inside: bool, opening: re.Pattern[bytes]) -> bool:
    """Return whether whole lines end in a quoted cell, if they begin `inside` one or not.

    Only a quote that begins a cell opens it: the one of a 5" disk is a character like others.
    """
    place = 0
    while True:
        if inside:
            place = data.find(b'"', place) + 1
            if not place:
                return True
            inside = data[place : place + 1] == b'"'
            place += inside
        elif opened := opening.search(data, place):
            place, inside = opened.end(), True
        else:
            return False


def _by_columns(
    lines: Lines, header: list[str], step: str, left_out: Collection[str], delimiter: str
) -> Block | None:
    """Return the rows by columns of numbers, None where the rows must be looked at."""
    types = {name: pa.float64() for name in header if name not in left_out} | {step: pa.int64()}
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(lines.data),
            read_options=pyarrow.csv.ReadOptions(column_names=header, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(quote_char=False, delimiter=delimiter),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=_ARROW_MISSING
            ),
        ).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None
    if table[step].null_count or not table.num_rows:
        return None
    columns = {name: table[name].combine_chunks() for name in types}
    steps = columns[step].to_numpy()
    if steps.min() < 0 or steps.max() >= LARGEST_STEP:
        return None
    return Block(numbers=range(lines.number, lines.number + table.num_rows), columns=columns)
