"""The border to code of others: text detectors of installed packages, and language models."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from time import monotonic
from typing import NoReturn, TypeVar

from ...loader.aside import aside
from ...loader.errors import ShardwardError

T = TypeVar("T")
MOST_SAID = 400
"""Characters of what code of others raised."""
AGAIN = 1.0
"""Seconds from one interrupt to the next, where code of others caught the first."""


class ForeignFailure(ShardwardError):
    """Code of others could not do what it was asked; the message is what it raised."""


@contextmanager
def foreign() -> Iterator[None]:
    """Let code of others run; what it prints goes to stderr, since stdout is for results.

    Raises:
        ForeignFailure: it raised an error, of whatever class, or wanted to exit; a person's
            interrupt passes through, and so does `Overdue`.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (KeyboardInterrupt, Overdue):
        raise
    except BaseException as error:  # a panic of Rust, or a cancelled task, is no Exception
        raise ForeignFailure(_said(error)) from error


def _said(error: BaseException) -> str:
    try:
        return repr(error)[:MOST_SAID]
    except Exception:  # others write that, too
        return f"{type(error).__name__}, which cannot be shown"


class Overdue(BaseException):
    """Code of others took too long; no `except Exception` of theirs holds it up."""


def bounded(call: Callable[[], T], seconds: float) -> T:
    """Return what `call` returns within `seconds`.

    In the main thread the alarm clock interrupts it, regular expressions too, which would hold
    every other thread up. In another thread, or where the program has a use for SIGALRM, it is left
    to run in a thread of its own, which is slower to ask and not ended.

    Raises:
        Overdue: it took longer.
    """
    if threading.current_thread() is threading.main_thread() and _alarm_is_free():
        return _interrupted(call, seconds)
    thread, future = aside(call, "code of others")
    thread.start()
    thread.join(seconds)
    if not future.done():
        raise Overdue
    return future.result()


def _alarm_is_free() -> bool:
    free = signal.getitimer(signal.ITIMER_REAL)[0] == 0
    return free and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def _interrupted(call: Callable[[], T], seconds: float) -> T:
    rung: list[bool] = []
    latest = monotonic() + seconds

    def ring(_signal: int, _frame: object) -> NoReturn:
        rung.append(True)
        raise Overdue

    signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
            return call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if rung or monotonic() > latest:  # also where the call made something else of it
                raise Overdue
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
