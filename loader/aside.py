"""Work in a thread of its own, which no program waits for at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def aside(work: Callable[[], T], name: str) -> tuple[threading.Thread, Future[T]]:
    """Return a thread, not started, and what will hold the result or the error of `work`.

    The thread is a daemon: an executor's would keep the interpreter waiting for work that hangs.
    """
    future: Future[T] = Future()
    return threading.Thread(target=_run, args=(work, future), name=name, daemon=True), future


def _run(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        # Whatever it is, whoever asks for the result raises it, or would wait for ever.
        future.set_exception(error)
