"""Setting a damaged ledger aside. The journals are the record; the database is made from them."""

from __future__ import annotations

from pathlib import Path


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
