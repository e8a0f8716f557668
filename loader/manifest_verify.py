"""Checking a corpus against its manifest: every byte of every shard, every block, every length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .errors import CorpusError
from .index_scan import file_facts
from .manifest import Manifest
from .manifest_format import Shard, file_digest
from .sources.opening import join


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is not as it was indexed; `where` is a shard URI or a manifest file."""

    where: str
    what: str


def verify(manifest: Manifest, advance: Callable[[int, str], None] | None = None) -> list[Problem]:
    """Return all differences between `manifest` and the shards it describes.

    Args:
        manifest: what should be there.
        advance: called with (1, uri) after each shard.
    """
    problems = list(_own_files(manifest))
    for shard in manifest.shards:
        problems.extend(_shard_problems(manifest, shard))
        if advance is not None:
            advance(1, shard.uri)
    return problems


def _own_files(manifest: Manifest) -> Iterator[Problem]:
    for name, expected in manifest.header.tables.items():
        found = file_digest(manifest.path / name)
        if found != expected:
            what = f"digest {found}, the header says {expected}; index the corpus anew"
            yield Problem(where=name, what=what)


def _shard_problems(manifest: Manifest, shard: Shard) -> Iterator[Problem]:
    if not shard.size and manifest.header.tombstones:
        return  # nothing of it survived the rebuild, so there is no file
    try:
        size, digest = file_facts(shard.uri, join(manifest.root, shard.uri))
    except CorpusError as error:
        yield Problem(where=shard.uri, what=str(error))
        return
    if (size, digest.hex()) != (shard.size, shard.digest):
        what = (
            f"{size} bytes with digest {digest.hex()}, the manifest says {shard.size} bytes with "
            f"{shard.digest}; restore the shard or index the corpus anew"
        )
        yield Problem(where=shard.uri, what=what)
    for block in range(shard.first_block, shard.first_block + shard.blocks):
        try:
            manifest.open_block(block)
        except CorpusError as error:
            yield Problem(where=shard.uri, what=str(error))
