"""An append-only file of JSON lines in which every line names the digest of the line before it.

Appending takes a lock, reads the end of the file again and writes one line durably, so two writers
end in one order and the later one has seen the earlier. A line that a crash tore was never
acknowledged: readers leave it out and report it, and the next append moves it to a file of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from ...loader.errors import FormatError, IntegrityError
from ...loader.files import exclusive_lock, full_disk_named, publish_new, sync_directory
from ...loader.formats import canonical_json, check_format, parse_json, sha256_hex
from ...loader.records import finite_json

GENESIS = "0" * 64
MAX_LINE = 64 << 20
BLOCK = 64 << 10
"""Bytes read at first from the end of a file of which the end is enough; then twice as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """The digest of the last line and the number of lines; stored elsewhere it is an anchor."""

    digest: str
    count: int

    def to_json(self) -> dict[str, Any]:
        """Return the anchor as a JSON object."""
        return {"head": self.digest, "count": self.count}


EMPTY = ChainHead(digest=GENESIS, count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """The lines from number `first` on as objects, the digest of each, and a torn tail's bytes.

    `first` is 1 unless only the end was read; a torn tail is normally empty.
    """

    lines: tuple[dict[str, Any], ...]
    digests: tuple[str, ...]
    torn: bytes
    first: int = 1

    @property
    def head(self) -> ChainHead:
        """The anchor of the last whole line."""
        if not self.digests:
            return EMPTY
        return ChainHead(digest=self.digests[-1], count=self.first + len(self.digests) - 1)

    def digest_of(self, number: int) -> str:
        """Return the digest of line `number`, which was read or stands before the first read."""
        if number == self.first - 1:
            return str(self.lines[0]["previous"])
        return self.digests[number - self.first]

    def after(self, number: int) -> tuple[dict[str, Any], ...]:
        """Return the lines after line `number`, as far as they were read."""
        return self.lines[max(number - self.first + 1, 0) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFile:
    """One chained file of records called `name`, version 1."""

    path: Path
    name: str

    def read(self, since: int = 1) -> ChainState:
        """Return the verified lines from number `since` on; a missing file is an empty chain.

        The last line is always among them. With `since` over 1 only the end of the file is read,
        and what stands before it is not looked at.

        Raises:
            IntegrityError: a line does not follow from the one before it.
            FormatError: a line is not JSON, or not of this format and version.
        """
        if not self.path.exists():
            return ChainState(lines=(), digests=(), torn=b"")
        with self.path.open("rb") as stream:
            if since <= 1:
                return self._verified(*_split(stream.read()), first=1, previous=GENESIS)
            return self._read_end(stream, since)

    def first_line(self) -> dict[str, Any] | None:
        """Return the first line, or None of an empty chain; errors as in `read`."""
        if not self.path.exists():
            return None
        with self.path.open("rb") as stream:
            raw = stream.readline()
        return self._parse(raw[:-1], 1, GENESIS) if raw.endswith(b"\n") else None

    def append(
        self, build: Callable[[ChainState], Mapping[str, Any]], *, since: int = 1
    ) -> dict[str, Any]:
        """Add the line `build` makes of the lines from `since` on; it is durable on return.

        `build` runs under the lock and may raise to leave the file as it was.
        """
        with exclusive_lock(self.path.with_name(self.path.name + ".lock")):
            state = self.read(since)
            line = self._line(state, build(state))
            raw = self._encode(line)
            if len(raw) > MAX_LINE:
                raise FormatError(
                    f"a record of {len(raw)} bytes is over the {MAX_LINE} bytes one line of "
                    f"{self.path.name} may have; split it"
                )
            if state.torn:
                self._set_torn_aside(state.torn)
            self._write(raw + b"\n")
        return line

    def _verified(
        self, whole: Sequence[bytes], torn: bytes, *, first: int, previous: str
    ) -> ChainState:
        lines: list[dict[str, Any]] = []
        digests: list[str] = []
        for number, raw in enumerate(whole, first):
            lines.append(self._parse(raw, number, digests[-1] if digests else previous))
            digests.append(sha256_hex(raw))
        return ChainState(lines=tuple(lines), digests=tuple(digests), torn=torn, first=first)

    def _read_end(self, stream: BinaryIO, since: int) -> ChainState:
        """Read backwards until a whole line that is not after `since`, or the start."""
        start, size, data = stream.seek(0, os.SEEK_END), BLOCK, b""
        while True:
            low = max(0, start - size)
            stream.seek(low)
            data = stream.read(start - low) + data
            if low == 0:
                return self._verified(*_split(data), first=1, previous=GENESIS)
            # What comes before the first line end is the end of a line, or of none.
            whole, torn = _split(data.partition(b"\n")[2])
            oldest = parse_json(whole[0], where=f"{self.path} near its end") if whole else {}
            number = oldest.get("sequence")
            if isinstance(number, int) and 1 < number <= since:
                previous = str(oldest.get("previous"))
                return self._verified(whole, torn, first=number, previous=previous)
            start, size = low, 2 * size

    def _encode(self, line: Mapping[str, Any]) -> bytes:
        try:
            return canonical_json(line)
        except UnicodeEncodeError as error:
            raise FormatError(
                f"a record of {self.path.name} holds {error.object[error.start : error.end]!r}, "
                "which is no character of UTF-8; write it in valid text"
            ) from error

    def _line(self, state: ChainState, fields: Mapping[str, Any]) -> dict[str, Any]:
        own = {"format", "version", "sequence", "previous"}
        if clash := own & set(fields):
            raise FormatError(f"the fields {sorted(clash)} belong to the chain")
        return {
            "format": self.name,
            "version": 1,
            "sequence": state.head.count + 1,
            "previous": state.head.digest,
            **finite_json(fields),
        }

    def _parse(self, raw: bytes, number: int, previous: str) -> dict[str, Any]:
        where = f"{self.path} line {number}"
        line = parse_json(raw, where=where)
        check_format(line, name=self.name, version=1, where=where)
        if line.get("sequence") != number or line.get("previous") != previous:
            raise IntegrityError(
                f"{where} says it is line {line.get('sequence')} after "
                f"{str(line.get('previous'))[:12]}, but the line before it has digest "
                f"{previous[:12]}; the file was edited, restore it from a copy"
            )
        return line

    def _set_torn_aside(self, torn: bytes) -> None:
        aside = self.path.with_name(f"{self.path.name}.torn-{sha256_hex(torn)[:12]}")
        publish_new(aside, torn)
        with self.path.open("r+b") as stream:
            stream.truncate(stream.seek(0, os.SEEK_END) - len(torn))
            os.fsync(stream.fileno())

    def _write(self, data: bytes) -> None:
        fresh = not self.path.exists()
        with full_disk_named(self.path), self.path.open("ab", buffering=0) as stream:
            size = stream.tell()
            try:
                _write_all(stream.fileno(), data)
                os.fsync(stream.fileno())
            except OSError:
                stream.truncate(size)
                raise
        if fresh:
            sync_directory(self.path.parent)


def clock_jumps(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the lines whose time is before the time of the line above; order is by sequence."""
    return [
        f"line {later['sequence']} is dated {later['time']}, before line {earlier['sequence']} "
        f"({earlier['time']}): the clock jumped; the order of the lines stands"
        for earlier, later in pairwise(lines)
        if str(later.get("time", "")) < str(earlier.get("time", ""))
    ]


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    whole, newline, torn = data.rpartition(b"\n")
    return (whole.split(b"\n") if newline else []), torn


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
