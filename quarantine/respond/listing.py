"""What is left out right now and why: the rows of `quarantine list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .corpus import resolver
from .scopes import DocumentFacts
from .status import Entry, excluded_documents, status_of

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
    docs = excluded_documents(entries, resolver(manifest))
    shown = docs if limit is None else docs[:limit]
    rows = manifest.documents(shown, columns=("id",)).to_pylist() if shown.size else []
    return [_row(row, entries) for row in rows], int(docs.size)


def _row(row: dict[str, Any], entries: Sequence[Entry]) -> Excluded:
    facts = DocumentFacts(doc=row["doc"], shard=row["shard"], source=row["source"])
    status = status_of(entries, facts)
    assert status.entry is not None
    return Excluded(
        doc=facts.doc,
        id=row["id"],
        shard=facts.shard,
        row=row["row"],
        source=facts.source,
        state=status.state,
        reason=status.entry.decision.reason,
        actor=status.entry.decision.actor,
        decision=status.entry.sequence,
    )
