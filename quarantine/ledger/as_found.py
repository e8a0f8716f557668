"""The corpus as it is found today, read on where a block no longer holds what was indexed.

The loader stops at such a block. To tell which document of it changed, `verify` reads what is
there and compares the digests of the steps that the documents fed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...loader.arrays import Int64Array
from ...loader.blocks import BlockData, token_dtype
from ...loader.errors import CorruptBlock
from ...loader.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangedBlock:
    """A block that is not what was indexed.

    Attributes:
        reason: what was expected and what was found.
        other: int64[n], sorted ordinals of its documents that have another length than was
            indexed, or cannot be read. Any other document of it may have changed too.
    """

    reason: str
    other: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDocument:
    """Which document is no longer what a step was fed.

    Attributes:
        doc, shard, row: the document, and where it lies.
        among: documents of the step that may be the one; 1 if it is certainly this.
        reason: how that is known.
    """

    doc: int
    shard: str
    row: int
    among: int
    reason: str


class AsFound(Manifest):
    """A manifest whose blocks are read whatever they hold.

    A document that has another length than was indexed, or cannot be read, is all zeros, at its
    indexed length; so its tokens are never taken for the recorded ones.

    Args:
        manifest: of the corpus.

    Attributes:
        changed: the blocks read so far that are not what was indexed.
    """

    def __init__(self, manifest: Manifest) -> None:
        super().__init__(manifest.path, manifest.header, manifest.root)
        self.changed: dict[int, ChangedBlock] = {}

    def open_block(self, block: int, into: NDArray[Any] | None = None) -> BlockData:
        """Return the tokens of `block` as they are found, at the lengths that were indexed."""
        try:
            return super().open_block(block, into)
        except CorruptBlock as error:
            return self._fitted(block, str(error))

    def first_changed(self, docs: Int64Array) -> ChangedDocument | None:
        """Return which of `docs`, in the order of delivery, is not what was indexed.

        What a rebuild removed is named too. None if all of them are there and lie in blocks that
        hold what was indexed.
        """
        blocks = self.geometry().block_of(docs)
        suspects = [
            (int(doc), self.changed[block])
            for doc, block in zip(docs.tolist(), blocks.tolist(), strict=True)
            if block in self.changed
        ]
        proven = [(doc, changed) for doc, changed in suspects if doc in changed.other]
        if not proven and (removed := self._removed(docs)) is not None:
            return removed
        if not suspects:
            return None
        doc, changed = (proven or suspects)[0]
        place = self.locate(doc)
        return ChangedDocument(
            doc=doc,
            shard=place.shard_uri,
            row=place.row,
            among=1 if proven else len({suspect for suspect, _ in suspects}),
            reason=changed.reason,
        )

    def _removed(self, docs: Int64Array) -> ChangedDocument | None:
        """Return the first of `docs` that is a tombstone of this rebuilt corpus."""
        gone = dict.fromkeys(docs[np.isin(docs, self.tombstones)].tolist())
        if not gone:
            return None
        doc = next(iter(gone))
        place = self.locate(doc)
        others = f" (and {len(gone) - 1} others of the step)" if len(gone) > 1 else ""
        return ChangedDocument(
            doc=doc,
            shard=place.shard_uri,
            row=place.row,
            among=1,
            reason=f"the rebuild of this corpus removed it{others}; verify with the manifest "
            "that the corpus was rebuilt from (--manifest), or steps from after the rebuild "
            "(--steps)",
        )

    def _fitted(self, block: int, reason: str) -> BlockData:
        low, high = (int(end) for end in self.geometry().first_document[block : block + 2])
        lengths = self.lengths(low, high).astype(np.int64)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        dtype = token_dtype(self.header.tokenizer.vocabulary)
        values = np.zeros(int(offsets[-1]), dtype=dtype)
        try:
            found = self.reader.as_found(block)
        except CorruptBlock as error:
            other = np.arange(high - low)
            reason = str(error)
        else:
            same = found.lengths == lengths
            values[np.repeat(same, lengths)] = found.values[np.repeat(same, found.lengths)]
            other = np.flatnonzero(~same)
        self.changed[block] = ChangedBlock(reason=reason, other=low + other)
        return BlockData(values=values, offsets=offsets)
