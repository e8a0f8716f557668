"""Rebuild: make the database anew from the journals and put it in the place of the old one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...loader.files import sync_directory
from ...loader.run import Run
from .database import MEMORY, WAIT_SECONDS, Damaged, Database, Owner
from .faults import Later, Outdated
from .ingest import IngestReport, ingest, watermarks
from .repair import set_aside
from .restorable import check_restorable, shortfalls


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """What went into the new database, and what became of the old one (in words)."""

    ingested: IngestReport
    old: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Old:
    """The database that is to be replaced.

    `held` is open, so that nobody else opens it; None where there is none or it cannot be used,
    `words` then say why. `read` is how far each journal was read into it, as far as it can tell.
    """

    held: Database | None
    read: dict[str, int]
    words: str


def rebuild(
    run: Run,
    path: Path,
    *,
    force: bool = False,
    memory: str = MEMORY,
    threads: int = 2,
    wait: float = WAIT_SECONDS,
    advance: Callable[[int], object] | None = None,
) -> RebuildReport:
    """Build the ledger of `run` at `path` anew; the old one stays until the new one is whole.

    Args:
        run: whose journals are read.
        path: the DuckDB file.
        force: do so although journals are gone whose rows the old one has; it is set aside.
        memory, threads, wait: as in `Database`.
        advance: called with the bytes of each slice.

    Raises:
        Busy: another process holds the old one.
        MismatchError: the old one is of another run.
        IntegrityError: the journals cannot give back what the old one holds.
    """
    owner = Owner.of(run)
    fresh = path.with_name(path.name + ".new")
    _remove(fresh)
    old = _hold(path, owner, memory=memory, threads=threads, wait=wait)
    try:
        if not force:
            check_restorable(run, old.read, what=f"the ledger {path} was to be built anew")
        database = Database(fresh, owner, memory=memory, threads=threads, wait=wait)
        try:
            report = ingest(database, run, advance=advance)
        finally:
            database.close()
    finally:
        if old.held is not None:
            # Closing writes its log into the file, so that no log outlives the exchange.
            old.held.close()
    lost = bool(shortfalls(run, old.read))
    words = old.words
    if path.exists() and (old.held is None or lost):
        words = f"{words}; {set_aside(path, keep_earlier=lost)}"
    fresh.replace(path)
    sync_directory(path.parent)
    return RebuildReport(ingested=report, old=words)


def losses(run: Run, path: Path, *, wait: float = WAIT_SECONDS) -> tuple[str, ...]:
    """Return, in words, the journals whose rows a rebuild of the ledger at `path` would lose.

    Raises:
        Busy: another process holds it.
        MismatchError: it is of another run.
    """
    old = _hold(path, Owner.of(run), memory=MEMORY, threads=1, wait=wait)
    if old.held is not None:
        old.held.close()
    return shortfalls(run, old.read)


def _hold(path: Path, owner: Owner, *, memory: str, threads: int, wait: float) -> _Old:
    if not path.exists():
        return _Old(held=None, read={}, words="there was none")
    try:
        held = Database(path, owner, memory=memory, threads=threads, wait=wait)
    except Damaged as error:
        return _Old(held=None, read={}, words=str(error))
    except (Outdated, Later) as error:
        return _Old(held=None, read=error.read, words=str(error))
    try:
        return _Old(held=held, read=watermarks(held), words="the old ledger was replaced")
    except Damaged as error:
        held.close()
        return _Old(held=None, read={}, words=str(error))


def _remove(path: Path) -> None:
    for suffix in ("", ".wal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
