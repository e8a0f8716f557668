"""What DuckDB's complaints mean: a damaged file, a full disk, or a question it cannot answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from ...loader.errors import FormatError, ShardwardError

_BROKEN = (duckdb.InternalException, duckdb.FatalException)
# Only these speak of the file; the text of any other repeats words of the query or of the data.
_STORAGE = (duckdb.IOException, duckdb.SerializationException)
_FULL = "no space left"
_SIGNS = (
    "checksum",
    "corrupt",
    "deserialize",
    "not a valid duckdb database",
    "wal file",
    "could not read",
    "has been invalidated",
    "failure while replaying",
)


class Damaged(ShardwardError):
    """The database file or its log is damaged; it can be rebuilt from the journals."""


class Outdated(ShardwardError):
    """The database is of a form that cannot be brought up to date.

    `read` is how far each journal was read into it, as far as it can tell.
    """

    def __init__(self, message: str, read: Mapping[str, int]) -> None:
        super().__init__(message)
        self.read = dict(read)


class Later(FormatError):
    """The database is of a later release; `read` is as in `Outdated`."""

    def __init__(self, message: str, read: Mapping[str, int]) -> None:
        super().__init__(message)
        self.read = dict(read)


def is_damage(error: duckdb.Error) -> bool:
    """Return whether the file does not hold what was written; decided by the kind of error."""
    if _FULL in str(error).lower():
        return False
    if isinstance(error, _BROKEN):
        return True
    # A wrong checksum has no class of its own.
    about_the_file = isinstance(error, _STORAGE) or type(error) is duckdb.Error
    return about_the_file and any(sign in str(error).lower() for sign in _SIGNS)


def is_shortage(error: duckdb.Error) -> bool:
    """Return whether disk or memory ran out, or the disk failed: the file is as it was."""
    kinds = (duckdb.IOException, duckdb.OutOfMemoryException)
    return isinstance(error, kinds) or _FULL in str(error).lower()


def damaged(path: Path, error: duckdb.Error, remedy: str = "") -> Damaged:
    """Return the error that says so."""
    return Damaged(f"the ledger {path} is damaged: {str(error).splitlines()[0]}{remedy}")
