"""What decisions ask of a manifest: the documents of a scope, and content hashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from ...loader.errors import CorruptBlock, DecisionError, NotFound
from .scopes import DocumentFacts, Scope
from .status import Documents, Entry, Resolver, live_entries

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

_CHUNK = 1 << 20
EVIDENCE_OF_DAMAGE = "corrupt_block"
"""Key of a decision's evidence that says that its documents could not be read."""
UNREAD = bytes(16)
"""Stands for the content hash of such a document."""


def content_hash(data: bytes) -> bytes:
    """Return the xxh3-128 of a document's UTF-8 text, or of its tokens as little-endian u32."""
    return xxhash.xxh3_128_digest(data)


def content_hashes(
    manifest: Manifest, documents: Documents, *, unreadable: Documents | None = None
) -> list[bytes]:
    """Return the 16-byte content hash of each document, in the order given.

    Every block that holds one of them is read once. Those of `unreadable`, sorted, may lie in a
    damaged block; their hash is then `UNREAD`. So is that of a tombstone of a rebuilt corpus.

    Raises:
        CorruptBlock: another document lies in a block that cannot be read.
    """
    wanted = np.asarray(documents, np.int64)
    check_documents(manifest, wanted)
    geometry = manifest.geometry()
    gone = np.isin(wanted, manifest.tombstones)
    hashes: dict[int, bytes] = dict.fromkeys(wanted[gone].tolist(), UNREAD)
    there = wanted[~gone]
    blocks = geometry.block_of(there)
    for block in np.unique(blocks):
        first, chosen = int(geometry.first_document[block]), there[blocks == block]
        try:
            contents = block_contents(manifest, int(block))
        except CorruptBlock:
            if unreadable is None or not bool(np.isin(chosen, unreadable).all()):
                raise
            hashes.update(dict.fromkeys(chosen.tolist(), UNREAD))
            continue
        for doc in chosen:
            hashes[int(doc)] = content_hash(contents[int(doc) - first])
    return [hashes[int(doc)] for doc in wanted]


def unreadable_documents(entries: Sequence[Entry]) -> Documents:
    """Return the sorted documents that live decisions left out because they could not be read."""
    named = [
        doc
        for entry in live_entries(entries)
        if EVIDENCE_OF_DAMAGE in entry.decision.evidence
        for doc in entry.decision.scope.documents
    ]
    return np.unique(np.array(named, np.int64))


def block_contents(manifest: Manifest, block: int) -> list[bytes]:
    """Return what each document of a block is made of, as bytes for `content_hash`."""
    if not manifest.has_token_ids:
        return [str(text).encode() for text in manifest.block_text(block).to_pylist()]
    data = manifest.open_block(block)
    return [data.document(i).astype("<u4").tobytes() for i in range(len(data))]


def resolver(manifest: Manifest) -> Resolver:
    """Return the function that gives the sorted documents of a scope."""

    def resolve(scope: Scope) -> Documents:
        if scope.kind == "shard":
            return shard_documents(manifest, scope.value)
        if scope.kind == "source":
            return source_documents(manifest, scope.value)
        documents = np.asarray(scope.documents, np.int64)
        check_documents(manifest, documents)
        return documents

    return resolve


def shard_documents(manifest: Manifest, uri: str) -> Documents:
    """Return the ordinals of a shard's documents.

    Raises:
        NotFound: the manifest has no such shard.
    """
    for shard in manifest.shards:
        if shard.uri == uri:
            return np.arange(
                shard.first_document, shard.first_document + shard.documents, dtype=np.int64
            )
    raise NotFound(f"the manifest has no shard {uri!r}; see corpus show for their names")


def source_documents(manifest: Manifest, name: str) -> Documents:
    """Return the sorted ordinals of a source's documents; reads the source column once.

    Raises:
        NotFound: the manifest has no such source.
    """
    names = list(manifest.source_names)
    if name not in names:
        known = ", ".join(names) or "none"
        raise NotFound(f"the manifest has no source {name!r}; it has {known}")
    code = names.index(name)
    total = manifest.geometry().documents
    found = [
        low + np.flatnonzero(manifest.sources(low, min(low + _CHUNK, total)) == code)
        for low in range(0, total, _CHUNK)
    ]
    return np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)


def content_scope(manifest: Manifest, digest: str, near: Sequence[int] = ()) -> Scope:
    """Return the scope of all exact copies of a content hash, found by reading the corpus once.

    Raises:
        NotFound: no document has that content.
        DecisionError: `digest` is not 32 hex digits.
    """
    try:
        wanted = bytes.fromhex(digest)
    except ValueError as error:
        raise DecisionError(f"{digest!r} is no content hash; give 32 hex digits") from error
    if len(wanted) != 16:
        raise DecisionError(f"{digest!r} is no content hash; give 32 hex digits")
    geometry = manifest.geometry()
    found: list[int] = list(near)
    gone = frozenset(manifest.tombstones.tolist())
    for block in range(geometry.blocks):
        first = int(geometry.first_document[block])
        contents = block_contents(manifest, block)
        same = [first + i for i, data in enumerate(contents) if content_hash(data) == wanted]
        found += [doc for doc in same if doc not in gone]
    if not found:
        raise NotFound(f"no document of the corpus has the content {digest}")
    return Scope(kind="content", value=digest.lower(), documents=tuple(found))


def document_facts(manifest: Manifest, doc: int) -> DocumentFacts:
    """Return what scopes may ask about `doc`; reads the document for its content hash.

    Raises:
        NotFound: the corpus has no such document.
    """
    check_documents(manifest, (doc,))
    location = manifest.locate(doc)
    content = content_hashes(manifest, np.asarray([doc], np.int64))[0].hex()
    return DocumentFacts(
        doc=doc, shard=location.shard_uri, source=str(location.source), content=content
    )


def check_documents(manifest: Manifest, named: Sequence[int] | Documents) -> None:
    """Refuse ordinals that the corpus does not have.

    Raises:
        NotFound: naming one of them and the range there is.
    """
    documents = np.asarray(named, np.int64)
    total = manifest.geometry().documents
    if documents.size and not 0 <= int(documents.min()) <= int(documents.max()) < total:
        bad = int(documents.max()) if int(documents.max()) >= total else int(documents.min())
        raise NotFound(f"there is no document {bad}; the corpus holds 0 to {total - 1}")
