"""Rank slots: one live trainer process for each rank of a run.

A slot is a lock file held with `flock` for as long as the writer lives, so the kernel frees it
when the process dies. Its content says who holds it, for the message the second process gets.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import socket
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .dropped import wait_for_dropped
from .errors import Busy
from .files import NO_LOCKS
from .topology import Topology

ASKS, MOMENT = 10, 0.01
"""How often to try a lock that nobody alive seems to hold, and the seconds in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a slot, as its file says."""

    pid: int
    host: str
    launch: str


class RankSlot:
    """A held slot. `release` frees it; so does the death of the process.

    Attributes:
        guarded: False where the file system has no locks and liveness was judged by pid alone.
    """

    def __init__(self, path: Path, handle: int, *, guarded: bool) -> None:
        self.path = path
        self.guarded = guarded
        self._handle = handle
        _forget_after_fork(self)

    def release(self) -> None:
        """Free the slot; releasing twice is harmless."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.ftruncate(handle, 0)
            os.close(handle)

    def __del__(self) -> None:
        # An interrupt before anybody could name it.
        self.release()

    def _forget(self) -> None:
        # A forked worker that outlives the trainer must not keep the slot.
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


@contextmanager
def released_on_error(slot: RankSlot) -> Iterator[None]:
    """Free `slot` if the block fails."""
    try:
        yield
    except BaseException:  # an interrupt too must leave the slot to the next start
        slot.release()
        raise


def take_rank_slot(
    directory: Path, topology: Topology, launch: str, *, trial: bool, first: bool
) -> RankSlot:
    """Take the slot of this rank; the `first` one of a launch looks for live ones of another.

    Raises:
        Busy: another live process holds it, or a rank of another launch lives.
    """
    kind = "trial" if trial else "rank"
    for other in sorted(directory.glob(f"{kind}-*.lock")) if first else ():
        holder = live_holder(other)
        if holder is not None and holder.launch != launch:
            # Raises Busy in the words of that slot, unless the holder died this very moment.
            take_slot(other, launch).release()
    return take_slot(directory / f"{kind}-{topology.dp_rank}-{topology.replica}.lock", launch)


def take_slot(path: Path, launch: str) -> RankSlot:
    """Take the slot at `path` for a process of the start `launch`.

    Raises:
        Busy: another live process holds it; the message names its pid.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        guarded = _lock_despite_askers(handle, path)
        holder = read_holder(path)
        if not guarded and holder is not None and holder.pid == os.getpid():
            # A loader that nobody refers to any more may lie in a cycle, such as of a traceback.
            gc.collect()
            wait_for_dropped()
            guarded, holder = _lock(handle), read_holder(path)
        if holder is not None and (guarded is None or (not guarded and _alive(holder))):
            raise _busy(path, holder)
        if guarded is None:
            raise _busy(path, Holder(pid=0, host="an unknown host", launch=""))
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "launch": launch}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(owner).encode(), 0)
    except BaseException:  # whatever it was, an open handle would keep the lock
        os.close(handle)
        raise
    return RankSlot(path, handle, guarded=guarded)


def live_holder(path: Path) -> Holder | None:
    """Return who holds the slot at `path` now, or None if it is free."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        guarded = _lock(handle)
        holder = read_holder(path)
        if guarded or holder is None:
            return None
        return holder if guarded is None or _alive(holder) else None
    finally:
        os.close(handle)


def is_written(run_path: Path) -> bool:
    """Return whether a trainer or a trial records in the run now, as far as its locks can tell."""
    return any(live_holder(slot) is not None for slot in (run_path / "locks").glob("*-*-*.lock"))


def read_holder(path: Path) -> Holder | None:
    """Return what the file at `path` says of its last holder, or None if it says nothing."""
    try:
        value = json.loads(path.read_bytes())
        return Holder(
            pid=int(value["pid"]), host=str(value["host"]), launch=str(value.get("launch", ""))
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lock(handle: int) -> bool | None:
    """Return True if locked, None if another holds it, False if the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in NO_LOCKS:
            return False
        raise
    return True


def _lock_despite_askers(handle: int, path: Path) -> bool | None:
    """Lock as `_lock` does, but wait for those who hold the lock only to ask who does."""
    for _ in range(ASKS):
        guarded = _lock(handle)
        holder = read_holder(path)
        if guarded is not None or (holder is not None and _alive(holder)):
            return guarded
        time.sleep(MOMENT)
    return None


def _alive(holder: Holder) -> bool:
    """Whether `holder` may still live; a process of another host is taken for alive."""
    if holder.host != socket.gethostname():
        return True
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _busy(path: Path, holder: Holder) -> Busy:
    if holder.pid == os.getpid():
        return Busy(
            f"this process is training on this run already and holds {path}; call close() on the "
            "loader that it made before: its name still holds it, after an exception too"
        )
    return Busy(
        f"process {holder.pid} on {holder.host} is training on this run and holds {path}; "
        "stop it or close its loader first, or wait for it to end"
    )


_held: weakref.WeakSet[RankSlot] = weakref.WeakSet()
_hooked: list[bool] = []


def _forget_after_fork(slot: RankSlot) -> None:
    if not _hooked:
        os.register_at_fork(after_in_child=_forget_all)
        _hooked.append(True)
    _held.add(slot)


def _forget_all() -> None:
    for slot in list(_held):
        slot._forget()
