"""What is left out right now and why: the rows of `quarantine list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .corpus import resolver
from .status import STATES, Entry, deciding_entries

if TYPE_CHECKING:
    from ...loader.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """One document that is out: where it lies, its state, and the decision that put it there."""

    doc: int
    id: str | None
    shard: str
    row: int
    source: str
    state: str
    reason: str
    actor: str
    decision: int


def excluded_rows(
    entries: Sequence[Entry], manifest: Manifest, *, limit: int | None = None
) -> tuple[list[Excluded], int]:
    """Return up to `limit` excluded documents by ordinal, and how many there are in all."""
    docs, decided = deciding_entries(entries, resolver(manifest))
    shown = slice(None) if limit is None else slice(limit)
    rows = manifest.documents(docs[shown], columns=("id",)).to_pylist() if docs.size else []
    numbers = decided[shown].tolist()
    return [_row(row, entries[n - 1]) for row, n in zip(rows, numbers, strict=True)], int(docs.size)


def _row(row: dict[str, Any], entry: Entry) -> Excluded:
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
    )
