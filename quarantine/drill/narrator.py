"""How the drill tells what it does; the command line decides how that looks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

SHOWN = 12
"""Rows that a table of documents has at most."""


def shown(number: int) -> str:
    """Return how many of `number` rows a table shows: "12 of 35 shown", "7"."""
    return f"{SHOWN} of {number} shown" if number > SHOWN else str(number)


class Advance(Protocol):
    """Reports `n` more units of work done and, optionally, a word about them."""

    def __call__(self, n: int = 1, note: str = "") -> None: ...


class Narrator(Protocol):
    """What the drill may say."""

    def phase(self, number: int, total: int, title: str) -> None:
        """Phase `number` of `total` begins."""

    def say(self, line: str) -> None:
        """One fact."""

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Several facts of one kind."""

    def progress(self, description: str, total: int) -> AbstractContextManager[Advance]:
        """Work of known size begins; the context's value hears of it."""
