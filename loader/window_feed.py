"""Windows in the order a walk needs them, the next one read while the current one is used."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .block_loader import BlockLoader
from .blocks import BlockData, token_dtype
from .exclusion import Exclusion
from .manifest import Manifest
from .order import EpochOrder
from .window import Window

Key = tuple[int, int]
"""Epoch and number of a window."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A window whose blocks are being read into `buffer`."""

    buffer: NDArray[Any]
    blocks: list[Future[BlockData | None]]


class WindowFeed:
    """Reads and decodes windows, ahead of their use.

    Args:
        manifest: the corpus.
        order: returns the order of an epoch.
        exclusion: the revision in force.
        threads: readers that work ahead on the next window; 0 reads when asked, and only then.
        epochs: number of epochs, None for no end; nothing is read ahead past the last.
        hold_corrupt: mask a block that stays damaged instead of raising.
        patience: seconds to wait for a shard that the store does not hand out.

    Attributes:
        loader: reads the blocks; knows which are being read and which were lost.
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
        patience: float,
    ) -> None:
        self._manifest = manifest
        self._order = order
        self._exclusion = exclusion
        self._dtype = token_dtype(manifest.header.tokenizer.vocabulary)
        self._epochs = epochs
        self._pool: Executor | None = (
            ThreadPoolExecutor(threads, thread_name_prefix="shardward-read") if threads else None
        )
        self._pending: dict[Key, _Reading] = {}
        self._windows: dict[Key, tuple[Window, NDArray[Any]]] = {}
        self._free: list[NDArray[Any]] = []
        self._largest: int | None = None
        self.loader = BlockLoader(manifest, hold_corrupt=hold_corrupt, patience=patience)
        self.bytes_read = 0

    def window(self, epoch: int, index: int, *, oldest: int) -> Window:
        """Return a window, keeping those from `oldest` of this epoch on in memory.

        An older window must not be used any more: its buffer holds another one soon.
        """
        key = (epoch, index)
        for old in [known for known in self._windows if known < (epoch, oldest)]:
            self._free.append(self._windows.pop(old)[1])
        if key not in self._windows:
            self._windows[key] = self._build(key)
            after = self._successor(key)
            if after is not None and self._pool is not None:
                self._start(self._pool, after)
        return self._windows[key][0]

    def close(self) -> None:
        """Drop what is pending and wait for the reads in progress, a block each."""
        self.loader.close()
        if self._pool is not None:
            # A reader takes its open shards with it; one that still did so while the interpreter
            # shuts down would abort the process.
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._windows.clear()
        self._pending.clear()
        self._free.clear()

    def _successor(self, key: Key) -> Key | None:
        epoch, index = key
        if index + 1 < self._order(epoch).windows:
            return epoch, index + 1
        if self._epochs is None or epoch + 1 < self._epochs:
            return epoch + 1, 0
        return None

    def _start(self, pool: Executor, key: Key) -> None:
        if key in self._pending:
            return
        # A window that was passed over leaves its readers behind, so its buffer is not used again.
        for old in [known for known in self._pending if known < key]:
            del self._pending[old]
        buffer, numbers, places = self._places(key)
        blocks = [
            pool.submit(self._load, number, place)
            for number, place in zip(numbers, places, strict=True)
        ]
        self._pending[key] = _Reading(buffer, blocks)

    def _load(self, block: int, place: NDArray[Any]) -> BlockData | None:
        """Read `block` into `place`, unless the revision leaves all of it out.

        A block that a revision names because it is damaged is not met again, then. What stands in
        `place` is never delivered: every piece of the block is blanked.
        """
        first = self._manifest.geometry().first_document
        low, high = int(first[block]), int(first[block + 1])
        if not self._exclusion.covers(low, high):
            return self.loader.load(block, place)
        offsets = np.zeros(high - low + 1, np.int64)
        np.cumsum(self._manifest.lengths(low, high), out=offsets[1:])
        return BlockData(values=place, offsets=offsets)

    def _build(self, key: Key) -> tuple[Window, NDArray[Any]]:
        if self._pool is None:
            buffer, numbers, places = self._places(key)
            blocks = [self._load(*job) for job in zip(numbers, places, strict=True)]
        else:
            self._start(self._pool, key)
            reading = self._pending.pop(key)
            buffer, blocks = reading.buffer, [block.result() for block in reading.blocks]
        order = self._order(key[0])
        first = self._manifest.geometry().first_document
        spans = [(int(first[n]), int(first[n + 1])) for n in order.blocks(key[1]).tolist()]
        codes = [self._manifest.sources(low, high) for low, high in spans]
        window = Window(order, key[1], blocks, codes, exclusion=self._exclusion, dtype=self._dtype)
        self.bytes_read += window.nbytes
        return window, buffer

    def _places(self, key: Key) -> tuple[NDArray[Any], list[int], list[NDArray[Any]]]:
        """Return (buffer, blocks of the window, the part of the buffer that each is read into)."""
        numbers = self._order(key[0]).blocks(key[1])
        ends = np.cumsum(self._manifest.geometry().block_tokens[numbers]).tolist()
        buffer = self._buffer(key)
        places = [buffer[low:high] for low, high in pairwise([0, *ends])]
        return buffer, numbers.tolist(), places

    def _buffer(self, key: Key) -> NDArray[Any]:
        """Return a used buffer, or a new one as large as any window can be.

        One size fits all windows, so none is ever thrown away; pages that no window touches cost
        nothing.
        """
        if self._free:
            return self._free.pop()
        if self._largest is None:
            window = self._order(key[0]).layout.plan.window_blocks
            tokens = np.sort(self._manifest.geometry().block_tokens)
            self._largest = int(tokens[-window:].sum())
        return np.empty(self._largest, self._dtype)
