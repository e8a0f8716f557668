"""Loaders that nobody closed: ended when they are collected, or when the interpreter ends.

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
from dataclasses import dataclass
from queue import SimpleQueue

LOG = logging.getLogger(__name__)
PATIENCE = 10.0
"""Seconds to wait for loaders that were dropped: a read of theirs may hang with its store."""

Close = Callable[[], object]
"""Ends a part of a loader; calling it twice is harmless. It refers to no loader."""
User = Callable[[], threading.Thread | None]


@dataclass(frozen=True, slots=True)
class _Open:
    """What ends a loader of `process`, and which thread uses it."""

    process: int
    closes: tuple[Close, ...]
    user: User


def close_when_dropped(owner: object, *closes: Close, user: User = lambda: None) -> None:
    """Call `closes` in their order once `owner` is collected, or else before the program ends.

    That is when the main thread has ended or, for a loader that another thread uses which the
    program waits for, when that thread has. Neither happens in a forked child, whose copy of the
    owner has none of its threads.
    """
    closer = _closers.get(os.getpid()) or _closers.setdefault(os.getpid(), _Closer())
    weakref.finalize(owner, closer.take, closes).atexit = False
    if not _hooked:
        _hooked.append(True)
        # A plain `atexit` function runs only when the pools' threads have been waited for, and
        # one of them may be waiting for a shard. The pools register themselves in this way too.
        register: Callable[..., object] = getattr(threading, "_register_atexit", atexit.register)
        register(_close_unused)
        atexit.register(_close_open)
    _open[owner] = _Open(os.getpid(), closes, user)


def wait_for_dropped() -> None:
    """Return when every loader that was collected so far is ended, or does not end for long."""
    closer = _closers.get(os.getpid())
    if closer is not None:
        ended = threading.Event()
        closer.take((ended.set,))
        ended.wait(PATIENCE)


class _Closer:
    """A thread that ends what was dropped.

    The collector may run anywhere: in a thread that is to be ended, or in one that holds a lock,
    such as that of logging, which a thread to be ended waits for. So a finalizer only leaves word,
    in a queue that is made for that.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._dropped: SimpleQueue[tuple[Close, ...]] = SimpleQueue()
        threading.Thread(target=self._run, name="close-dropped", daemon=True).start()

    def take(self, closes: tuple[Close, ...]) -> None:
        """Have `closes` called, but in a forked child, which has no such thread."""
        if self._process == os.getpid():
            self._dropped.put(closes)

    def _run(self) -> None:
        while True:
            _close(self._dropped.get())


def _close_unused() -> None:
    wait_for_dropped()
    for one in list(_open.values()):
        if not _is_used(one.user()):
            _close_own(one)


def _close_open() -> None:
    wait_for_dropped()
    for one in list(_open.values()):
        _close_own(one)


def _is_used(user: threading.Thread | None) -> bool:
    """Return whether the interpreter is about to wait for a thread that may ask for more."""
    return (
        user is not None
        and user is not threading.main_thread()
        and user.is_alive()
        and not user.daemon
    )


def _close_own(one: _Open) -> None:
    if one.process == os.getpid():
        _close(one.closes)


def _close(closes: tuple[Close, ...]) -> None:
    for close in closes:
        try:
            close()
        except Exception as error:  # a store's client may raise anything, and the rest is to end
            LOG.warning("a loader that was not closed could not be ended: %s", error)


_open: weakref.WeakKeyDictionary[object, _Open] = weakref.WeakKeyDictionary()
_closers: dict[int, _Closer] = {}
"""That of each process: a forked child has its parent's as well, without the thread."""
_hooked: list[bool] = []
