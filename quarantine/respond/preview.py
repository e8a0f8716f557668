"""What a decision would change once it is published: what goes out, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .chain import EMPTY, ChainHead
from .impact import Impact, impact
from .operations import where_it_stands
from .revisions import build_revision, latest_revision
from .status import Decision, Entry

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
    sequence = entries[-1].sequence + 1 if entries else 1
    assumed = Entry(
        sequence=sequence,
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        digest="",
        manifest=manifest.fingerprint,
        decision=decision,
    )
    parent = latest_revision(run.path, manifest)

    def revision(known: Sequence[Entry]) -> Revision:
        return build_revision(known, manifest, parent=parent, head=_head(entries))

    now, then = revision(entries), revision([*entries, assumed])
    cursor, usual = where_it_stands(run, ledger)

    def change(before: Revision, after: Revision) -> Impact:
        plan, samples = run.plan(), batch or usual
        return impact(manifest, plan, before, after, cursor=cursor, batch=samples)

    return Preview(out=change(now, then), back=change(then, now))


def _head(entries: Sequence[Entry]) -> ChainHead:
    return ChainHead(digest=entries[-1].digest, count=len(entries)) if entries else EMPTY


def _named(change: Impact) -> dict[str, Any]:
    return {**change.to_json(), "named": list(change.difference.added[:NAMED])}
