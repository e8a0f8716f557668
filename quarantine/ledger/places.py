"""Which steps a shard or a source fed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...loader.errors import NotFound
from ...loader.lineage import Span
from ...loader.manifest import Manifest
from ...loader.manifest_format import Shard
from .database import Database
from .views import condition


def shard_of(manifest: Manifest, uri: str) -> Shard:
    """Return the shard named `uri`, or the only one whose name ends with it.

    Raises:
        NotFound: none or several do.
    """
    exact = [shard for shard in manifest.shards if shard.uri == uri]
    found = exact or [shard for shard in manifest.shards if shard.uri.endswith(uri)]
    if len(found) != 1:
        names = ", ".join(shard.uri for shard in found[:3]) or "none"
        raise NotFound(
            f"{uri!r} names {len(found)} of {len(manifest.shards)} shards ({names}); "
            "see `shardward corpus show` for their names"
        )
    return found[0]


def shard_steps(database: Database, shard: Shard, spans: tuple[Span, ...]) -> pa.Table:
    """Return one row per step that the shard fed: step, piece, documents, segments, tokens."""
    return database.table(
        "SELECT step, piece, count(DISTINCT doc) AS documents, count(*) AS segments, "  # noqa: S608
        "sum(token_count)::BIGINT AS tokens FROM segments "
        f"WHERE doc BETWEEN ? AND ? AND {condition(spans)} GROUP BY step, piece "
        "ORDER BY step, piece",
        [shard.first_document, shard.first_document + shard.documents - 1],
    )


def source_steps(
    database: Database, manifest: Manifest, name: str, spans: tuple[Span, ...]
) -> pa.Table:
    """Return one row per step that the source fed: step, piece, documents, segments, tokens.

    Raises:
        NotFound: the corpus has no such source.
    """
    if name not in manifest.source_names:
        known = ", ".join(manifest.source_names[:10])
        raise NotFound(f"there is no source {name!r}; the corpus has {known}")
    code = manifest.source_names.index(name)
    docs = database.table(
        f"SELECT DISTINCT doc FROM segments WHERE {condition(spans)} ORDER BY doc"  # noqa: S608
    )["doc"].to_numpy()
    chosen = docs[manifest.sources_of(docs) == code] if len(docs) else np.empty(0, dtype=np.int64)
    return database.joined(
        "SELECT step, piece, count(DISTINCT doc) AS documents, count(*) AS segments, "  # noqa: S608
        "sum(token_count)::BIGINT AS tokens FROM segments SEMI JOIN chosen USING (doc) "
        f"WHERE {condition(spans)} GROUP BY step, piece ORDER BY step, piece",
        "chosen",
        pa.table({"doc": chosen}),
    )
