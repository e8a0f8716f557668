"""Setting a damaged ledger aside. The journals are the record; the database is made from them."""

from __future__ import annotations

from pathlib import Path


def set_aside(path: Path) -> str:
    """Rename the database and its log to a free name and return in words what was done."""
    number = 1
    while (target := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("", ".wal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.rename(target.with_name(target.name + suffix))
    return f"it was set aside as {target.name} and is built again from the journals"
