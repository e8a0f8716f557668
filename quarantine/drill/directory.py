"""The drill's directory: who is here, and where everything lies."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...loader.errors import Busy, UsageError
from ...loader.files import FULL, NO_LOCKS, exclusive_lock
from ...loader.run_locks import RankSlot, read_holder, take_slot

STATE = "drill.json"
LOCK = ".drill.lock"
COMMANDS_LOCK = ".drill.commands.lock"
DEFAULT = Path("drill-out")
NEEDED_MB = 60
"""What a drill of the default scale takes on disk, rounded up."""
PATIENCE = 120.0
"""Seconds to wait for a command that a killed drill had started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """Paths of one drill; `commands_lock` is the open file that its commands inherit."""

    path: Path
    commands_lock: int | None = None

    @property
    def state(self) -> Path:
        """Which phases are done, and what came of each."""
        return self.path / STATE

    @property
    def commands(self) -> Path:
        """Every command line of the response, to be repeated by hand."""
        return self.path / "commands.log"

    @property
    def corpus(self) -> Path:
        """Parquet shards."""
        return self.path / "corpus"

    @property
    def manifest(self) -> Path:
        """Manifest of the corpus."""
        return self.path / "manifest"

    @property
    def truth(self) -> Path:
        """What was salted; only the final scoring reads it."""
        return self.path / "truth.json"

    @property
    def found(self) -> Path:
        """What was found, one file for each decision, with the reason for each document."""
        return self.path / "found"

    @property
    def run(self) -> Path:
        """Run directory."""
        return self.path / "run"

    @property
    def checkpoints(self) -> Path:
        """Weights, optimizer and cursors."""
        return self.path / "checkpoints"

    @property
    def rebuilt(self) -> Path:
        """The corpus without what was quarantined."""
        return self.path / "rebuilt"

    @property
    def rebuilt_manifest(self) -> Path:
        """Manifest of the rebuilt corpus."""
        return self.path / "rebuilt-manifest"


@contextmanager
def claim(out: Path | None) -> Iterator[Directory]:
    """Hold the directory of a drill; without `out` the next free one under `drill-out`.

    A command that a killed drill had started is waited for: it ends as it would have.

    Raises:
        Busy: another drill is running there, or one of its commands does not end.
        UsageError: `out` is a file, or holds what is no drill's.
        OSError: of a full disk, names where, what is free and what is needed.
    """
    path = _next_free() if out is None else out
    _refuse_foreign(path)
    with _room_named(path):
        path.mkdir(parents=True, exist_ok=True)
        slot = _lock(path)
        try:
            with _commands_lock(path) as handle:
                yield Directory(path=path, commands_lock=handle)
        finally:
            slot.release()


@contextmanager
def _room_named(directory: Path) -> Iterator[None]:
    """Say of a full disk where it is, how much is free and how much a drill needs."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        where = error.filename or directory
        raise OSError(error.errno, f"{error.strerror} ({room(directory)})", str(where)) from error


def room(directory: Path) -> str:
    """Return how much is free beside `directory` and how much a drill needs, in words."""
    path = directory.absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    free = shutil.disk_usage(there).free / 1e6
    return f"{free:.1f} megabytes are free in {directory}, a whole drill takes up to {NEEDED_MB}"


def _next_free() -> Path:
    with exclusive_lock(DEFAULT / ".lock"):
        taken = [int(path.name) for path in DEFAULT.iterdir() if path.name.isdecimal()]
        path = DEFAULT / f"{max(taken, default=0) + 1:04d}"
        path.mkdir()
    return path


def _lock(path: Path) -> RankSlot:
    try:
        return take_slot(path / LOCK, "drill")
    except Busy as error:
        holder = read_holder(path / LOCK)
        who = f"pid {holder.pid} on {holder.host}" if holder else "pid unknown"
        raise Busy(
            f"another drill is running in {path}, {who}; wait for it, or give another --out"
        ) from error


@contextmanager
def _commands_lock(path: Path) -> Iterator[int | None]:
    """Hold the lock that commands inherit; None where the file system has no locks."""
    handle = os.open(path / COMMANDS_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield handle if _wait_for(handle, path) else None
    finally:
        os.close(handle)


def _wait_for(handle: int, path: Path) -> bool:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in NO_LOCKS:
                return False
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        else:
            return True
        if time.monotonic() > until:
            raise Busy(
                f"a command that an earlier drill in {path} had started still runs after "
                f"{PATIENCE:.0f} s; end it, then start the drill again"
            )
        time.sleep(0.1)


def _refuse_foreign(path: Path) -> None:
    """Refuse what is no directory, or holds files that are no drill's, before it is touched."""
    if not path.exists():
        return
    if not path.is_dir():
        raise UsageError(f"{path} is a file; give --out an empty or new directory")
    names = {entry.name for entry in path.iterdir()}
    if names and not names & {STATE, LOCK}:
        raise UsageError(f"{path} holds other files; give --out an empty or new directory")
