"""Work in DuckDB that Ctrl-C and a time limit can end.

A query holds the thread that runs it, and signals reach Python only between two calls; so the
query gets a thread of its own, and the caller waits where it can be interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from ...loader.aside import aside
from ...loader.errors import ShardwardError

PATIENCE_SECONDS = 2.0
_EVERY_SECONDS = 0.05

T = TypeVar("T")


class OutOfTime(ShardwardError):
    """The work took longer than it was given and was stopped."""


class Unstoppable(ShardwardError):
    """The engine did not react to being stopped; its thread still runs.

    `interrupted` tells a Ctrl-C from a limit that was over.
    """

    def __init__(self, *, interrupted: bool) -> None:
        why = "interrupted" if interrupted else "its time was over"
        super().__init__(
            f"{why}, but a step of the query does not react to being stopped, and goes on until "
            "the process ends"
        )
        self.interrupted = interrupted


def stoppable(work: Callable[[], T], interrupt: Callable[[], None], *, seconds: float | None) -> T:
    """Return what `work` does in a thread of its own.

    Args:
        work: runs a query.
        interrupt: makes `work` raise soon; may be called again and again.
        seconds: after this time it is stopped; None lets it run.

    Raises:
        KeyboardInterrupt: after the work was stopped.
        OutOfTime: so was it when its time was over.
        Unstoppable: either, and the work did not react within 2 seconds.
    """
    thread, future = aside(work, "ledger-query")
    try:
        # A Ctrl-C may come at any moment from here on, also before the thread is seen to run.
        thread.start()
        wait([future], seconds)
    except KeyboardInterrupt:
        _stop(future, interrupt, interrupted=True)
        raise
    if not future.done():
        _stop(future, interrupt, interrupted=False)
        raise OutOfTime(f"the query ran for {seconds} s and was stopped")
    return future.result()


def _stop(future: Future[T], interrupt: Callable[[], None], *, interrupted: bool) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while not future.done() and time.monotonic() < deadline:
            # One call can fall between two steps of a query and be forgotten.
            interrupt()
            wait([future], _EVERY_SECONDS)
    except KeyboardInterrupt as error:
        raise Unstoppable(interrupted=True) from error
    if not future.done():
        raise Unstoppable(interrupted=interrupted)
