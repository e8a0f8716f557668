"""JSON lines: a block is a run of lines of about one mebibyte."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ..errors import CorpusError
from .contract import Span, WholeBlocks, reading
from .long_lines import LONG, parse_long
from .opening import open_input

BLOCK_BYTES = 1 << 20
BLOCK_LINES = 4096
_TYPES = {str: pa.large_string(), list: pa.large_list(pa.int64()), int: pa.int64()}


class JsonlReader(WholeBlocks):
    """Runs of lines; a line of white space alone is no document."""

    def __init__(self, uri: str, location: str) -> None:
        self._uri = uri
        with reading(uri):
            self._handle = open_input(location)

    def spans(self) -> list[Span]:
        """Return runs of lines, reading the whole file once."""
        first = offset = size = documents = 0
        spans: list[Span] = []
        for length, blank in self._lines():
            size += length
            documents += not blank
            if size >= BLOCK_BYTES or documents >= BLOCK_LINES:
                spans.append(_span(len(spans), first, documents, offset, size))
                first, offset, size, documents = first + documents, offset + size, 0, 0
        if documents:
            spans.append(_span(len(spans), first, documents, offset, size))
        return spans

    def names(self) -> tuple[str, ...]:
        """Return the keys of the first document."""
        offset = 0
        for length, blank in self._lines():
            if not blank:
                return tuple(self._objects(_span(0, 0, 1, offset, length))[0])
            offset += length
        return ()

    def read(self, span: Span, columns: Sequence[str]) -> pa.Table:
        """Parse one run of lines; a key that a line lacks is null."""
        objects = self._objects(span)
        return pa.table({name: self._column(objects, name, span.first) for name in columns})

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def _objects(self, span: Span) -> list[dict[str, Any]]:
        """Parse the lines of a block that are no white space; none is held longer than it takes."""
        with reading(self._uri):
            self._handle.seek(span.offset)
            lines = self._handle.read(span.size).split(b"\n")
        lines.reverse()
        objects: list[dict[str, Any]] = []
        while lines:
            if _blank(lines[-1]):
                lines.pop()
            else:
                objects.append(self._object(lines, span.first + len(objects)))
        return objects

    def _lines(self) -> Iterator[tuple[int, bool]]:
        """Yield the bytes of each line with its line feed, and whether it is white space alone."""
        size, blank = 0, True
        with reading(self._uri):
            self._handle.seek(0)
        while chunk := self._chunk():
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                yield size + len(part) + 1, blank and _blank(part)
                size, blank = 0, True
            size, blank = size + len(rest), blank and _blank(rest)
        if size:
            yield size, blank

    def _chunk(self) -> bytes:
        with reading(self._uri):
            data: bytes = self._handle.read(BLOCK_BYTES)
            return data

    def _object(self, lines: list[bytes], row: int) -> dict[str, Any]:
        """Parse the last of `lines`, which is taken out of them."""
        try:
            value = json.loads(lines.pop()) if len(lines[-1]) < LONG else parse_long(lines)
        except (ValueError, RecursionError) as error:
            raise CorpusError(
                f"shard {self._uri} row {row} is not JSON in UTF-8 ({error}); "
                "repair the line or leave it out"
            ) from error
        if not isinstance(value, dict):
            raise CorpusError(
                f"shard {self._uri} row {row} is a {type(value).__name__}, not a JSON object"
            )
        return value

    def _column(self, objects: list[dict[str, Any]], name: str, first: int) -> pa.Array:
        values = [entry.get(name) for entry in objects]
        kinds = {_kind(value) for value in values if value is not None}
        if len(kinds) > 1 or not kinds <= set(_TYPES):
            raise CorpusError(
                f"shard {self._uri} rows {first} to {first + len(values) - 1}: {name!r} is "
                f"{', '.join(sorted(kind.__name__ for kind in kinds))}; it must be text in all "
                "lines, or a list of token ids in all lines"
            )
        wanted = _TYPES[kinds.pop()] if kinds else pa.large_string()
        try:
            return _array(values, wanted)
        except (UnicodeEncodeError, pa.ArrowException, OverflowError) as error:
            row = first + _first_bad(values, wanted)
            raise CorpusError(
                f"shard {self._uri} row {row}: {name!r} is not valid {wanted} ({error}); "
                "repair the line or leave it out"
            ) from error


def _array(values: Sequence[object], wanted: pa.DataType) -> pa.Array:
    if not any(isinstance(value, bytes) for value in values):
        return pa.array(values, wanted)
    # As strings Arrow would decode them to check them, four bytes a character.
    found = pa.array(values, pa.large_binary()).view(wanted)
    found.validate(full=True)
    return found


def _blank(line: bytes) -> bool:
    return not line or line.isspace()


def _kind(value: object) -> type:
    return str if isinstance(value, bytes) else type(value)


def _span(index: int, first: int, documents: int, offset: int, size: int) -> Span:
    return Span(index=index, first=first, documents=documents, offset=offset, size=size)


def _first_bad(values: Sequence[object], wanted: pa.DataType) -> int:
    """Return the number of the first value that Arrow does not take as `wanted`."""
    for number, value in enumerate(values):
        try:
            _array([value], wanted)
        except (UnicodeEncodeError, pa.ArrowException, OverflowError):
            return number
    return -1
