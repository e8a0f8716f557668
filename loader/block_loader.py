"""Reading one block for a window: tries again, says where it is, and gives up in the chosen way."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from .blocks import BlockData
from .errors import CorruptBlock
from .manifest import Manifest

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


class BlockLoader:
    """Loads checked blocks, from any thread.

    Args:
        manifest: the corpus.
        hold_corrupt: return None for a block that stays unreadable instead of raising.

    Attributes:
        lost: blocks given up, in the order in which they were met.
    """

    def __init__(self, manifest: Manifest, *, hold_corrupt: bool) -> None:
        self._manifest = manifest
        self._hold_corrupt = hold_corrupt
        self._reading: dict[int, tuple[str, float]] = {}
        self.lost: list[LostBlock] = []

    def load(self, block: int, place: NDArray[Any]) -> BlockData | None:
        """Decode `block` into `place`, which has its size, and return it from there.

        Arrow's own memory is free again at once, in the thread that took it: a window that held
        on to sixteen decoded blocks would make the allocator go through fresh pages for ever.

        Raises:
            CorruptBlock: it stays unreadable and `hold_corrupt` is not set.
        """
        shard, thread = self._manifest.shard_of(block), threading.get_ident()
        self._reading[thread] = (shard.uri, time.monotonic())
        try:
            data = self._read(block)
        except CorruptBlock as error:
            if not self._hold_corrupt:
                raise
            self._give_up(block, error)
            return None
        finally:
            del self._reading[thread]
        place[:] = data.values
        return BlockData(values=place, offsets=data.offsets)

    def reading(self) -> list[tuple[str, float]]:
        """Return (shard, seconds so far) of every read in progress."""
        now = time.monotonic()
        return [(uri, now - since) for uri, since in list(self._reading.values())]

    def _read(self, block: int) -> BlockData:
        for attempt in range(RETRIES):
            try:
                return self._manifest.open_block(block)
            except CorruptBlock:
                time.sleep(RETRY_SECONDS * (attempt + 1))
        return self._manifest.open_block(block)

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
