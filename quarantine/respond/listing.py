"""What is left out right now and why: the rows of `quarantine list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import CorruptBlock
from .corpus import resolver
from .findings import ground_of
from .status import STATES, Documents, Entry, deciding_entries

if TYPE_CHECKING:
    from ...loader.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """One document that is out: where it lies, its state, and the decision that put it there.

    `found` is why a search found the document, where the decision keeps that.
    """

    doc: int
    id: str | None
    shard: str
    row: int
    source: str
    state: str
    reason: str
    actor: str
    decision: int
    found: str | None


def excluded_rows(
    entries: Sequence[Entry], manifest: Manifest, *, limit: int | None = None
) -> tuple[list[Excluded], int]:
    """Return up to `limit` excluded documents by ordinal, and how many there are in all."""
    docs, decided = deciding_entries(entries, resolver(manifest))
    shown = slice(None) if limit is None else slice(limit)
    rows = identified(manifest, docs[shown]) if docs.size else []
    numbers = decided[shown].tolist()
    return [_row(row, entries[n - 1]) for row, n in zip(rows, numbers, strict=True)], int(docs.size)


def identified(manifest: Manifest, docs: Documents) -> list[dict[str, Any]]:
    """Return id, shard, row and source of each document; the id is None in a damaged block."""
    try:
        return list(manifest.documents(docs, columns=("id",)).to_pylist())
    except CorruptBlock:
        blocks = manifest.geometry().block_of(docs)
        parts = [docs[blocks == block] for block in np.unique(blocks)]
        return [row for part in parts for row in _of_block(manifest, part)]


def _of_block(manifest: Manifest, docs: Documents) -> list[dict[str, Any]]:
    try:
        return list(manifest.documents(docs, columns=("id",)).to_pylist())
    except CorruptBlock:
        return [{**row, "id": None} for row in manifest.documents(docs, columns=()).to_pylist()]


def _row(row: dict[str, Any], entry: Entry) -> Excluded:
    ground = ground_of(entry.decision, row["doc"])
    return Excluded(
        doc=row["doc"],
        id=row["id"],
        shard=row["shard"],
        row=row["row"],
        source=row["source"],
        state=STATES[entry.decision.action],
        reason=entry.decision.reason,
        actor=entry.decision.actor,
        decision=entry.sequence,
        found=None if ground is None else ground.get("reason"),
    )
