"""The documents one by one, for converting them into a peer's own format."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .documents import Documents


def rows_of(documents: Documents, shard: int | None = None) -> Iterator[NDArray[np.uint16]]:
    """Yield the tokens of every document in file order, of one shard or of all."""
    paths = documents.shards if shard is None else [documents.shards[shard]]
    for path in paths:
        for part in pq.ParquetFile(path).iter_batches(columns=["tokens"]):
            lists = part.column("tokens")
            values, bounds = lists.flatten().to_numpy(), lists.offsets.to_numpy()
            bounds = (bounds - bounds[0]).tolist()
            for low, high in pairwise(bounds):
                yield values[low:high]
