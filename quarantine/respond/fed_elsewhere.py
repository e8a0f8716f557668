"""Which documents of a corpus are those that a run was fed from another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...loader.arrays import Int64Array, concatenate
from ...loader.consumed import GONE, documents_elsewhere
from ...loader.errors import CorpusError
from ...loader.manifest import Manifest
from ...loader.manifest_format import Shard
from .corpus import content_hashes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FedElsewhere:
    """Where documents of one corpus are in another.

    Attributes:
        here: sorted int64[n], their ordinals there, with every copy that has the same content.
        found: how many of the documents were found.
        gone: how many are certainly not there.
        unknown: how many could not be looked for.
        shards: in which shards of the first corpus these lie.
    """

    here: Int64Array
    found: int
    gone: int
    unknown: int
    shards: tuple[str, ...]


def fed_elsewhere(old: Manifest, docs: Int64Array, new: Manifest) -> FedElsewhere:
    """Return where the documents `docs` of `old` are in `new`.

    A shard is known by its bytes. Where shards were written anew, by a rebuild for example, their
    documents are told by content: those shards of both corpora are read once, and 16 bytes for
    each of `docs` in them are held.

    Raises:
        CorpusError: a shard of `new` that has to be read cannot be.
    """
    here = documents_elsewhere(old, docs, new)
    other = [] if old.fingerprint == new.fingerprint else _unlike(old.shards, new.shards)
    left = {shard.uri: part for shard in other if (part := _inside(docs, shard)).size}
    total = sum(part.size for part in left.values())
    anew = _unlike(new.shards, old.shards)
    if not left or not anew:
        return FedElsewhere(here=here, found=docs.size - total, gone=total, unknown=0, shards=())
    hashes, unread = _hashes(old, left) if _alike(old, new) else ([], dict(left))
    wanted = set(hashes)
    seen: set[bytes] = set()
    parts = [here]
    for shard in anew if wanted else ():
        there = np.arange(shard.first_document, shard.first_document + shard.documents)
        there = np.setdiff1d(there, new.tombstones)
        words = content_hashes(new, there)
        same = np.array([word in wanted for word in words], np.bool_)
        seen |= wanted.intersection(words)
        parts.append(there[same])
    found = sum(word in seen for word in hashes)
    unknown = sum(part.size for part in unread.values())
    return FedElsewhere(
        here=np.unique(concatenate(parts)),
        found=docs.size - total + found,
        gone=total - found - unknown,
        unknown=unknown,
        shards=tuple(unread),
    )


def _unlike(shards: Sequence[Shard], others: Sequence[Shard]) -> list[Shard]:
    """Return those of `shards` whose bytes none of `others` has."""
    known = {(other.digest, other.documents) for other in others if other.digest != GONE}
    return [shard for shard in shards if (shard.digest, shard.documents) not in known]


def _inside(docs: Int64Array, shard: Shard) -> Int64Array:
    low, high = shard.first_document, shard.first_document + shard.documents
    start, end = np.searchsorted(docs, (low, high))
    return docs[start:end]


def _alike(old: Manifest, new: Manifest) -> bool:
    """Return whether equal documents have equal hashes in both: of texts, or of the same ids."""
    if old.has_token_ids != new.has_token_ids:
        return False
    return not old.has_token_ids or old.header.tokenizer == new.header.tokenizer


def _hashes(
    old: Manifest, left: dict[str, Int64Array]
) -> tuple[list[bytes], dict[str, Int64Array]]:
    """Return the hashes of the documents that can be read, and the others by shard.

    What a rebuild removed from `old` has no content any more, and is in no corpus made of it.
    """
    hashes: list[bytes] = []
    unread: dict[str, Int64Array] = {}
    for uri, part in left.items():
        there = np.setdiff1d(part, old.tombstones)
        try:
            hashes += content_hashes(old, there)
        except CorpusError:
            unread[uri] = there
    return hashes, unread
