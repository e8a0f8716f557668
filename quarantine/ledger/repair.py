"""Making a damaged ledger good. The journals are the record; the database is made from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import duckdb

from ...loader.errors import ShardwardError
from ...loader.files import write_atomic
from .faults import Damaged

if TYPE_CHECKING:
    from .ledger_file import LedgerFile

L = TypeVar("L", bound="LedgerFile")
P = ParamSpec("P")
T = TypeVar("T")


def repairing(ask: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """Let a question that meets damage open the file again, then build it anew, and ask again.

    A query that someone typed can bring DuckDB down, after which every question fails until the
    file is opened again: that alone is no reason to read all journals.
    """

    @wraps(ask)
    def asked(ledger: L, /, *args: P.args, **options: P.kwargs) -> T:
        for anew in (False, True):
            database = ledger.database
            try:
                return ask(ledger, *args, **options)
            except Damaged as error:
                ledger.mend(database, error, anew=anew)
            except (ShardwardError, duckdb.Error):
                # Another thread closed the file under this question to mend it.
                if not ledger.mended(database):
                    raise
        return ask(ledger, *args, **options)

    return asked


def set_aside(path: Path, *, keep_earlier: bool = False) -> str:
    """Rename the database and its log, and return in words what was done.

    One copy is kept: it can be as large as all the run's journals, and says nothing that they do
    not. Where they no longer say it, no earlier copy is given up for a new one.

    Args:
        path: the database.
        keep_earlier: journals are missing, so every copy may hold what nothing else does.
    """
    target = _copy_place(path, keep_earlier=keep_earlier)
    words = " in the place of an earlier one" if target.exists() else ""
    if keep_earlier:
        _mark(target)  # before it is there: whoever is killed in between has not lost the mark
    for suffix in ("", ".wal"):
        source, kept = (place.with_name(place.name + suffix) for place in (path, target))
        kept.unlink(missing_ok=True)
        if source.exists():
            source.rename(kept)
    return f"it was set aside as {target.name}{words} and is built again from the journals"


def _copy_place(path: Path, *, keep_earlier: bool) -> Path:
    """Return the name for a copy: of the copies there, only one that is not marked is given up.

    The next ledger knows nothing of journals that were gone when it was made, so it cannot tell
    that a copy is the only one with their rows; the mark beside the copy does.
    """
    number = 1
    while True:
        target = path.with_name(f"{path.name}.damaged-{number}")
        if keep_earlier and target.exists():
            _mark(target)
        if not _marked(target).exists():
            return target
        number += 1


def _marked(copy: Path) -> Path:
    return copy.with_name(f"{copy.name}.only")


def _mark(copy: Path) -> None:
    write_atomic(_marked(copy), b"holds rows whose journals are gone; never overwritten\n")
