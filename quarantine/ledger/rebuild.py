"""Rebuild: make the database anew from the journals and put it in the place of the old one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...loader.files import sync_directory
from ...loader.run import Run
from .database import WAIT_SECONDS, Damaged, Database, Outdated, Owner
from .ingest import IngestReport, ingest
from .repair import set_aside


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """What went into the new database, and what became of the old one (in words)."""

    ingested: IngestReport
    old: str


def rebuild(
    run: Run,
    path: Path,
    *,
    memory: str = "2GB",
    threads: int = 2,
    wait: float = WAIT_SECONDS,
    advance: Callable[[int], object] | None = None,
) -> RebuildReport:
    """Build the ledger of `run` at `path` anew; the old one stays until the new one is whole.

    Raises:
        Busy: another process holds the old one.
        MismatchError: the old one is of another run.
    """
    owner = Owner.of(run)
    fresh = path.with_name(path.name + ".new")
    _remove(fresh)
    old, words = _hold(path, owner, memory=memory, threads=threads, wait=wait)
    try:
        database = Database(fresh, owner, memory=memory, threads=threads, wait=wait)
        try:
            report = ingest(database, run, advance=advance)
        finally:
            database.close()
    finally:
        if old is not None:
            # Closing writes its log into the file, so that no log outlives the exchange.
            old.close()
    if old is None and path.exists():
        words = f"the old ledger could not be opened; {set_aside(path)}"
    fresh.replace(path)
    sync_directory(path.parent)
    return RebuildReport(ingested=report, old=words)


def _hold(
    path: Path, owner: Owner, *, memory: str, threads: int, wait: float
) -> tuple[Database | None, str]:
    """Open the old database, so that nobody else does; None if it is not there or damaged."""
    if not path.exists():
        return None, "there was none"
    try:
        held = Database(path, owner, memory=memory, threads=threads, wait=wait)
    except (Damaged, Outdated):
        return None, ""
    return held, "the old ledger was replaced"


def _remove(path: Path) -> None:
    for suffix in ("", ".wal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
