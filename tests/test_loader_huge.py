"""Huge files: a document of 200 MB and a column of more than 2 GiB, from every source."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from shardward.loader import ShardLoader, build_manifest
from shardward.loader.errors import CorpusError

LONG = "0123456789" * 20_000_000
MOST_OFFSETS = 1 << 31
"""Bytes that the 32-bit offsets of a string column can reach."""


def write(path: Path, column: pa.Array | pa.ChunkedArray) -> None:
    """Write one block, compressed, in the format that the name asks for."""
    table = pa.table({"text": column})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=len(column), compression="zstd")
        return
    options = ipc.IpcWriteOptions(compression="lz4")
    open_writer = ipc.new_file if path.suffix == ".arrow" else ipc.new_stream
    with open_writer(str(path), table.schema, options=options) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows", "jsonl"])
def test_a_document_of_200_mb_is_read_whole_or_refused(tmp_path: Path, suffix: str) -> None:
    shard = tmp_path / f"a.{suffix}"
    if suffix == "jsonl":
        shard.write_text("".join(json.dumps({"text": t}) + "\n" for t in ("first", LONG, "last")))
    else:
        write(shard, pa.array(["first", LONG, "last"], pa.string()))
    manifest = build_manifest([str(shard)], tmp_path / "m")
    plan = manifest.plan(seed=1, seq_len=4096, window_blocks=1)
    whole = manifest.plan(seed=1, seq_len=None, window_blocks=3)

    assert manifest.lengths(0, 3).tolist() == [5, len(LONG), 4]
    with ShardLoader(manifest, plan, batch=8, threads=0) as loader:
        found = [next(loader) for _ in range(2)]
    pieces = [
        (batch.tokens[row, offset : offset + end - start], start, end)
        for batch in found
        for row, doc, start, end, offset in zip(*batch.segments.columns(), strict=True)
        if doc == 1
    ]
    assert len(pieces) >= 15
    for tokens, start, end in pieces:
        assert tokens.astype("u1").tobytes().decode() == LONG[start:end]
    with (
        ShardLoader(manifest, whole, batch=3, threads=0, window_bytes=1 << 30) as documents,
        pytest.raises(
            CorpusError, match="a document of 200000000 tokens pads 3 rows to 1800000000"
        ),
    ):
        list(documents)


def _memory() -> int:
    """Return the bytes that may be taken without swapping; 0 where that is not known."""
    path = Path("/proc/meminfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(x.split()[1]) << 10 for x in lines if x.startswith("MemAvailable")), 0)


COLUMNS = ["coded.parquet", "large.arrow", "plain.parquet", "large.parquet", "large.arrows"]
"""Names by how the column is typed and stored; the first two are tried every time."""


@pytest.mark.skipif(_memory() < 8 << 30, reason="decodes columns of more than 2 GiB")
@pytest.mark.parametrize("name", COLUMNS if os.environ.get("SHARDWARD_HUGE") else COLUMNS[:2])
def test_a_column_of_more_than_2_gib_is_indexed_and_read_whole(tmp_path: Path, name: str) -> None:
    text = "the same words again " * (1 << 16)
    count = MOST_OFFSETS // len(text) + 2
    kind = pa.large_string() if name.startswith("large") else pa.string()
    values = pa.array([text, "the last document"], kind)
    indices = pa.array([0] * count + [1], pa.int32())
    if name.startswith("large"):
        write(tmp_path / name, values.take(indices))
    else:
        # A few kilobytes on disk: Parquet keeps each distinct text once.
        table = pa.table({"text": pa.DictionaryArray.from_arrays(indices, values)})
        coded = name.startswith("coded")
        pq.write_table(table, tmp_path / name, row_group_size=count + 1, store_schema=coded)
    manifest = build_manifest([str(tmp_path / name)], tmp_path / "m")

    assert manifest.header.blocks == 1
    assert manifest.header.tokens == count * len(text) + 17 > MOST_OFFSETS
    assert set(manifest.lengths(0, count).tolist()) == {len(text)}
    assert manifest.block_text(0)[-1].as_py() == "the last document"
