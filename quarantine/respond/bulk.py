"""Deciding about many documents at once: a filter, its count, and the documents it names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...loader.errors import UsageError
from .corpus import shard_documents, source_documents
from .findings import Json, grounds_of, read_findings
from .impact import lengths_of
from .scopes import Scope
from .status import Documents

if TYPE_CHECKING:
    from ...loader.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """All conditions must hold. `findings` is a JSON lines file with doc, detector, score.

    `detector`, `min_score` and `verdict` ask the findings; lengths are in tokens.
    """

    shard: str | None = None
    source: str | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    findings: Path | None = None
    detector: str | None = None
    min_score: float | None = None
    verdict: bool = False

    def __post_init__(self) -> None:
        if not any((self.shard, self.source, self.findings, self.min_tokens, self.max_tokens)):
            raise UsageError("a filter without a condition means the whole corpus; give one")
        asks = self.detector is not None or self.min_score is not None or self.verdict
        if asks and self.findings is None:
            raise UsageError("detector, score and verdict are asked of findings; give their file")

    def describe(self) -> str:
        """Return the conditions as the value of a scope."""
        names = ("shard", "source", "min_tokens", "max_tokens", "detector", "min_score")
        parts = [f"{n}={getattr(self, n)}" for n in names if getattr(self, n) is not None]
        parts += ["verdict"] if self.verdict else []
        return " ".join(parts) or f"findings={self.findings and self.findings.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The sorted documents a filter names, and the grounds of those that a search found."""

    docs: Documents
    grounds: dict[int, Json] = field(default_factory=dict)


def matching(wanted: Filter, manifest: Manifest) -> Matched:
    """Return what the filter names.

    Raises:
        NotFound: an unknown shard, source or document.
        FormatError: the findings file is malformed; the message names the line.
        MismatchError: the findings are of another corpus.
    """
    docs: Documents | None = None
    found: list[Json] = []
    if wanted.findings is not None:
        found = _chosen(wanted, manifest)
        docs = np.unique(np.array([each["doc"] for each in found], np.int64))
    if wanted.shard is not None:
        docs = _both(docs, shard_documents(manifest, wanted.shard))
    if wanted.source is not None:
        docs = _both(docs, source_documents(manifest, wanted.source))
    if docs is None:
        docs = np.arange(manifest.documents_count, dtype=np.int64)
    if wanted.min_tokens is not None or wanted.max_tokens is not None:
        lengths = lengths_of(manifest, docs)
        low = 0 if wanted.min_tokens is None else wanted.min_tokens
        high = np.iinfo(np.int64).max if wanted.max_tokens is None else wanted.max_tokens
        docs = docs[(lengths >= low) & (lengths <= high)]
    named = frozenset(docs.tolist() if found else ())
    return Matched(docs=docs, grounds=grounds_of(f for f in found if f["doc"] in named))


def filter_scope(wanted: Filter, docs: Documents) -> Scope:
    """Return the scope of a filter's documents: least specific, so single decisions win.

    Raises:
        UsageError: the filter named nothing.
    """
    if not docs.size:
        raise UsageError(f"the filter {wanted.describe()} names no document; widen it")
    return Scope(kind="detector", value=wanted.describe(), documents=tuple(docs.tolist()))


def confirm_count(count: int, expected: int | None, *, what: str = "") -> None:
    """Refuse to act when the number of documents is not the one a person confirmed.

    `what` says in words what there is so many of; by default what a filter names.

    Raises:
        UsageError: no number was given, or another one.
    """
    if expected != count:
        said = "nothing was confirmed" if expected is None else f"{expected} were confirmed"
        raise UsageError(
            f"{what or f'the filter names {count} documents'} and {said}; look at them, then say "
            f"--expect {count} --yes"
        )


def _both(docs: Documents | None, more: Documents) -> Documents:
    return more if docs is None else np.intersect1d(docs, more)


def _chosen(wanted: Filter, manifest: Manifest) -> list[Json]:
    assert wanted.findings is not None
    return [
        finding
        for finding in read_findings(wanted.findings, manifest)
        if (wanted.detector is None or finding.get("detector") == wanted.detector)
        and (wanted.min_score is None or finding.get("score", 0.0) >= wanted.min_score)
        and (not wanted.verdict or finding.get("verdict") is True)
    ]
