"""What is left out, without a word of its text: for takedowns and for other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .corpus import UNREAD, content_hashes, unreadable_documents
from .listing import excluded_rows
from .status import Entry

if TYPE_CHECKING:
    from ...loader.manifest import Manifest


def export_rows(
    entries: Sequence[Entry], manifest: Manifest, *, reasons: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield one object per excluded document: ordinal, id, content hash, place, state, decision.

    The content hash of a document that could not be read is null. Reasons are people's words and
    may quote the text, so they come only when asked for. Evidence never does.
    """
    rows, _ = excluded_rows(entries, manifest)
    hashes = content_hashes(
        manifest,
        np.array([row.doc for row in rows], np.int64),
        unreadable=unreadable_documents(entries),
    )
    for row, content in zip(rows, hashes, strict=True):
        value: dict[str, Any] = {
            "manifest": manifest.fingerprint,
            "doc": row.doc,
            "id": row.id,
            "content_xxh3_128": None if content == UNREAD else content.hex(),
            "shard": row.shard,
            "row": row.row,
            "source": row.source,
            "state": row.state,
            "decision": row.decision,
            "time": entries[row.decision - 1].time,
        }
        yield {**value, "reason": row.reason} if reasons else value
