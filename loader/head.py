"""The run's head: an append-only, hash-chained log of where the run stands.

Each line of `head.log` is one JSON object that holds the SHA-256 of the line before it. A line
without its newline was never acknowledged (the process died in the write) and does not count.

`head.last` beside it is a copy of the newest line, written after it: a log that does not reach that
line was cut, and would bring back what a rewind has left behind.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import FormatError, IntegrityError
from .files import exclusive_lock, sync_directory, write_atomic
from .formats import Json, canonical_json, check_format, parse_json, sha256_hex

FORMAT = "shardward.head"
VERSION = 1
GENESIS = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One entry: the run stands in `piece` at `step` (None = running, open-ended).

    `revision` is the least one that a load may bring; `cursor` is what was loaded or must be;
    `previous` is the SHA-256 of the line before.
    """

    sequence: int
    piece: int
    step: int | None
    revision: int
    reason: str
    cursor: Mapping[str, Any]
    previous: str
    time: str

    def to_json(self) -> dict[str, Any]:
        """Return the entry as the JSON object of its line."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, value: Json, *, where: str = "the head") -> Head:
        """Return the entry in `value`.

        Raises:
            FormatError: unknown version, or fields missing or unknown.
        """
        check_format(value, name=FORMAT, version=VERSION, where=where)
        fields = {name: item for name, item in value.items() if name not in ("format", "version")}
        try:
            return cls(**fields)
        except TypeError as error:
            raise FormatError(f"{where} is malformed: {error}") from error


def read_heads(path: Path) -> tuple[Head, ...]:
    """Return all entries of the log at `path`, oldest first; none if it does not exist.

    Raises:
        IntegrityError: the chain is broken or was cut; the message names the line.
        FormatError: a line is malformed or of an unknown version.
    """
    copy = _copy_of_last(path)
    last = copy.read_bytes() if copy.exists() else b""  # before the log, which only grows
    data = path.read_bytes() if path.exists() else b""
    lines = data.split(b"\n")[:-1]
    heads = _chained(path, lines)
    if last and last[:-1] not in lines:
        lacks = Head.from_json(parse_json(last, where=str(copy)), where=str(copy))
        follows = data.endswith(b"\n") and lacks.previous == sha256_hex(lines[-1])
        raise _cut(path, len(heads), lacks, follows=follows)
    return heads


def _chained(path: Path, lines: Sequence[bytes]) -> tuple[Head, ...]:
    heads: list[Head] = []
    previous = GENESIS
    for number, line in enumerate(lines, start=1):
        where = f"{path} line {number}"
        head = Head.from_json(parse_json(line, where=where), where=where)
        if (head.sequence, head.previous) != (number, previous):
            raise IntegrityError(
                f"{where} has sequence {head.sequence} and previous hash {head.previous[:12]}, "
                f"expected {number} and {previous[:12]}; a line was edited or removed, "
                "restore the log from a copy"
            )
        previous = sha256_hex(line)
        heads.append(head)
    return tuple(heads)


def _copy_of_last(path: Path) -> Path:
    return path.with_suffix(".last")


def _cut(path: Path, entries: int, lacks: Head, *, follows: bool) -> IntegrityError:
    """Return the error of a log of `entries` entries without one that was written to it."""
    copy = _copy_of_last(path)
    where = "" if lacks.step is None else f" to step {lacks.step}"
    again = f": cat {shlex.quote(str(copy))} >> {shlex.quote(str(path))}"
    return IntegrityError(
        f"{path} has {entries} entries and lacks entry {lacks.sequence}, {lacks.reason!r}{where}: "
        "it was cut or replaced, and what that entry left behind could be loaded again; restore "
        "the log from a copy" + (f", or write the entry again{again}" if follows else "")
    )


def append_head(
    path: Path,
    *,
    piece: int,
    step: int | None,
    revision: int,
    reason: str,
    cursor: Mapping[str, Any],
    time: str,
) -> Head:
    """Append an entry under the log's lock, make it durable and return it.

    Raises:
        IntegrityError: the log's chain is broken, or the log was cut.
    """
    with exclusive_lock(path.with_suffix(".lock")):
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        heads = read_heads(path)
        previous = sha256_hex(whole[:-1].rsplit(b"\n", 1)[-1]) if heads else GENESIS
        head = Head(
            sequence=len(heads) + 1,
            piece=piece,
            step=step,
            revision=revision,
            reason=reason,
            cursor=cursor,
            previous=previous,
            time=time,
        )
        line = canonical_json(head.to_json()) + b"\n"
        _append_line(path, len(whole), line)
        write_atomic(_copy_of_last(path), line)
    return head


def _append_line(path: Path, size: int, line: bytes) -> None:
    """Write `line` at byte `size`, cutting off a line that was never finished."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(handle, size)
        os.pwrite(handle, line, size)
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_directory(path.parent)
