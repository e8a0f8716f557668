"""torchdata's StatefulDataLoader over the usual hand-written Parquet dataset."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow.parquet as pq

from .documents import Documents
from .packer import packed
from .peer import measure, wait_for_one


def throughput(
    documents: Documents, *, batch: int, seq_len: int, batches: int, **_options: Any
) -> dict[str, Any]:
    """Row groups shuffled, rows shuffled within each, rows as Python lists, no workers."""
    stream = packed(_loader(documents), batch=batch, seq_len=seq_len)
    return {**measure(stream, batches), "form": "IterableDataset, to_pylist, row group shuffle"}


def first_batch(
    documents: Documents, *, progress: float, batch: int, seq_len: int, **_options: Any
) -> dict[str, Any]:
    """Load a state at a share of the epoch, which replays up to there, and wait for one batch."""
    loader = _loader(documents)
    next(iter(loader))
    state = loader.state_dict()
    state["_num_yielded"] = int(documents.documents * progress)
    began = time.perf_counter()
    loader = _loader(documents)
    loader.load_state_dict(state)
    stream = packed(loader, batch=batch, seq_len=seq_len)
    return {**wait_for_one(stream, began), "form": "load_state_dict of a dataset without a state"}


def _loader(documents: Documents) -> Any:
    torch_data = import_module("torch.utils.data")
    stateful = import_module("torchdata.stateful_dataloader")

    class Rows(torch_data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[list[int]]:
            return _rows(documents)

    return stateful.StatefulDataLoader(Rows(), batch_size=None, num_workers=0)


def _rows(documents: Documents) -> Iterator[list[int]]:
    drawn = random.Random(1)
    groups = [
        (path, n)
        for path, rows in zip(documents.shards, documents.row_groups, strict=True)
        for n in range(len(rows))
    ]
    drawn.shuffle(groups)
    for path, group in groups:
        rows = pq.ParquetFile(path).read_row_group(group, columns=["tokens"])["tokens"].to_pylist()
        drawn.shuffle(rows)
        yield from rows
