"""What no loader over these files can beat, and what a careful numpy user gets out of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from .documents import SEPARATOR, Documents
from .meter import Meter, peak_memory_mb

COPY_BYTES = 256 << 20


def decode(documents: Documents, *, threads: int, epochs: int, **_options: Any) -> dict[str, Any]:
    """Decode the token column of every row group, in shuffled order, and drop it."""
    meter = Meter()
    with ThreadPoolExecutor(threads) as pool:
        parts = [
            pool.submit(_decode_part, documents, part, threads, epochs) for part in range(threads)
        ]
        tokens = sum(part.result() for part in parts)
    backend = pa.default_memory_pool().backend_name
    return {**meter.rates(tokens), "peak_mb": peak_memory_mb(), "memory_pool": backend}


def _decode_part(documents: Documents, part: int, parts: int, epochs: int) -> int:
    columns = _row_groups(documents, epochs, part=part, parts=parts)
    return sum(len(column.flatten()) for column in columns)


def memcpy(documents: Documents, **_options: Any) -> dict[str, Any]:
    """Copy uint16 from one warm buffer to another, tokens counted as copied."""
    source = np.ones(COPY_BYTES // 2, np.uint16)
    target = source.copy()
    meter, tokens = Meter(), 0
    while tokens < documents.tokens:
        np.copyto(target, source)
        tokens += len(source)
    return {**meter.rates(tokens), "peak_mb": peak_memory_mb()}


def careful_numpy(
    documents: Documents,
    *,
    window: int,
    batch: int,
    seq_len: int,
    digest: bool,
    epochs: int,
    **_options: Any,
) -> dict[str, Any]:
    """Shuffle, pack and batch windows of row groups with numpy over Arrow's buffers.

    Row groups are shuffled, so are the documents of a window and its packed samples; with
    `digest` each sample's tokens are hashed as well. No records, no resume, no exclusion.
    """
    meter, tokens = Meter(), 0
    generator = np.random.default_rng(3)
    columns: list[pa.ListArray] = []
    for column in _row_groups(documents, epochs):
        columns.append(column)
        if len(columns) == window:
            tokens += _deliver(columns, generator, batch, seq_len, digest=digest)
            columns = []
    if columns:
        tokens += _deliver(columns, generator, batch, seq_len, digest=digest)
    return {**meter.rates(tokens), "peak_mb": peak_memory_mb(), "dtype": "uint16"}


def _deliver(
    columns: list[pa.ListArray],
    generator: np.random.Generator,
    batch: int,
    seq_len: int,
    *,
    digest: bool,
) -> int:
    pieces: list[NDArray[np.uint16]] = []
    for column in columns:
        values = column.flatten().to_numpy()
        bounds = column.offsets.to_numpy().tolist()
        pieces += [values[low:high] for low, high in pairwise(bounds)]
    end = np.array([SEPARATOR], np.uint16)
    order = generator.permutation(len(pieces)).tolist()
    stream = np.concatenate([part for place in order for part in (pieces[place], end)])
    samples = stream[: len(stream) // seq_len * seq_len].reshape(-1, seq_len)
    delivered = 0
    shuffled = generator.permutation(len(samples))
    for first in range(0, len(samples), batch):
        made = samples[shuffled[first : first + batch]]
        if digest:
            for row in made:
                xxhash.xxh3_128_intdigest(row.astype("<u4").data)
        delivered += made.size
    return delivered


def _row_groups(
    documents: Documents, epochs: int, *, part: int = 0, parts: int = 1
) -> Iterator[pa.ListArray]:
    groups = [
        (shard, n) for shard, rows in enumerate(documents.row_groups) for n in range(len(rows))
    ]
    np.random.default_rng(2).shuffle(groups)
    paths = documents.shards
    files = [pq.ParquetFile(pa.OSFile(path), pre_buffer=False, memory_map=False) for path in paths]
    for shard, group in (groups * epochs)[part::parts]:
        table = files[shard].read_row_group(group, columns=["tokens"], use_threads=False)
        yield table["tokens"].combine_chunks()
