"""Suspects with their evidence spans, in the shape of the incident's attachment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

MOST_SPANS = 8
SPAN_CHARACTERS = 240


class SuspectLike(Protocol):
    """What triage says about one document."""

    @property
    def doc(self) -> int:
        """Ordinal of the document."""

    @property
    def score(self) -> float:
        """0 to 1."""

    @property
    def reasons(self) -> Sequence[str]:
        """Why, in words."""

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """Characters [start, end) that show it."""


def suspects_json(
    manifest: Manifest,
    suspects: Sequence[SuspectLike],
    *,
    families: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """Return the attachment `suspects`: where each document lies, why, and the text of its spans.

    Reads the documents once. Texts are cut to 240 characters a span, 8 spans a document.
    """
    docs = [suspect.doc for suspect in suspects]
    columns = ("id", "text") if manifest.header.schema.kind == "text" else ("id",)
    rows = manifest.documents(docs, columns=columns).to_pylist()
    return {
        "suspects": [
            _suspect(suspect, row, (families or {}).get(suspect.doc))
            for suspect, row in zip(suspects, rows, strict=True)
        ]
    }


def _suspect(suspect: SuspectLike, row: Mapping[str, Any], family: str | None) -> dict[str, Any]:
    text = row.get("text") or ""
    return {
        "doc": suspect.doc,
        "id": row["id"],
        "shard": row["shard"],
        "row": row["row"],
        "source": row["source"],
        "score": float(suspect.score),
        "family": family,
        "reasons": [str(reason) for reason in suspect.reasons],
        "spans": [
            {
                "start": int(start),
                "end": int(end),
                "text": text[start : min(end, start + SPAN_CHARACTERS)],
            }
            for start, end in list(suspect.spans)[:MOST_SPANS]
        ],
    }
