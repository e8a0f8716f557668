"""Windows in the order a walk needs them, the next one read while the current one is used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from .blocks import BlockData, token_dtype
from .errors import CorruptBlock
from .exclusion import Exclusion
from .manifest import Manifest
from .order import EpochOrder
from .window import Window

RETRIES = 2
RETRY_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LostBlock:
    """A block that could not be read and whose documents are masked from here on."""

    block: int
    shard: str
    first_document: int
    documents: int
    error: str

    def to_json(self) -> dict[str, Any]:
        """Return the journal event's fields."""
        return asdict(self)


class WindowFeed:
    """Reads and decodes windows; each block is checked, retried, and lost or fatal.

    Args:
        manifest: the corpus.
        order: returns the order of an epoch.
        exclusion: the revision in force.
        threads: readers that work ahead on the next window; 0 reads when asked, and only then.
        epochs: number of epochs, None for no end; nothing is read ahead past the last.
        hold_corrupt: mask a block that stays unreadable instead of raising.

    Attributes:
        lost: blocks masked so far, in the order in which they were met.
        bytes_read: decoded bytes of all windows handed out.
    """

    def __init__(
        self,
        manifest: Manifest,
        order: Callable[[int], EpochOrder],
        *,
        exclusion: Exclusion,
        threads: int,
        epochs: int | None,
        hold_corrupt: bool,
    ) -> None:
        self._manifest = manifest
        self._order = order
        self._exclusion = exclusion
        self._dtype = token_dtype(manifest.header.tokenizer.vocabulary)
        self._epochs = epochs
        self._hold_corrupt = hold_corrupt
        self._pool: Executor | None = (
            ThreadPoolExecutor(threads, thread_name_prefix="shardward-read") if threads else None
        )
        self._pending: dict[tuple[int, int], list[Future[BlockData | None]]] = {}
        self._windows: dict[tuple[int, int], Window] = {}
        self._reading: dict[int, tuple[str, float]] = {}
        self.lost: list[LostBlock] = []
        self.bytes_read = 0

    def window(self, epoch: int, index: int, *, oldest: int) -> Window:
        """Return a window, keeping those from `oldest` of this epoch on in memory."""
        key = (epoch, index)
        for old in [known for known in self._windows if known < (epoch, oldest)]:
            del self._windows[old]
        if key not in self._windows:
            self._start(key)
            self._windows[key] = self._build(key)
            after = self._successor(key)
            if after is not None:
                self._start(after)
        return self._windows[key]

    def reading(self) -> list[tuple[str, float]]:
        """Return (shard, seconds so far) of every read in progress."""
        now = time.monotonic()
        return [(uri, now - since) for uri, since in list(self._reading.values())]

    def close(self) -> None:
        """Drop what is pending; a read in progress ends by itself."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._windows.clear()
        self._pending.clear()

    def _successor(self, key: tuple[int, int]) -> tuple[int, int] | None:
        epoch, index = key
        if index + 1 < self._order(epoch).windows:
            return epoch, index + 1
        if self._epochs is None or epoch + 1 < self._epochs:
            return epoch + 1, 0
        return None

    def _start(self, key: tuple[int, int]) -> None:
        if self._pool is None or key in self._pending:
            return
        blocks = self._order(key[0]).blocks(key[1]).tolist()
        self._pending[key] = [self._pool.submit(self._read, block) for block in blocks]

    def _build(self, key: tuple[int, int]) -> Window:
        order = self._order(key[0])
        numbers = order.blocks(key[1]).tolist()
        if self._pool is None:
            blocks = [self._read(number) for number in numbers]
        else:
            blocks = [future.result() for future in self._pending.pop(key)]
        first = self._manifest.geometry().first_document
        spans = [(int(first[number]), int(first[number + 1])) for number in numbers]
        codes = [self._manifest.sources(low, high) for low, high in spans]
        window = Window(order, key[1], blocks, codes, exclusion=self._exclusion, dtype=self._dtype)
        self.bytes_read += window.nbytes
        return window

    def _read(self, block: int) -> BlockData | None:
        shard, thread = self._manifest.shard_of(block), threading.get_ident()
        self._reading[thread] = (shard.uri, time.monotonic())
        try:
            return self._read_checked(block)
        except CorruptBlock as error:
            if not self._hold_corrupt:
                raise
            span = self._manifest.span(block)
            lost = LostBlock(
                block=block,
                shard=shard.uri,
                first_document=shard.first_document + span.first,
                documents=span.documents,
                error=str(error),
            )
            self.lost.append(lost)
            return None
        finally:
            del self._reading[thread]

    def _read_checked(self, block: int) -> BlockData:
        for attempt in range(RETRIES):
            try:
                return self._manifest.open_block(block)
            except CorruptBlock:
                time.sleep(RETRY_SECONDS * (attempt + 1))
        return self._manifest.open_block(block)
