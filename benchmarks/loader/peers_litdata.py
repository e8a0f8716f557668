"""LitData: its token format (a converted copy), blocks shuffled; documents are not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import SEPARATOR, Documents
from .peer import measure, wait_for_one
from .peer_rows import rows_of


class Convert:
    """Yields the documents as tensors, a separator after each."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def __call__(self, _item: int) -> Iterator[Any]:
        """Yield all documents; the argument numbers the only piece of work."""
        torch = import_module("torch")
        for row in rows_of(self._documents):
            yield torch.from_numpy(np.append(row, np.uint16(SEPARATOR)))


def prepare(documents: Documents, **_options: Any) -> dict[str, Any]:
    """Write the documents in LitData's token format unless that is done."""
    litdata = import_module("litdata")
    out, began = _home(documents), time.perf_counter()
    if not (out / "index.json").exists():
        litdata.optimize(
            fn=Convert(documents),
            inputs=[0],
            output_dir=str(out),
            chunk_bytes="64MB",
            num_workers=1,
            item_loader=litdata.TokensLoader(),
            verbose=False,
        )
    return {"prepare_s": round(time.perf_counter() - began, 1)}


def throughput(
    documents: Documents, *, batch: int, seq_len: int, batches: int, **_options: Any
) -> dict[str, Any]:
    """Iterate shuffled blocks in this process."""
    rows = iter(_dataset(documents, seq_len))
    return {
        **measure(_batches(rows, batch), batches),
        "form": "TokensLoader, blocks shuffled, documents not",
    }


def first_batch(
    documents: Documents, *, progress: float, batch: int, seq_len: int, **_options: Any
) -> dict[str, Any]:
    """Load a state at a share of the epoch and wait for one batch."""
    began = time.perf_counter()
    dataset = _dataset(documents, seq_len)
    done = int((documents.tokens + documents.documents) // seq_len * progress) // batch * batch
    dataset.load_state_dict(dataset.state_dict(done, 0, batch))
    return {**wait_for_one(_batches(iter(dataset), batch), began), "form": "load_state_dict"}


def _batches(rows: Iterator[Any], batch: int) -> Iterator[NDArray[Any]]:
    while True:
        yield np.stack([next(rows).numpy() for _ in range(batch)])


def _dataset(documents: Documents, seq_len: int) -> Any:
    litdata = import_module("litdata")
    return litdata.StreamingDataset(
        str(_home(documents)), item_loader=litdata.TokensLoader(block_size=seq_len), shuffle=True
    )


def _home(documents: Documents) -> Path:
    return Path(documents.path).parent / "litdata"
