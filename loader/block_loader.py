"""Reading one block for a window: tries again, says where it is, and gives up in the chosen way."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from .blocks import BlockData
from .errors import CorruptBlock, UnreachableShard
from .manifest import Manifest

LOG = logging.getLogger(__name__)
RETRIES = 2
RETRY_SECONDS = 0.05
LONGEST_WAIT = 10.0
LOST_BLOCKS, LOST_SHARE = 8, 0.01
"""So many blocks, or this share of all, may be masked; more is no accident of single blocks."""


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


class BlockLoader:
    """Loads checked blocks, from any thread.

    Args:
        manifest: the corpus.
        hold_corrupt: return None for a block that stays damaged instead of raising.
        patience: seconds to wait for a shard that the store does not hand out. An outage is never
            held: training on masks would go on as if nothing were wrong.

    Attributes:
        lost: blocks given up, in the order in which they were met.
    """

    def __init__(self, manifest: Manifest, *, hold_corrupt: bool, patience: float) -> None:
        self._manifest = manifest
        self._hold_corrupt = hold_corrupt
        self._patience = patience
        self._most_lost = max(LOST_BLOCKS, int(LOST_SHARE * manifest.header.blocks))
        self._closed = threading.Event()
        self._reading: dict[int, tuple[str, float]] = {}
        self.lost: list[LostBlock] = []

    def load(self, block: int, place: NDArray[Any]) -> BlockData | None:
        """Decode `block` into `place`, which has its size, and return it from there.

        Arrow's own memory is free again at once, in the thread that took it: a window that held
        on to sixteen decoded blocks would make the allocator go through fresh pages for ever.

        Raises:
            CorruptBlock: it stays damaged, and `hold_corrupt` is not set or too many were.
            UnreachableShard: the store did not hand it out for `patience` seconds.
        """
        shard, thread = self._manifest.shard_of(block), threading.get_ident()
        self._reading[thread] = (shard.uri, time.monotonic())
        try:
            data = self._read(block, place)
        except CorruptBlock as error:
            if not self._hold_corrupt or len(self.lost) >= self._most_lost:
                raise
            self._give_up(block, error)
            return None
        finally:
            del self._reading[thread]
        if data.values is not place:
            place[:] = data.values
        return BlockData(values=place, offsets=data.offsets)

    def reading(self) -> list[tuple[str, float]]:
        """Return (shard, seconds so far) of every read in progress."""
        now = time.monotonic()
        return [(uri, now - since) for uri, since in list(self._reading.values())]

    def close(self) -> None:
        """Let reads that wait for the store give up."""
        self._closed.set()

    def _read(self, block: int, place: NDArray[Any]) -> BlockData:
        for attempt in range(RETRIES):
            try:
                return self._reached(block, place)
            except CorruptBlock:
                time.sleep(RETRY_SECONDS * (attempt + 1))
        return self._reached(block, place)

    def _reached(self, block: int, place: NDArray[Any]) -> BlockData:
        """Read `block`, waiting longer and longer while the store fails."""
        pause, until = RETRY_SECONDS, time.monotonic() + self._patience
        while True:
            try:
                return self._manifest.open_block(block, place)
            except UnreachableShard as error:
                if time.monotonic() + pause > until or self._closed.wait(pause):
                    raise
                LOG.warning(
                    "waiting %.1f s for the store, %.0f s more at most: %s",
                    pause,
                    max(0.0, until - time.monotonic()),
                    error,
                )
                pause = min(2 * pause, LONGEST_WAIT)

    def _give_up(self, block: int, error: CorruptBlock) -> None:
        span, shard = self._manifest.span(block), self._manifest.shard_of(block)
        self.lost.append(
            LostBlock(
                block=block,
                shard=shard.uri,
                first_document=shard.first_document + span.first,
                documents=span.documents,
                error=str(error),
            )
        )
