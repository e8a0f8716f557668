"""MosaicML Streaming: MDS shards (a converted copy), its default shuffle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from .documents import Documents
from .packer import packed
from .peer import measure, wait_for_one
from .peer_rows import rows_of


def prepare(documents: Documents, **_options: Any) -> dict[str, Any]:
    """Write the documents as MDS, one ndarray of uint16 each, unless that is done."""
    streaming = import_module("streaming")
    out, began = _home(documents), time.perf_counter()
    if not (out / "index.json").exists():
        with streaming.MDSWriter(columns={"tokens": "ndarray:uint16"}, out=str(out)) as sink:
            for row in rows_of(documents):
                sink.write({"tokens": row})
    return {"prepare_s": round(time.perf_counter() - began, 1)}


def throughput(
    documents: Documents, *, batch: int, seq_len: int, batches: int, **_options: Any
) -> dict[str, Any]:
    """Iterate the shuffled dataset in this process."""
    stream = packed(_tokens(_dataset(documents)), batch=batch, seq_len=seq_len)
    return {**measure(stream, batches), "form": "MDS, shuffle=True (py1e), local"}


def first_batch(
    documents: Documents, *, progress: float, batch: int, seq_len: int, **_options: Any
) -> dict[str, Any]:
    """Load a state at a share of the epoch and wait for one batch."""
    began = time.perf_counter()
    dataset = _dataset(documents)
    done = int(documents.documents * progress)
    dataset.load_state_dict(dataset.state_dict(num_samples=done, from_beginning=True))
    stream = packed(_tokens(dataset), batch=batch, seq_len=seq_len)
    return {**wait_for_one(stream, began), "form": "load_state_dict"}


def _dataset(documents: Documents) -> Any:
    streaming = import_module("streaming")
    streaming.base.util.clean_stale_shared_memory()
    return streaming.StreamingDataset(
        local=str(_home(documents)), shuffle=True, batch_size=1, num_canonical_nodes=1
    )


def _home(documents: Documents) -> Path:
    return Path(documents.path).parent / "mosaic"


def _tokens(dataset: Any) -> Iterator[Any]:
    for row in dataset:
        yield row["tokens"]
