"""Hugging Face datasets: a streamed Parquet corpus behind a shuffle buffer, and its Arrow cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from .documents import Documents
from .packer import packed
from .peer import measure, wait_for_one

BUFFER = 10_000


def streaming(
    documents: Documents, *, batch: int, seq_len: int, batches: int, **_options: Any
) -> dict[str, Any]:
    """Stream with a shuffle buffer of 10,000 documents, as numpy arrays."""
    stream = packed(_tokens(_stream(documents)), batch=batch, seq_len=seq_len)
    return {**measure(stream, batches), "form": f"streaming, shuffle buffer {BUFFER}"}


def map_style(
    documents: Documents, *, batch: int, seq_len: int, batches: int, **_options: Any
) -> dict[str, Any]:
    """Read the Arrow cache (a converted copy) in a permutation of all documents."""
    datasets = import_module("datasets")
    cache = str(Path(documents.path).parent / "hf-cache")
    table = datasets.load_dataset(
        "parquet", data_files=documents.shards, split="train", cache_dir=cache
    )
    shuffled = table.select_columns("tokens").shuffle(seed=1).with_format("numpy")
    rows = (row for part in shuffled.iter(batch_size=1000) for row in part["tokens"])
    return {
        **measure(packed(rows, batch=batch, seq_len=seq_len), batches),
        "form": "map-style over its own Arrow cache, global shuffle",
    }


def first_batch(
    documents: Documents, *, progress: float, batch: int, seq_len: int, **_options: Any
) -> dict[str, Any]:
    """Skip a share of the shuffled stream and wait for one batch."""
    began = time.perf_counter()
    skipped = _stream(documents).skip(int(documents.documents * progress))
    tail = packed(_tokens(skipped), batch=batch, seq_len=seq_len)
    return {**wait_for_one(tail, began), "form": "skip(n) of the shuffled stream"}


def _stream(documents: Documents) -> Any:
    datasets = import_module("datasets")
    stream = datasets.load_dataset(
        "parquet", data_files=documents.shards, split="train", streaming=True, columns=["tokens"]
    )
    return stream.shuffle(seed=1, buffer_size=BUFFER).with_format("numpy")


def _tokens(rows: Any) -> Iterator[Any]:
    for row in rows:
        yield row["tokens"]
