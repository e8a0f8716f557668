"""A process that dies at a chosen write: nothing more of what it does reaches the disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

WRITES = ("fsync", "replace", "rename", "link", "write", "unlink", "mkdir")


class Crash(BaseException):
    """The process dies here."""


class Death:
    """Counts writes, and dies at number `at` of them, before or after it is done; 0: never."""

    def __init__(self, at: int, *, after: bool = False) -> None:
        self.at = at
        self.after = after
        self.seen = 0

    @property
    def dead(self) -> bool:
        return 0 < self.at <= self.seen

    def wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **options: Any) -> Any:
            if self.dead:
                raise Crash
            self.seen += 1
            if self.dead and not self.after:
                raise Crash
            done = real(*arguments, **options)
            if self.dead:
                raise Crash
            return done

        return write


@contextmanager
def dying(at: int, *, after: bool = False) -> Iterator[Death]:
    """Let the block die at write `at`; what it had locked is free again, as after a kill."""
    death = Death(at, after=after)
    with pytest.MonkeyPatch.context() as patched:
        for name in WRITES:
            patched.setattr(os, name, death.wrapped(getattr(os, name)))
        try:
            yield death
        except Crash:
            assert death.dead
