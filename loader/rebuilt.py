"""The manifest of a rebuilt corpus in its parent's coordinates, so that a run can go on with it.

Documents and blocks keep their numbers, lengths and sources; what was removed leaves tombstones,
and a block or shard of which nothing survived stays as an empty one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .arrays import Int64Array
from .blocks import BlockData, logical_digest
from .errors import CorpusError, CorruptBlock
from .files import full_disk_named, write_atomic
from .formats import canonical_json
from .index import published
from .index_scan import file_facts
from .manifest import Manifest
from .manifest_format import (
    BLOCK_SCHEMA,
    BLOCKS,
    HEADER,
    SHARD_SCHEMA,
    SHARDS,
    TOMBSTONES,
    Shard,
    file_digest,
    table_bytes,
)
from .sources import Span, open_shard
from .tombstones import survivors

GONE = -1
"""Index of a block that no shard has any more."""
NOTHING = BlockData(values=np.empty(0, np.uint8), offsets=np.zeros(1, np.int64))


def rebuilt_manifest(
    parent: Manifest, corpus: Path, out: Path | str, *, gone: Int64Array
) -> Manifest:
    """Publish and return the manifest of the shards in `corpus` under the parent's numbers.

    Args:
        parent: the manifest that the corpus was rebuilt from, which may be a rebuilt one itself.
        corpus: directory with the rebuilt shards, under their old names; a shard of which nothing
            survived is not there.
        out: manifest directory to make; it must not exist.
        gone: sorted documents that were removed, then and before.

    Raises:
        CorpusError: `out` exists, the shards are not the parent's without `gone`, or `gone` lacks
            what was removed before.
    """
    target = Path(out).absolute()
    if target.exists():
        raise CorpusError(f"{out} exists, and manifests never change; choose a new directory")
    back = np.setdiff1d(parent.tombstones, gone)
    if back.size:
        raise CorpusError(
            f"document {int(back[0])} is gone from the corpus of {parent.path} and cannot come "
            "back; name it among what was removed"
        )
    builder = _Builder(parent, corpus, gone)
    with full_disk_named(target), published(target) as building:
        for name in parent.header.tables:
            shutil.copyfile(parent.path / name, building / name)
        write_atomic(building / SHARDS, table_bytes(builder.shards()))
        write_atomic(building / BLOCKS, table_bytes(builder.blocks()))
        write_atomic(building / TOMBSTONES, gone.astype("<i8").tobytes())
        header = replace(
            parent.header,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            root=str(corpus.absolute()),
            parent=parent.fingerprint,
            tombstones=int(gone.size),
            tables={
                name: file_digest(building / name)
                for name in sorted({*parent.header.tables, TOMBSTONES})
            },
        )
        write_atomic(building / HEADER, canonical_json(header.to_json()) + b"\n")
        _check_content(parent, Manifest.load(building))
    return Manifest.load(target)


def _check_content(parent: Manifest, clean: Manifest) -> None:
    """Refuse shards that hold anything else than the parent's without what was removed.

    A file with the bytes of its parent needs no look, unless something was to be removed from it.
    """
    for shard, old in zip(clean.shards, parent.shards, strict=True):
        for block in range(shard.first_block, shard.first_block + shard.blocks):
            if shard.digest == old.digest and clean.alive(block) is None:
                continue
            try:
                clean.reader.stored(block)
            except CorruptBlock as error:
                raise CorpusError(
                    f"{clean.root} is not the corpus of {parent.path} without the removed "
                    f"documents: {error}"
                ) from error


class _Builder:
    def __init__(self, parent: Manifest, corpus: Path, gone: Int64Array) -> None:
        self._parent = parent
        self._corpus = corpus
        self._gone = gone
        self._first = parent.geometry().first_document
        self._shard_of = parent.block_column("shard").tolist()

    def shards(self) -> pa.Table:
        """Return the shards with the size and digest of their new files."""
        return pa.Table.from_pylist(
            [self._shard(shard) for shard in self._parent.shards], schema=SHARD_SCHEMA
        )

    def blocks(self) -> pa.Table:
        """Return the blocks with their new places and the digests of what survived."""
        rows = [row for shard in self._parent.shards for row in self._blocks_of(shard)]
        return pa.Table.from_pylist(rows, schema=BLOCK_SCHEMA)

    def _shard(self, shard: Shard) -> dict[str, Any]:
        size, digest = 0, bytes(16)
        if self._left(shard.first_document, shard.first_document + shard.documents):
            size, digest = file_facts(shard.uri, str(self._corpus / shard.uri))
        return {
            "uri": shard.uri,
            "size": size,
            "digest": digest,
            "documents": shard.documents,
            "first_document": shard.first_document,
            "first_block": shard.first_block,
            "blocks": shard.blocks,
            "format": shard.format,
        }

    def _blocks_of(self, shard: Shard) -> Iterator[dict[str, Any]]:
        numbers = range(shard.first_block, shard.first_block + shard.blocks)
        left = [self._left(*self._edges(block)) for block in numbers]
        touched = sum(left) < shard.documents
        spans = self._spans(shard, [count for count in left if count]) if touched else []
        for block, count in zip(numbers, left, strict=True):
            span = self._parent.span(block)
            digest = self._parent.block_digest(block)
            if touched:
                now = spans.pop(0) if count else Span(index=GONE, first=0, documents=0)
                digest = self._digest(block) if count < span.documents else digest
            else:
                now = span
            yield {
                "shard": self._shard_of[block],
                "index": now.index,
                "documents": span.documents,
                "tokens": int(self._parent.geometry().block_tokens[block]),
                "offset": now.offset,
                "size": now.size,
                "digest": digest,
            }

    def _edges(self, block: int) -> tuple[int, int]:
        return int(self._first[block]), int(self._first[block + 1])

    def _left(self, low: int, high: int) -> int:
        """Return how many of documents low..high-1 survived."""
        start, end = np.searchsorted(self._gone, (low, high))
        return high - low - int(end - start)

    def _digest(self, block: int) -> bytes:
        """Return the digest of what survives of a block of the parent.

        A block of which nothing does is not read: it may be damaged, and that may be why.
        """
        low, high = self._edges(block)
        alive = np.ones(high - low, np.bool_)
        start, end = np.searchsorted(self._gone, (low, high))
        alive[self._gone[start:end] - low] = False
        if not alive.any():
            return logical_digest(NOTHING)
        before = self._parent.alive(block)
        stored = alive if before is None else alive[before]
        return logical_digest(survivors(self._parent.reader.stored(block), stored))

    def _spans(self, shard: Shard, counts: Sequence[int]) -> list[Span]:
        """Return where the blocks with survivors lie in the new file, `counts` rows in each."""
        path = self._corpus / shard.uri
        if not counts:
            return []
        if shard.format == "jsonl":
            return _line_spans(path, counts)
        reader = open_shard(shard.format, shard.uri, str(path))
        try:
            spans = [span for span in reader.spans() if span.documents]
        finally:
            reader.close()
        if [span.documents for span in spans] != list(counts):
            raise CorpusError(
                f"shard {shard.uri} of {self._corpus} has blocks of "
                f"{[span.documents for span in spans][:8]} rows, the survivors make "
                f"{list(counts)[:8]}; rebuild the corpus with this version"
            )
        return spans


def _line_spans(path: Path, counts: Sequence[int]) -> list[Span]:
    """Return runs of lines of `counts` lines each; a rebuilt file has no blank lines."""
    spans: list[Span] = []
    with path.open("rb") as stream:
        first = offset = 0
        for count in counts:
            size = sum(len(stream.readline()) for _ in range(count))
            index = len(spans)
            spans.append(Span(index=index, first=first, documents=count, offset=offset, size=size))
            first, offset = first + count, offset + size
        if stream.read(1):
            raise CorpusError(
                f"shard {path} has more lines than the {first} survivors; rebuild the corpus with "
                "this version"
            )
    return spans
