"""Blocks that loaders masked because they stayed damaged, and the decisions proposed about them.

A loader with `on_corrupt="hold"` masks such a block for the rest of its life. The next load meets
the damage again, unless the shard is restored or a revision leaves the documents out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import CorpusError
from .corpus import EVIDENCE_OF_DAMAGE, resolver
from .scopes import Scope
from .status import Decision, Documents, Entry, excluded_documents

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ..ledger import Ledger

_EVENTS = (
    "SELECT content, piece, step, rank FROM events WHERE event = 'corrupt_block' "
    "ORDER BY time_ns, piece, step, rank"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBlock:
    """A block that some loader of the run masked.

    Attributes:
        block: its number in the manifest.
        shard: where it lies.
        first_document, documents: ordinals first_document … first_document + documents - 1.
        error: what the loader that met it first said.
        piece, step: where that was.
        ranks: which ranks masked it, over all pieces.
        state: `damaged`, `readable` (the shard was restored) or `out` (decided already).
    """

    block: int
    shard: str
    first_document: int
    documents: int
    error: str
    piece: int
    step: int
    ranks: tuple[int, ...]
    state: str

    def ordinals(self) -> range:
        """Return the documents of the block."""
        return range(self.first_document, self.first_document + self.documents)

    def to_json(self) -> dict[str, Any]:
        """Return the block as a JSON object."""
        return {**asdict(self), "ranks": list(self.ranks)}


def held_blocks(
    ledger: Ledger, manifest: Manifest, entries: Sequence[Entry]
) -> tuple[HeldBlock, ...]:
    """Return every block that a loader of the run masked; each is read again to see its state."""
    out = excluded_documents(entries, resolver(manifest))
    rows = ledger.sql(_EVENTS).to_pylist()
    events: dict[int, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for row in rows:
        content = json.loads(row["content"])
        events.setdefault(int(content["block"]), []).append((row, content))
    return tuple(_held(manifest, found, out) for _, found in sorted(events.items()))


def propose(blocks: Sequence[HeldBlock], *, actor: str) -> list[Decision]:
    """Return one decision for each block that is still damaged, to leave its documents out."""
    return [
        Decision(
            action="quarantine",
            scope=Scope.of_documents(block.ordinals()),
            reason=f"block {block.block} of shard {block.shard} is damaged and was masked from "
            f"step {block.step} of piece {block.piece} on: {block.error}",
            actor=actor,
            evidence={EVIDENCE_OF_DAMAGE: block.to_json()},
        )
        for block in blocks
        if block.state == "damaged"
    ]


def _held(
    manifest: Manifest, found: Sequence[tuple[dict[str, Any], dict[str, Any]]], out: Documents
) -> HeldBlock:
    row, content = found[0]
    first, count = int(content["first_document"]), int(content["documents"])
    docs = np.arange(first, first + count)
    if bool(np.isin(docs, out).all()):
        state = "out"
    else:
        state = "readable" if _is_readable(manifest, int(content["block"])) else "damaged"
    return HeldBlock(
        block=int(content["block"]),
        shard=content["shard"],
        first_document=first,
        documents=count,
        error=content["error"],
        piece=row["piece"],
        step=row["step"],
        ranks=tuple(sorted({event["rank"] for event, _ in found})),
        state=state,
    )


def _is_readable(manifest: Manifest, block: int) -> bool:
    try:
        manifest.open_block(block)
    except CorpusError:
        return False
    return True
