"""From the decision log to a published revision: what the loader is told to leave out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...loader.errors import DecisionError, MismatchError
from ...loader.files import exclusive_lock
from ...loader.revision import Revision, Skip
from ...loader.revision_store import (
    list_revisions,
    load_revision,
    publish_revision_files,
)
from .anchors import Anchor, read_anchors
from .chain import ChainHead
from .corpus import UNREAD, content_hashes, resolver, unreadable_documents
from .decisions import DecisionLog
from .status import active_skips, excluded_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...loader.manifest import Manifest
    from .status import Documents, Entry

__all__ = [
    "build_revision",
    "check_tombstones",
    "decision_anchors",
    "latest_revision",
    "list_revisions",
    "load_revision",
    "publish_revision",
]


def latest_revision(run_path: Path, manifest: Manifest) -> Revision:
    """Return the newest published revision, or the empty revision 0."""
    number = max(list_revisions(Path(run_path)), default=0)
    return load_revision(Path(run_path), number, manifest=manifest.fingerprint)


def build_revision(
    entries: Sequence[Entry],
    manifest: Manifest,
    *,
    parent: Revision,
    head: ChainHead,
    now: datetime | None = None,
) -> Revision:
    """Return the revision the decisions amount to; nothing is written.

    `head` anchors the log the decisions come from. The content of every document that the parent
    does not leave out is read for its hash; that of a document left out because it could not be
    read may be unknown.

    Raises:
        CorruptBlock: another document's content cannot be read.
        MismatchError: the parent was made for another corpus.
        NotFound: a decision names a document, shard or source the corpus does not have.
    """
    if parent.manifest != manifest.fingerprint:
        raise MismatchError(
            f"revision {parent.number} is for corpus {parent.manifest[:12]}, this one is "
            f"{manifest.fingerprint[:12]}; use the manifest the run was made with"
        )
    documents = excluded_documents(entries, resolver(manifest))
    skips = tuple(
        Skip(
            plan_id=part.plan_id,
            epoch=part.epoch,
            start=part.start,
            end=part.end,
            reason=entry.decision.reason,
        )
        for part, entry in active_skips(entries)
    )
    return Revision(
        number=parent.number + 1,
        parent=parent.digest,
        manifest=manifest.fingerprint,
        documents=documents,
        hashes=_hashes(manifest, documents, entries, parent),
        skips=skips,
        decisions_head=head.digest if head.count else None,
        decisions_count=head.count,
        created=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
    )


def _hashes(
    manifest: Manifest, documents: Documents, entries: Sequence[Entry], parent: Revision
) -> bytes:
    """Return the content hashes of `documents`.

    What the parent revision knows is taken from it: its documents may be damaged by now, or gone
    from a rebuilt corpus. Only the others are read.
    """
    known = dict(zip(parent.documents.tolist(), _split(parent.hashes), strict=True))
    hashes = [known.get(doc, UNREAD) for doc in documents.tolist()]
    places = np.flatnonzero([content == UNREAD for content in hashes])
    unread = [doc for doc, content in known.items() if content == UNREAD]
    found = content_hashes(
        manifest,
        documents[places],
        unreadable=np.union1d(unreadable_documents(entries), np.array(unread, np.int64)),
    )
    for place, content in zip(places.tolist(), found, strict=True):
        hashes[place] = content
    return b"".join(hashes)


def _split(hashes: bytes) -> list[bytes]:
    return [hashes[at : at + 16] for at in range(0, len(hashes), 16)]


def check_tombstones(manifest: Manifest, revision: Revision) -> None:
    """Refuse a revision that lets in what is gone from a rebuilt corpus.

    Raises:
        DecisionError: naming the first such document and the remedy.
    """
    back = np.setdiff1d(manifest.tombstones, revision.documents)
    if back.size:
        raise DecisionError(
            f"document {int(back[0])} was removed when the corpus of {manifest.path} was rebuilt, "
            f"so it cannot come back there ({back.size} such documents): quarantine it, or give "
            "the manifest that the corpus was rebuilt from and go on with that corpus"
        )


def publish_revision(
    run_path: Path, manifest: Manifest, *, now: datetime | None = None
) -> Revision:
    """Publish what the decision log amounts to and return it.

    When nothing is left out that the newest revision does not leave out, and the other way
    round, that one is returned and nothing is written. Safe to repeat after a crash.

    Raises:
        MismatchError, NotFound: as `build_revision`.
        DecisionError: as `check_tombstones`.
        IntegrityError: the log was edited, or cut below an earlier revision's anchor.
    """
    run_path = Path(run_path)
    log = DecisionLog(run_path, manifest=manifest.fingerprint)
    with exclusive_lock(run_path / "revisions.lock"):
        log.verify(decision_anchors(run_path, manifest.fingerprint))
        parent = latest_revision(run_path, manifest)
        entries = log.entries()
        head = ChainHead(digest=entries[-1].digest if entries else "", count=len(entries))
        revision = build_revision(entries, manifest, parent=parent, head=head, now=now)
        check_tombstones(manifest, revision)
        if _same(revision, parent):
            return parent
        publish_revision_files(run_path, revision)
    return revision


def decision_anchors(run_path: Path, fingerprint: str) -> list[Anchor]:
    """Return (name, head of the decision log) for every revision and every incident's event.

    Raises:
        MismatchError, IntegrityError: a revision is for another corpus, or was changed.
    """
    for number in sorted(list_revisions(run_path)):
        load_revision(run_path, number, manifest=fingerprint)
    return read_anchors(run_path)


def _same(left: Revision, right: Revision) -> bool:
    return np.array_equal(left.documents, right.documents) and left.skips == right.skips
