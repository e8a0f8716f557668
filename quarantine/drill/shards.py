"""Blocks of text as Parquet shards, one row group for each block, whole under their names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...loader.files import publish_new
from ...loader.formats import sha256_hex
from .placement import Blocks

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)


def write_shards(blocks: Blocks, directory: Path, *, shard_blocks: int) -> list[Path]:
    """Write `blocks` as `part-NNN.parquet` with `shard_blocks` row groups each.

    Returns:
        The files, in order.
    """
    directory.mkdir(parents=True)
    paths = []
    for number, low in enumerate(range(0, len(blocks), shard_blocks)):
        path = directory / f"part-{number:03d}.parquet"
        publish_new(path, _parquet(blocks[low : low + shard_blocks]))
        paths.append(path)
    return paths


def corpus_digest(blocks: Blocks) -> str:
    """Return the SHA-256 over ids and texts in order, 64 hex digits."""
    rows = [f"{text.id}\0{text.source}\0{text.text}\0" for block in blocks for text in block]
    return sha256_hex("".join(rows).encode("utf-8", "surrogatepass"))


def _parquet(blocks: Blocks) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, SCHEMA, compression="zstd") as writer:
        for block in blocks:
            columns = [[getattr(text, name) for text in block] for name in SCHEMA.names]
            table = pa.table(columns, schema=SCHEMA)
            writer.write_table(table, row_group_size=len(block))
    data: bytes = sink.getvalue().to_pybytes()
    return data
