"""What a decision would change once it is published: what goes out, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import DecisionError
from .chain import EMPTY, ChainHead
from .corpus import resolver
from .impact import Impact, impact
from .operations import where_it_stands
from .revisions import build_revision, latest_revision
from .status import Decision, Entry, excluded_documents

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ...loader.revision import Revision
    from ...loader.run import Run
    from ..ledger.ledger import Ledger

NAMED = 200
"""Documents of a change that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What `decision` changes beside all earlier ones: `out` goes, `back` comes in again."""

    out: Impact
    back: Impact

    def to_json(self) -> dict[str, Any]:
        """Return both as JSON objects, each with the first documents by ordinal."""
        return {"out": _named(self.out), "back": _named(self.back)}


def preview(
    run: Run,
    manifest: Manifest,
    ledger: Ledger,
    entries: Sequence[Entry],
    decision: Decision,
    *,
    batch: int | None = None,
) -> Preview:
    """Return what appending `decision` to `entries` would change, ahead of where the run stands.

    Args:
        batch: global batch in samples; that of the last step by default.
    """
    assumed = assumed_entry(entries, manifest, decision)
    parent = latest_revision(run.path, manifest)

    def revision(known: Sequence[Entry]) -> Revision:
        return build_revision(known, manifest, parent=parent, head=_head(entries))

    now, then = revision(entries), revision([*entries, assumed])
    cursor, usual = where_it_stands(run, ledger)

    def change(before: Revision, after: Revision) -> Impact:
        plan, samples = run.plan(), batch or usual
        return impact(manifest, plan, before, after, cursor=cursor, batch=samples)

    return Preview(out=change(now, then), back=change(then, now))


def check_given_back(manifest: Manifest, entries: Sequence[Entry], decision: Decision) -> None:
    """Refuse a decision that gives back what is gone from a rebuilt corpus.

    Raises:
        DecisionError: naming the first such document and the remedy.
    """
    gone = manifest.tombstones
    if not gone.size:
        return
    resolve, assumed = resolver(manifest), assumed_entry(entries, manifest, decision)
    then = excluded_documents([*entries, assumed], resolve)
    back = np.setdiff1d(np.intersect1d(gone, excluded_documents(entries, resolve)), then)
    if back.size:
        raise DecisionError(
            f"document {int(back[0])} was removed when the corpus of {manifest.path} was rebuilt "
            f"and cannot come back there ({back.size} such documents): {decision.action} less, or "
            "give the manifest that the corpus was rebuilt from and go on with that corpus"
        )


def assumed_entry(entries: Sequence[Entry], manifest: Manifest, decision: Decision) -> Entry:
    """Return the entry that `decision` would be."""
    return Entry(
        sequence=entries[-1].sequence + 1 if entries else 1,
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        digest="",
        manifest=manifest.fingerprint,
        decision=decision,
    )


def _head(entries: Sequence[Entry]) -> ChainHead:
    return ChainHead(digest=entries[-1].digest, count=len(entries)) if entries else EMPTY


def _named(change: Impact) -> dict[str, Any]:
    return {**change.to_json(), "named": list(change.difference.added[:NAMED])}
