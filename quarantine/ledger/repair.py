"""Making a damaged ledger good. The journals are the record; the database is made from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from .faults import Damaged

if TYPE_CHECKING:
    from .ledger import Ledger

P = ParamSpec("P")
T = TypeVar("T")


def repairing(ask: Callable[Concatenate[Ledger, P], T]) -> Callable[Concatenate[Ledger, P], T]:
    """Let a question that meets damage open the file again, then build it anew, and ask again.

    A query that someone typed can bring DuckDB down, after which every question fails until the
    file is opened again: that alone is no reason to read all journals.
    """

    @wraps(ask)
    def asked(ledger: Ledger, /, *args: P.args, **options: P.kwargs) -> T:
        for anew in (False, True):
            database = ledger.database
            try:
                return ask(ledger, *args, **options)
            except Damaged as error:
                ledger.mend(database, error, anew=anew)
        return ask(ledger, *args, **options)

    return asked


def set_aside(path: Path) -> str:
    """Rename the database and its log, and return in words what was done.

    One copy is kept: it can be as large as all the run's journals, and says nothing that they do
    not.
    """
    target = path.with_name(f"{path.name}.damaged-1")
    words = " in the place of an earlier one" if target.exists() else ""
    for suffix in ("", ".wal"):
        source, kept = (place.with_name(place.name + suffix) for place in (path, target))
        kept.unlink(missing_ok=True)
        if source.exists():
            source.rename(kept)
    return f"it was set aside as {target.name}{words} and is built again from the journals"
