"""A shard as it lies now and what a rebuild takes from it: rows of the file, damage, content.

A rebuilt corpus may be rebuilt again: its files have fewer rows than its shards have documents, and
rows of the file are counted without what an earlier rebuild removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import xxhash

from ...loader.errors import CorpusError, CorruptBlock, IntegrityError, UnreachableShard
from ...loader.sources.contract import Span, reading
from ...loader.sources.opening import join, open_input
from .corpus import UNREAD, content_hashes

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ...loader.manifest_format import Shard
    from ...loader.revision import Revision

Int64 = npt.NDArray[np.int64]
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One shard: what of it is taken out now, and where the rest lies.

    Attributes:
        rows: rows that the file has.
        gone: documents that are taken out, sorted; none that an earlier rebuild removed.
        places: their rows in the file.
        spans: the blocks that the file has, in rows of the file.
        damaged: blocks that cannot be read, with the reason; all their documents are among `gone`.
    """

    rows: int
    gone: Int64
    places: Int64
    spans: tuple[Span, ...]
    damaged: Mapping[int, str]


def source_of(manifest: Manifest, shard: Shard, revision: Revision, gone: Int64) -> Source:
    """Return what a rebuild takes from `shard` when the sorted documents `gone` go.

    A document that goes need not be readable; where it is, its content is what was decided about.

    Raises:
        IntegrityError: the file is not the one that was indexed, a block with documents that stay
            is damaged, or a document is not the one that was excluded.
    """
    low, high = shard.first_document, shard.first_document + shard.documents
    before = _within(manifest.tombstones, low, high)
    mine = np.setdiff1d(_within(gone, low, high), before, assume_unique=True)
    rows = shard.documents - len(before)
    damaged = _damage(manifest, shard, mine) if rows else {}
    _check_content(manifest, mine, revision, damaged)
    return Source(
        rows=rows,
        gone=mine,
        places=mine - low - np.searchsorted(before, mine),
        spans=tuple(_spans(manifest, shard)),
        damaged=damaged,
    )


def _within(docs: Int64, low: int, high: int) -> Int64:
    start, end = np.searchsorted(docs, (low, high))
    return docs[start:end]


def _spans(manifest: Manifest, shard: Shard) -> list[Span]:
    spans, first = [], 0
    for block in range(shard.first_block, shard.first_block + shard.blocks):
        span, alive = manifest.span(block), manifest.alive(block)
        rows = span.documents if alive is None else int(alive.sum())
        if rows:
            place = {"offset": span.offset, "size": span.size}
            spans.append(Span(index=span.index, first=first, documents=rows, **place))
            first += rows
    return spans


def _damage(manifest: Manifest, shard: Shard, gone: Int64) -> dict[int, str]:
    """Return the blocks of a file that cannot be read, of which nothing was to stay anyway."""
    found = _digest(manifest, shard)
    if found == shard.digest:
        return {}
    damaged = {
        block: reason
        for block in range(shard.first_block, shard.first_block + shard.blocks)
        if (reason := _unreadable(manifest, block)) is not None
    }
    if not damaged:
        raise IntegrityError(
            f"shard {shard.uri} has digest {found}, the manifest says {shard.digest}; "
            "restore it, or index the corpus anew"
        )
    needed = [words for block in damaged if (words := _stays(manifest, block, gone))]
    if needed:
        more = f" and {len(needed) - MOST_NAMED} more" if len(needed) > MOST_NAMED else ""
        raise IntegrityError(
            f"shard {shard.uri} is damaged where documents were to stay: "
            f"{'; '.join(needed[:MOST_NAMED])}{more} ({next(iter(damaged.values()))}); restore the "
            "shard from a copy, or leave them out: quarantine add and publish"
        )
    return damaged


def _digest(manifest: Manifest, shard: Shard) -> str | None:
    """Return the hash of the file's bytes, None where it cannot be read."""
    state = xxhash.xxh3_128()
    try:
        with reading(shard.uri), open_input(join(manifest.root, shard.uri)) as stream:
            while chunk := stream.read(1 << 20):
                state.update(chunk)
    except UnreachableShard:
        raise
    except CorpusError:
        return None
    return state.hexdigest()


def _unreadable(manifest: Manifest, block: int) -> str | None:
    try:
        manifest.reader.stored(block)
    except CorruptBlock as error:
        return str(error)
    return None


def _stays(manifest: Manifest, block: int, gone: Int64) -> str:
    """Say which documents of a damaged block are not left out; nothing where all are."""
    low, high = (int(edge) for edge in manifest.geometry().first_document[block : block + 2])
    there = np.setdiff1d(np.arange(low, high, dtype=np.int64), manifest.tombstones)
    stay = np.setdiff1d(there, gone)
    if not stay.size:
        return ""
    named = ", ".join(map(str, stay[:MOST_NAMED].tolist()))
    more = f" and {stay.size - MOST_NAMED} more" if stay.size > MOST_NAMED else ""
    return f"block {block} with document {named}{more}"


def _check_content(
    manifest: Manifest, docs: Int64, revision: Revision, damaged: Mapping[int, str]
) -> None:
    """Refuse to remove a document whose content is not what was decided about."""
    lost = docs[np.isin(manifest.geometry().block_of(docs), list(damaged))]
    found = content_hashes(manifest, docs, unreadable=lost)
    places = np.searchsorted(revision.documents, docs)
    for doc, place, now in zip(docs.tolist(), places.tolist(), found, strict=True):
        was = revision.hashes[16 * place : 16 * (place + 1)]
        if now != UNREAD and was not in (now, UNREAD):
            raise IntegrityError(
                f"document {doc} has content {now.hex()}, revision {revision.number} excluded "
                f"{was.hex()}; the corpus changed since the decision, index it anew"
            )
