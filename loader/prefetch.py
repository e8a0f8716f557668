"""A thread that works ahead of its consumer, bounded by bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Prefetcher(Generic[Item]):
    """Runs `items` in a background thread and hands them out in order.

    The thread stops when `limit` bytes are waiting and goes on when half of them are gone, so
    that it wakes rarely. One item larger than the limit passes alone. How far it is ahead changes
    when things happen, never what comes out.

    Args:
        items: what to produce; its exceptions reach the consumer at the place they occurred.
        size: bytes of an item.
        limit: bytes that may wait.
    """

    def __init__(self, items: Iterator[Item], size: Callable[[Item], int], limit: int) -> None:
        self._items = items
        self._size = size
        self._limit = limit
        self._ready: deque[tuple[Item, int]] = deque()
        self._bytes = 0
        self._ended = False
        self._closed = False
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="shardward-prefetch", daemon=True)
        self._thread.start()

    def get(self, timeout: float, on_timeout: Callable[[], None]) -> Item:
        """Return the next item; call `on_timeout` after each `timeout` seconds of waiting.

        Raises:
            StopIteration: there are no more.
        """
        with self._changed:
            while not self._ready and not self._ended:
                if not self._changed.wait(timeout):
                    on_timeout()
            if not self._ready:
                if self._error is not None:
                    raise self._error
                raise StopIteration
            item, size = self._ready.popleft()
            self._bytes -= size
            return item

    def refill(self) -> None:
        """Let the thread go on if less than half of the limit is waiting."""
        if self._bytes <= self._limit // 2 and not self._ended:
            with self._changed:
                self._changed.notify_all()

    def close(self) -> None:
        """Stop the thread after the item it works on."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        error: Exception | None = None
        try:
            for item in self._items:
                if not self._put(item):
                    break
        except Exception as raised:
            error = raised  # the consumer raises it, after what came before
        with self._changed:
            self._error = error
            self._ended = True
            self._changed.notify_all()

    def _put(self, item: Item) -> bool:
        size = self._size(item)
        with self._changed:
            if self._bytes + size > self._limit:
                while self._bytes > self._limit // 2 and not self._closed:
                    self._changed.wait()
            if self._closed:
                return False
            self._ready.append((item, size))
            self._bytes += size
            self._changed.notify_all()
            return True
