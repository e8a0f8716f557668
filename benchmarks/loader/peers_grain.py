"""Grain: ArrayRecord files (a converted copy), a global shuffle over the records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import Documents
from .packer import packed
from .peer import measure, wait_for_one
from .peer_rows import rows_of


def prepare(documents: Documents, **_options: Any) -> dict[str, Any]:
    """Write the documents as ArrayRecord, one record each, unless that is done."""
    records = import_module("array_record.python.array_record_module")
    began = time.perf_counter()
    for number, out in enumerate(_paths(documents)):
        if not out.exists():
            # One record per group is what gives random access; the default packs 65,536.
            sink = records.ArrayRecordWriter(f"{out}.part", "group_size:1")
            for row in rows_of(documents, shard=number):
                sink.write(row.tobytes())
            sink.close()
            Path(f"{out}.part").rename(out)
    return {"prepare_s": round(time.perf_counter() - began, 1)}


def throughput(
    documents: Documents, *, batch: int, seq_len: int, batches: int, **_options: Any
) -> dict[str, Any]:
    """Iterate the shuffled map dataset without threads, which takes a third of their CPU time."""
    stream = packed(iter(_dataset(documents)), batch=batch, seq_len=seq_len)
    return {**measure(stream, batches), "form": "ArrayRecord, MapDataset.shuffle, no threads"}


def parquet(
    documents: Documents, *, batch: int, seq_len: int, batches: int, **_options: Any
) -> dict[str, Any]:
    """Iterate the Parquet files through its own reader and a window shuffle of 10,000."""
    experimental = import_module("grain.experimental")
    rows = experimental.ParquetIterDataset(documents.shards)
    rows = experimental.WindowShuffleIterDataset(rows, window_size=10_000, seed=1)
    stream = packed((row["tokens"] for row in rows), batch=batch, seq_len=seq_len)
    return {
        **measure(stream, batches),
        "form": "ParquetIterDataset, 16 files interleaved, window shuffle 10000",
    }


def first_batch(
    documents: Documents, *, progress: float, batch: int, seq_len: int, **_options: Any
) -> dict[str, Any]:
    """Set an iterator's state to a share of the epoch and wait for one batch."""
    began = time.perf_counter()
    rows: Iterator[Any] = iter(_dataset(documents))
    state = rows.get_state()  # type: ignore[attr-defined]
    state["next_index"] = int(documents.documents * progress)
    rows.set_state(state)  # type: ignore[attr-defined]
    stream = packed(rows, batch=batch, seq_len=seq_len)
    return {**wait_for_one(stream, began), "form": "set_state"}


def _dataset(documents: Documents) -> Any:
    grain = import_module("grain")
    source = grain.sources.ArrayRecordDataSource([str(path) for path in _paths(documents)])
    rows = grain.MapDataset.source(source).shuffle(seed=1)
    reading = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    return rows.map(_decode).to_iter_dataset(reading)


def _decode(record: bytes) -> NDArray[np.uint16]:
    return np.frombuffer(record, np.uint16)


def _paths(documents: Documents) -> list[Path]:
    # Access to a record costs time in proportion to the records of its file.
    home = Path(documents.path).parent / "grain"
    home.mkdir(exist_ok=True)
    return [home / f"shard-{number:05d}.array_record" for number in range(len(documents.shards))]
