"""A corpus of 1e9 documents in 250,000 blocks that fits a laptop.

Every shard is a link to one real Parquet file, the manifest's tables are complete, and the length
sidecar is a sparse file that is filled where the benchmark reads. Blocks are decoded, checked and
packed as always.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardward.loader import Manifest, Revision, ShardLoader, build_manifest
from shardward.loader.files import write_atomic
from shardward.loader.formats import canonical_json
from shardward.loader.geometry import Geometry
from shardward.loader.manifest_format import (
    BLOCK_SCHEMA,
    BLOCKS,
    HEADER,
    SHARD_SCHEMA,
    SHARDS,
    SOURCES,
    file_digest,
    lengths_name,
    table_bytes,
)
from shardward.loader.order import EpochOrder, Layout
from shardward.loader.revision_store import load_revision, publish_revision_files

from .documents import SCHEMA, Documents, lengths, tokens_of
from .meter import median, memory_mb, peak_memory_mb
from .ours import SEED, TOKENIZER, cursor_at, timed_first_batch

BLOCK_DOCUMENTS = 4000
SHARD_BLOCKS = 16
WINDOW = 16
PLACES = (0.0, 0.5, 0.999)
EXCLUDED = 1_000_000
STARTS = 3


def prepare(documents: Documents, *, blocks: int, seq_len: int, **_options: Any) -> dict[str, Any]:
    """Build the corpus and a revision of a million documents unless that is done."""
    home = _home(documents)
    if not (home / "revisions").exists():
        pattern = _pattern(home)
        _links(home, pattern, blocks // SHARD_BLOCKS)
        _manifest(home, pattern, blocks // SHARD_BLOCKS, seq_len)
        _revision(home, Manifest.load(home / "manifest"))
    header = Manifest.load(home / "manifest").header
    return {"documents": header.documents, "blocks": header.blocks, "tokens": header.tokens}


def plan(documents: Documents, *, seq_len: int, **_options: Any) -> dict[str, Any]:
    """Open the manifest, make the plan and the whole epoch's order of blocks and windows."""
    before, began = memory_mb(), time.perf_counter()
    manifest = Manifest.load(_home(documents) / "manifest")
    opened = time.perf_counter()
    made = manifest.plan(seed=SEED, seq_len=seq_len, window_blocks=WINDOW)
    order = EpochOrder(Layout(made, manifest.geometry(), manifest.lengths), 0)
    done = time.perf_counter()
    return {
        "manifest_s": round(opened - began, 4),
        "plan_s": round(done - opened, 4),
        "plan_total_s": round(done - began, 4),
        "positions": order.positions,
        "above_import_mb": round(peak_memory_mb() - before, 1),
    }


def first_batch(
    documents: Documents, *, progress: float, batch: int, seq_len: int, **_options: Any
) -> dict[str, Any]:
    """Open everything anew at a share of the epoch and wait for one batch."""
    path = _home(documents) / "manifest"
    return timed_first_batch(path, window=WINDOW, progress=progress, batch=batch, seq_len=seq_len)


def excluded(
    documents: Documents, *, progress: float, batch: int, seq_len: int, **_options: Any
) -> dict[str, Any]:
    """Start with and without a million excluded documents, in turn."""
    home = _home(documents)
    wall: dict[int, list[float]] = {0: [], 1: []}
    cpu: dict[int, list[float]] = {0: [], 1: []}
    for turn in range(2 * STARTS + 1):
        number = turn % 2
        began, used = time.perf_counter(), time.process_time()
        manifest = Manifest.load(home / "manifest")
        made = manifest.plan(seed=SEED, seq_len=seq_len, window_blocks=WINDOW)
        revision = load_revision(home, number, manifest=manifest.fingerprint)
        cursor = cursor_at(manifest, made, progress, batch)
        with ShardLoader(
            manifest, made, batch=batch, threads=2, cursor=cursor, revision=revision
        ) as loader:
            next(loader)
            if turn:  # the first start warms what all share
                wall[number].append(time.perf_counter() - began)
                cpu[number].append(time.process_time() - used)
    return {
        "excluded": EXCLUDED,
        "without_s": round(median(wall[0]), 4),
        "with_s": round(median(wall[1]), 4),
        "added_s": round(median(wall[1]) - median(wall[0]), 4),
        "added_cpu_s": round(median(cpu[1]) - median(cpu[0]), 4),
        "peak_mb": peak_memory_mb(),
    }


def _home(documents: Documents) -> Path:
    return Path(documents.path).parent / "billion"


