"""Recall and precision of the near-copy search against brute force over all shingles.

    python -m benchmarks.detectors --only recall --corpus ../shared/corpus

Every edited copy of the corpus is a query. The truth is the exact Jaccard index of each query with
each document, counted from an inverted list of all shingles. Prints one JSON object per bin.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardward.loader.index import build_manifest
from shardward.quarantine.search.columns import TextChunk, text_chunks
from shardward.quarantine.search.index_job import build_signatures
from shardward.quarantine.search.signature import shingle_set
from shardward.quarantine.search.similar import search

THRESHOLD = 0.7
BINS = ((0.7, 0.8), (0.8, 0.9), (0.9, 1.01))


def brute_force(chunk: TextChunk, queries: list[int]) -> Iterator[tuple[int, int, float]]:
    """Yield (query, document, exact J) of every pair with J >= THRESHOLD."""
    sets = [shingle_set(chunk.raw(row)) for row in range(len(chunk))]
    sizes = np.array([len(found) for found in sets])
    owners = np.repeat(np.arange(len(sets)), sizes)
    values = np.concatenate(sets)
    order = np.argsort(values, kind="stable")
    values, owners = values[order], owners[order]
    for query in queries:
        low = np.searchsorted(values, sets[query], "left")
        high = np.searchsorted(values, sets[query], "right")
        spans = [owners[a:b] for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        shared = np.bincount(np.concatenate(spans), minlength=len(sets)) if spans else sizes * 0
        index = shared / np.maximum(sizes[query] + sizes - shared, 1)
        for doc in np.flatnonzero(index >= THRESHOLD).tolist():
            yield query, doc, float(index[doc])


def main(folder: Path) -> None:
    """Search with each query alone, through sidecars and bands, and compare."""
    files = sorted(folder.glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(path) for path in files])
    (chunk,) = text_chunks(table["text"].combine_chunks())
    labels = np.array(table["label"].to_pylist())
    queries = np.flatnonzero(labels == "neardup_edit").tolist()
    truth = {(q, d): j for q, d, j in brute_force(chunk, queries) if d != q}
    with tempfile.TemporaryDirectory() as home:
        manifest = build_manifest([str(path) for path in files], Path(home) / "manifest")
        build_signatures(manifest)
        found = {
            (query, hit.doc): hit.score
            for query in queries
            for hit in search(manifest, [query], threshold=THRESHOLD, kinds=("near", "exact"))
        }
    for low, high in BINS:
        pairs = [pair for pair, index in truth.items() if low <= index < high]
        hits = sum(pair in found for pair in pairs)
        line = {"benchmark": "detectors.recall", "low": low, "high": min(high, 1.0)}
        print(json.dumps(line | {"pairs": len(pairs), "recall": hits / max(1, len(pairs))}))
    wrong = [pair for pair in found if pair not in truth]
    line = {"benchmark": "detectors.precision", "hits": len(found), "wrong": len(wrong)}
    print(json.dumps(line | {"precision": 1 - len(wrong) / max(1, len(found))}))
