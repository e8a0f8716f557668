"""Make the index of a corpus: a sidecar for each shard, none made twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...loader.errors import CorpusError
from .engine import executor
from .rows import IndexRows, index_chunk, join_rows
from .sidecar import usable_sidecar, write_sidecar
from .texts import block_chunk

if TYPE_CHECKING:
    from ...loader.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """Shards whose sidecar was made now, those that had a good one, and the bytes on disk."""

    made: int
    kept: int
    documents: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardIndexed:
    """One shard: its documents, the size of its sidecar, and why it failed if it did."""

    made: bool
    documents: int
    bytes: int
    failure: str = ""


def build_signatures(
    manifest: Manifest,
    *,
    workers: int = 0,
    advance: Callable[[int], object] | None = None,
) -> IndexReport:
    """Write the sidecars that are missing, torn or stale; a stopped job goes on where it was.

    `advance(n)` hears of each n documents indexed.

    Raises:
        CorpusError: shards could not be read, all of them named; the others were indexed.
    """
    pa.default_memory_pool().release_unused()  # what indexing giant documents just before took
    results = []
    failures: list[str] = []
    shards = range(len(manifest.shards))
    pool = executor(workers, lambda shard: manifest.shards[shard].uri, lost=failures.append)
    for result in pool.map_unordered(index_shard, shards, manifest):
        results.append(result)
        if advance is not None:
            advance(result.documents)
    failures += [result.failure for result in results if result.failure]
    if failures:
        raise CorpusError(
            f"{len(failures)} of {len(shards)} shards could not be indexed: "
            + "; ".join(sorted(failures))
        )
    return IndexReport(
        made=sum(result.made for result in results),
        kept=sum(not result.made for result in results),
        documents=sum(result.documents for result in results),
        bytes=sum(result.bytes for result in results),
    )


def index_shard(shard: int, manifest: Manifest) -> ShardIndexed:
    """Write the sidecar of one shard unless a good one is there."""
    documents = manifest.shards[shard].documents
    if usable_sidecar(manifest, shard) is not None:
        return ShardIndexed(made=False, documents=documents, bytes=0)
    try:
        path = write_sidecar(manifest, shard, read_shard(manifest, shard))
    except CorpusError as error:
        return ShardIndexed(made=False, documents=documents, bytes=0, failure=str(error))
    return ShardIndexed(made=True, documents=documents, bytes=path.stat().st_size)


def read_shard(manifest: Manifest, shard: int) -> IndexRows:
    """Return the rows of one shard, made from its text.

    Raises:
        CorpusError: the shard cannot be read.
    """
    found = manifest.shards[shard]
    blocks = range(found.first_block, found.first_block + found.blocks)
    junk = manifest.has_text
    return join_rows([index_chunk(block_chunk(manifest, block), junk=junk) for block in blocks])
