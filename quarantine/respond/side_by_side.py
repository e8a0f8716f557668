"""Calls that wait for others, side by side: the slowest decides how long they take together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run each call in a thread of its own and return what they gave, in order.

    All of them end before the first error is raised, in the order of the calls. The threads do not
    keep a program alive that is told to end, so Ctrl-C need not wait for them.
    """
    if len(calls) == 1:
        return [calls[0]()]
    given: dict[int, T] = {}
    failed: dict[int, BaseException] = {}

    def run(place: int) -> None:
        try:
            given[place] = calls[place]()
        except BaseException as error:  # Raised again where the caller waits.
            failed[place] = error

    threads = [
        threading.Thread(target=run, args=(place,), name=f"side-by-side-{place}", daemon=True)
        for place in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[min(failed)]
    return [given[place] for place in range(len(calls))]
