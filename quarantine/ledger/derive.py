"""What plan, revision and corpus say: documents of positions, tokens behind digests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import numpy as np
import pyarrow as pa

from ...loader.arrays import Int64Array, concatenate
from ...loader.blocks import token_dtype
from ...loader.cursor import Mode
from ...loader.exclusion import Exclusion
from ...loader.manifest import Manifest
from ...loader.order import EpochOrder, Layout
from ...loader.packing import WindowTable
from ...loader.pieces import Piece
from ...loader.revision_store import load_revision
from ...loader.row_digest import rows_digest
from ...loader.rows import make_rows
from ...loader.run import Run
from ...loader.window_feed import WindowFeed

DERIVED_COLUMNS = ("epoch", "sample_position", "doc", "token_start", "token_end")


class Deriver:
    """Works out from the plan what a piece was given; reads no shard but for digests.

    Args:
        run: plan and revisions.
        manifest: the run's corpus.
    """

    def __init__(self, run: Run, manifest: Manifest) -> None:
        self._run = run
        self._manifest = manifest
        self.plan = run.plan()
        self._layout = Layout(self.plan, manifest.geometry(), manifest.lengths)
        self.order = lru_cache(maxsize=8)(self._make_order)
        self._table = lru_cache(maxsize=8)(self._make_table)
        self._exclusion = lru_cache(maxsize=8)(self._make_exclusion)
        self._feed = lru_cache(maxsize=1)(self._make_feed)

    def window_range(self, doc: int, epoch: int) -> tuple[int, int]:
        """Return the positions [first, end) of the window that holds `doc` in `epoch`.

        They are empty for an ordinal outside the corpus.
        """
        if not 0 <= doc < self._layout.geometry.documents:
            return 0, 0
        order = self.order(epoch)
        window = int(order.window_of_documents(np.array([doc], dtype=np.int64))[0])
        return int(order.window_starts[window]), int(order.window_starts[window + 1])

    def block_documents(self, block: int) -> Int64Array:
        """Return the ordinals of the documents in `block`, none for one outside the corpus."""
        first = self._layout.geometry.first_document
        if not 0 <= block < len(first) - 1:
            return np.empty(0, dtype=np.int64)
        return np.arange(first[block], first[block + 1], dtype=np.int64)

    def segments(self, piece: Piece, epoch: int, positions: Int64Array) -> pa.Table:
        """Return what `piece` delivered at `positions` as rows of `DERIVED_COLUMNS`, in order."""
        exclusion = self._exclusion(piece.revision, piece.mode)
        order = self.order(epoch)
        parts: list[list[Int64Array]] = []
        for part in _by_window(order, positions):
            table = self._table(epoch, order.window_of(int(part[0])))
            found = table.segments(part)
            kept = found.select(~exclusion.blanked(table, found, part, epoch))
            parts.append([part[kept.sample], kept.doc, kept.start, kept.end])
        columns = [concatenate([part[index] for part in parts]) for index in range(4)]
        epochs = np.full(len(columns[0]), epoch, dtype=np.int64)
        return pa.table([epochs, *columns], names=list(DERIVED_COLUMNS))

    def digests(
        self,
        piece: Piece,
        epoch: int,
        ranks: Sequence[Int64Array],
        padding: Sequence[int],
        *,
        lost: tuple[int, ...] = (),
    ) -> list[bytes]:
        """Return the digest that each of `ranks` would have for its positions today.

        Args:
            piece: for its revision and mode.
            epoch: of the positions.
            ranks: increasing positions of each rank of one step.
            padding: padded rows of each rank.
            lost: blocks that are masked as if they could not be read.

        Raises:
            CorruptBlock: a shard does not hold what was indexed.
        """
        order = self.order(epoch)
        feed = self._feed(piece.revision, piece.mode, lost)
        every = np.unique(concatenate(list(ranks)))
        numbers = sorted({order.window_of(int(part[0])) for part in _by_window(order, every)})
        windows = [feed.window(epoch, number, oldest=numbers[0]) for number in numbers]
        found: list[bytes] = []
        for positions, rows in zip(ranks, padding, strict=True):
            padded = np.concatenate((positions, np.full(rows, -1, dtype=np.int64)))
            dtype = token_dtype(self._manifest.header.tokenizer.vocabulary)
            made = make_rows(self.plan, windows, padded, dtype)
            sizes = made.target_by_row
            if self.plan.seq_len is not None:
                sizes = np.full(len(padded), self.plan.seq_len, dtype=np.int64)
            found.append(rows_digest(padded, made.segments, made.tokens, sizes))
        return found

    def _make_feed(self, revision: int, mode: str, lost: tuple[int, ...]) -> WindowFeed:
        exclusion = self._exclusion(revision, mode)
        if lost:
            exclusion = self._without(exclusion, lost)
        return WindowFeed(
            self._manifest,
            self.order,
            exclusion=exclusion,
            threads=0,
            epochs=None,
            patience=0.0,
            hold_corrupt=False,
        )

    def _without(self, exclusion: Exclusion, blocks: tuple[int, ...]) -> Exclusion:
        """Return `exclusion` with the documents of `blocks` blanked; their positions stay."""
        docs = [self.block_documents(block) for block in blocks]
        known = exclusion.revision
        wider = Exclusion(known, plan_id=self.plan.plan_id, mode=exclusion.mode)
        wider.documents = np.union1d(known.documents, concatenate(docs))
        return wider

    def _make_order(self, epoch: int) -> EpochOrder:
        return EpochOrder(self._layout, epoch)

    def _make_table(self, epoch: int, window: int) -> WindowTable:
        return self.order(epoch).window(window)

    def _make_exclusion(self, revision: int, mode: str) -> Exclusion:
        loaded = load_revision(self._run.path, revision, manifest=self.plan.fingerprint)
        return Exclusion(loaded, plan_id=self.plan.plan_id, mode=cast("Mode", mode))


def _by_window(order: EpochOrder, positions: Int64Array) -> list[Int64Array]:
    """Return `positions` cut where the window changes."""
    if not len(positions):
        return []
    window = np.searchsorted(order.window_starts, positions, side="right")
    return np.split(positions, np.flatnonzero(window[1:] != window[:-1]) + 1)
