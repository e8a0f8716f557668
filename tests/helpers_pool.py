"""What worker processes are given in tests; they import it by name, and little else."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import NoReturn


def slow_double(item: int, by: int) -> int:
    """Return the product, after a while that depends on the item."""
    time.sleep(0.002 * (7 - item % 7))
    return item * by


def sleep_long(item: int, seconds: int) -> int:
    """Return at once for item 0, after `seconds` for the others."""
    time.sleep(seconds if item else 0)
    return item


def die() -> NoReturn:
    """End the process, as the kernel's memory killer would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die_at(item: int, last: int) -> int:
    """End the process at item `last`; return the others."""
    return die() if item == last else item


def die_from(item: int, first: int) -> int:
    """End the process from item `first` on."""
    return die() if item >= first else item


def slow_then_die(item: int, first: int) -> int:
    """Return item 0 when the workers beside it have died; end the process from `first` on."""
    if item == 0:
        time.sleep(1.0)
    return die_from(item, first)


def die_once(item: int, mark: Path) -> int:
    """End the process at item 4 the first time, as `mark` then tells."""
    if item == 4 and not mark.exists():
        mark.touch()
        die()
    return item


def unlucky(item: tuple[int, int], number: int) -> tuple[int, int]:
    """End the process where the range holds `number`."""
    return die() if number in range(*item) else item


def holding(_item: int, _: int) -> threading.Lock:
    """Return what no other process can have."""
    return threading.Lock()


class Odd(Exception):
    """An error that pickle cannot make again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def odd(_item: int, _: int) -> NoReturn:
    """Raise what cannot be sent."""
    raise Odd("str", "ange")


def printing(item: int, _: int) -> int:
    """Print as code in C does, below the streams of Python."""
    os.write(1, b"printed")
    return item


class Killer:
    """A detector that ends the process at a text that begins with DIE."""

    name, version, family = "killer", 1, "test"

    def examine(self, text: str, source: str) -> None:
        """Say nothing."""
        if text.startswith("DIE"):
            die()
