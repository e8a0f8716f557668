"""Loaders that nobody closed: closed when they are collected, or when the interpreter ends.

None of a loader's threads refers to it, so dropping its last name is enough to free its run. A
traceback that is kept, as a notebook keeps the latest, is such a name.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from .errors import ShardwardError

LOG = logging.getLogger(__name__)
_OWN_THREADS = ("shardward-", "journal-sync")


class Closable(Protocol):
    """What `close` ends; calling it twice is harmless."""

    def close(self) -> None:
        """End it."""


def close_when_dropped(owner: Closable, *parts: Closable) -> None:
    """Close `parts` in their order once `owner` is collected, and `owner` before the program ends.

    Neither happens in a forked child, whose copy of the owner has none of its threads.
    """
    weakref.finalize(owner, _drop, parts, os.getpid()).atexit = False
    if not _hooked:
        _hooked.append(True)
        # A plain `atexit` function runs only when the pools' threads have been waited for, and
        # one of them may be waiting for a shard. The pools register themselves in this way too.
        register: Callable[..., object] = getattr(threading, "_register_atexit", atexit.register)
        register(_close_open)
    _open[owner] = os.getpid()


def _drop(parts: tuple[Closable, ...], process: int) -> None:
    if os.getpid() != process:
        return
    if threading.current_thread().name.startswith(_OWN_THREADS):
        # The collector may run in a thread that is to be ended, and none can wait for itself.
        threading.Thread(target=_close, args=(parts,), name="close-dropped").start()
    else:
        _close(parts)


def _close_open() -> None:
    _close(tuple(owner for owner, process in list(_open.items()) if process == os.getpid()))


def _close(parts: tuple[Closable, ...]) -> None:
    for part in parts:
        try:
            part.close()
        except (OSError, ShardwardError) as error:
            LOG.warning("a loader that was not closed could not be ended: %s", error)


_open: weakref.WeakKeyDictionary[Closable, int] = weakref.WeakKeyDictionary()
_hooked: list[bool] = []