def _pattern(home: Path) -> Manifest:
    """Write and index one shard, the pattern of all."""
    generator = np.random.default_rng(5)
    pattern = home / "pattern"
    (pattern / "data").mkdir(parents=True)
    with pq.ParquetWriter(pattern / "data" / "one.parquet", SCHEMA, compression="zstd") as sink:
        for _ in range(SHARD_BLOCKS):
            sizes = lengths(BLOCK_DOCUMENTS, generator)
            offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32))
            values = pa.array(tokens_of(int(sizes.sum()), generator))
            lists = pa.ListArray.from_arrays(offsets, values)
            ids = pa.array([""] * BLOCK_DOCUMENTS)
            sink.write_table(
                pa.table({"id": ids, "tokens": lists}, schema=SCHEMA),
                row_group_size=BLOCK_DOCUMENTS,
            )
    return build_manifest(
        [str(pattern / "data")], pattern / "manifest", column="tokens", tokenizer=TOKENIZER
    )


def _links(home: Path, pattern: Manifest, shards: int) -> None:
    data = home / "data"
    data.mkdir()
    for number in range(shards):
        os.link(Path(pattern.root) / "one.parquet", data / f"{number:06d}.parquet")


def _manifest(home: Path, pattern: Manifest, shards: int, seq_len: int) -> None:
    out = home / "manifest"
    out.mkdir()
    write_atomic(out / SHARDS, table_bytes(_shard_table(pattern, shards)))
    write_atomic(out / BLOCKS, table_bytes(_block_table(pattern, shards)))
    per_shard = pattern.header.documents
    lengths_file = lengths_name(pattern.header.tokenizer)
    for name, width in ((lengths_file, 4), (SOURCES, 2)):
        with (out / name).open("wb") as handle:
            handle.truncate(per_shard * shards * width)
    _fill_lengths(out / lengths_file, pattern, shards, seq_len)
    tables = {name: file_digest(out / name) for name in (SHARDS, BLOCKS, lengths_file, SOURCES)}
    header = replace(
        pattern.header,
        root=str(home / "data"),
        documents=per_shard * shards,
        tokens=pattern.header.tokens * shards,
        shards=shards,
        blocks=SHARD_BLOCKS * shards,
        tables=tables,
    )
    write_atomic(out / HEADER, canonical_json(header.to_json()) + b"\n")


def _shard_table(pattern: Manifest, shards: int) -> pa.Table:
    [one] = pattern.shards
    number = np.arange(shards, dtype=np.int64)
    columns = {
        "uri": [f"{n:06d}.parquet" for n in range(shards)],
        "size": np.full(shards, one.size),
        "digest": [bytes.fromhex(one.digest)] * shards,
        "documents": np.full(shards, one.documents),
        "first_document": number * one.documents,
        "first_block": number * one.blocks,
        "blocks": np.full(shards, one.blocks),
        "format": [one.format] * shards,
    }
    return pa.table(columns, schema=SHARD_SCHEMA)


def _block_table(pattern: Manifest, shards: int) -> pa.Table:
    count = SHARD_BLOCKS * shards
    columns = {
        "shard": np.repeat(np.arange(shards, dtype=np.int32), SHARD_BLOCKS),
        "index": np.tile(np.arange(SHARD_BLOCKS, dtype=np.int32), shards),
        "documents": np.tile(pattern.block_column("documents"), shards),
        "tokens": np.tile(pattern.block_column("tokens"), shards),
        "offset": np.zeros(count, np.int64),
        "size": np.zeros(count, np.int64),
        "digest": [pattern.block_digest(n) for n in range(SHARD_BLOCKS)] * shards,
    }
    return pa.table(columns, schema=BLOCK_SCHEMA)


def _fill_lengths(path: Path, pattern: Manifest, shards: int, seq_len: int) -> None:
    """Write the lengths of the windows that are read at `PLACES`, and of the next two."""
    geometry = Geometry(
        block_documents=np.tile(pattern.block_column("documents"), shards),
        block_tokens=np.tile(pattern.block_column("tokens"), shards),
    )
    # The order depends on the seed and the geometry, not on the fingerprint.
    made = pattern.plan(seed=SEED, seq_len=seq_len, window_blocks=WINDOW)
    order = EpochOrder(Layout(made, geometry, pattern.lengths), 0)
    known = pattern.lengths(0, pattern.header.documents)
    with path.open("r+b") as handle:
        for place in PLACES:
            first = order.window_of(int(order.positions * place))
            for window in range(first, min(first + 3, order.windows)):
                for block in order.blocks(window).tolist():
                    row = block % SHARD_BLOCKS * BLOCK_DOCUMENTS
                    handle.seek(block * BLOCK_DOCUMENTS * 4)
                    handle.write(known[row : row + BLOCK_DOCUMENTS].tobytes())


def _revision(home: Path, manifest: Manifest) -> None:
    drawn = np.random.default_rng(7).integers(0, manifest.header.documents, EXCLUDED + 2000)
    chosen = np.unique(drawn)[:EXCLUDED].astype(np.int64)
    revision = Revision(
        number=1, manifest=manifest.fingerprint, documents=chosen, hashes=bytes(16 * len(chosen))
    )
    publish_revision_files(home, revision)
