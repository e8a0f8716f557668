"""A small corpus and run for the tests of the response, made of real files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardward.loader.cursor import Cursor
from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.loader.plan import Plan
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.respond.rewind import Checkpoint


def text_of(doc: int) -> str:
    return f"document {doc} " + "word " * (5 + doc % 7) + f"end {doc}."


def make_corpus(home: Path, *, documents: int = 60, shards: int = 3, group: int = 5) -> Manifest:
    """Write Parquet shards `s0.parquet` … with columns id, text, lang, and index them."""
    data = home / "corpus"
    data.mkdir(parents=True)
    size = documents // shards
    for shard in range(shards):
        docs = range(shard * size, (shard + 1) * size)
        table = pa.table(
            {
                "id": [f"d{doc}" for doc in docs],
                "text": [text_of(doc) for doc in docs],
                "lang": ["en" if doc % 3 else "de" for doc in docs],
            }
        )
        pq.write_table(table, data / f"s{shard}.parquet", row_group_size=group)
    return build_manifest(
        [str(data)], home / "manifest", id_column="id", source_column="lang", tokenizer="bytes"
    )


def make_plan(manifest: Manifest, *, seq_len: int = 32) -> Plan:
    return Plan(
        fingerprint=manifest.fingerprint,
        seed=7,
        window_blocks=2,
        seq_len=seq_len,
        separator=256,
        pad=257,
    )


def make_run(home: Path, manifest: Manifest) -> Run:
    return Run.create(home / "run", plan=make_plan(manifest), manifest_path=manifest.path)


def start_piece(run: Run, launch: str = "first", *, cursor: Cursor | None = None) -> int:
    """Open a branch piece and let it go again; return its number."""
    cursor = cursor or Cursor(plan_id=run.plan_id)
    piece = run.open_piece(
        cursor=cursor,
        topology=Topology(),
        reason="restart" if cursor.piece else "start",
        launch=launch,
        revision=cursor.revision,
    )
    run.close()
    return piece.piece


def checkpoint(run: Run, step: int, piece: int = 1) -> Checkpoint:
    cursor = Cursor(plan_id=run.plan_id, position=4 * step, step=step, piece=piece)
    return Checkpoint(step=step, piece=piece, path=f"ckpt-{step}", cursor=cursor.to_json())


def losses(first: int, last: int, *, level: float = 3.0, seed: int = 0) -> dict[int, float]:
    noise = np.random.default_rng(seed).normal(0, 0.02, last - first + 1)
    return {step: level + float(n) for step, n in zip(range(first, last + 1), noise, strict=True)}


def write_back(files: Sequence[Path], contents: Sequence[bytes]) -> None:
    """Replace the files, as restoring copies of them does."""
    for path, content in zip(files, contents, strict=True):
        path.write_bytes(content)
