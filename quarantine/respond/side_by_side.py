"""Calls that wait for others, side by side: the slowest decides how long they take together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import TypeVar

from ...loader.aside import aside

T = TypeVar("T")


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run each call in a thread of its own and return what they gave, in order.

    All of them end before the first error is raised, in the order of the calls. The threads do not
    keep a program alive that is told to end, so Ctrl-C need not wait for them.
    """
    if len(calls) == 1:
        return [calls[0]()]
    threads = [aside(call, f"side-by-side-{place}") for place, call in enumerate(calls)]
    for thread, _ in threads:
        thread.start()
    results = [future for _, future in threads]
    wait(results)
    return [future.result() for future in results]
