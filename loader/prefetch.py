"""A thread that works ahead of its consumer, bounded by bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from .errors import ShardwardError

Item = TypeVar("Item")


class Prefetcher(Generic[Item]):
    """Runs `items` in a background thread and hands them out in order.

    The thread stops when `limit` bytes are waiting and goes on when half of them are gone, so
    that it wakes rarely. One item larger than the limit passes alone. How far it is ahead changes
    when things happen, never what comes out.

    An item that is ready costs its consumer no lock: each side writes one of the two byte counts,
    and takes the lock only to wait, or to wake the other side, which says beforehand that it
    waits. Nor does dropping one: the thread lets go of what was handed out, all but the latest,
    before it makes more, so both together stay below the limit.

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
        self._used: deque[Item] = deque()
        self._made = self._taken = 0
        self._full = self._hungry = False
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="shardward-prefetch", daemon=True)

    def start(self) -> None:
        """Let the thread begin; once."""
        self._thread.start()

    def get(self, timeout: float, on_timeout: Callable[[], None]) -> Item:
        """Return the next item; call `on_timeout` after each `timeout` seconds of waiting.

        Raises:
            StopIteration: there are no more.
            ShardwardError: this is a forked child, which has no thread that could make one, or a
                signal handler closed this meanwhile.
        """
        if not self._ready:
            self._wait(timeout, on_timeout)
        try:
            item, size = self._ready.popleft()
        except IndexError:
            raise ShardwardError("the loader was closed while it waited for data") from None
        self._taken += size
        if not self._ended:
            self._used.append(item)
        return item

    def refill(self) -> None:
        """Let the thread go on if it stopped and less than half of the limit is waiting."""
        if self._full and self._made - self._taken <= self._limit // 2:
            with self._changed:
                self._changed.notify_all()

    def close(self) -> None:
        """Stop the thread after the item it works on."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._used.clear()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def _wait(self, timeout: float, on_timeout: Callable[[], None]) -> None:
        """Return when an item is ready, or raise what ended the items."""
        if not (self._thread.is_alive() or self._ended):
            # Its lock may have been held at the fork, so it is not asked for.
            raise ShardwardError(
                "the loader was made before a fork, and its threads are not in this process; make "
                "a loader here, or use threads=0"
            )
        self.refill()
        with self._changed:
            self._hungry = True
            while not self._ready and not self._ended:
                if not self._changed.wait(timeout):
                    on_timeout()
            self._hungry = False
            if not self._ready:
                raise self._error or StopIteration

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                if not self._put(item):
                    break
        except BaseException as raised:  # a Rust panic too, or `get` never ends
            error = raised  # the consumer raises it, after what came before
        with self._changed:
            self._error = error
            self._ended = True
            self._used.clear()
            self._changed.notify_all()

    def _put(self, item: Item) -> bool:
        size = self._size(item)
        if self._made - self._taken + size > self._limit:
            self._wait_for_room()
        if self._closed:
            return False
        while len(self._used) > 1:
            self._used.popleft()
        self._made += size
        self._ready.append((item, size))
        if self._hungry:
            with self._changed:
                self._changed.notify_all()
        return True

    def _wait_for_room(self) -> None:
        with self._changed:
            self._full = True
            while self._made - self._taken > self._limit // 2 and not self._closed:
                self._changed.wait()
            self._full = False
