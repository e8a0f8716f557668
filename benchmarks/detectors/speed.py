"""How fast the detectors and the search run; `peers.py` times other packages.

    taskset -c 1 python -m benchmarks.detectors --only speed [--scan-documents 4000000]

Leave `taskset` out for the scaling over two workers.

Prints one JSON object per result: process CPU time of one core, medians of five. Cold
compile is measured in a fresh process with an empty cache.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardward.loader.index import build_manifest
from shardward.quarantine.search.band_scan import rows_sharing_a_band, value_set
from shardward.quarantine.search.columns import TextChunk, chunk_of, text_chunks
from shardward.quarantine.search.detectors import detect_chunk
from shardward.quarantine.search.features import measure
from shardward.quarantine.search.index_job import build_signatures
from shardward.quarantine.search.rows import index_chunk
from shardward.quarantine.search.signature import BANDS, shingle_set, sign

COPIES = 24
"""Of the corpus in the job for one and two workers: 1.1 GB, beside which their start is small."""
COLD = """
import time; start = time.perf_counter()
from shardward.quarantine.search.columns import chunk_of
from shardward.quarantine.search.rows import index_chunk
from shardward.quarantine.search.signature import shingle_set
from shardward.quarantine.search.band_scan import agreeing_rows, rows_sharing_a_band, value_set
rows = index_chunk(chunk_of([b"one two three four five six seven"] * 2))
shingle_set(b"one two three four five six")
agreeing_rows(rows.low, rows.counts.astype("int64") * 0, rows.low, 100)
rows_sharing_a_band(rows.bands, tuple(value_set(band) for band in rows.bands))
print(time.perf_counter() - start, time.process_time())
"""


def result(name: str, value: float, unit: str, **more: object) -> None:
    """Print one result."""
    line = {"benchmark": f"detectors.{name}", "value": round(value, 3), "unit": unit, **more}
    print(json.dumps(line | {"machine": platform.processor() or platform.machine()}), flush=True)


def cpu(function: Callable[[], object], times: int = 5) -> float:
    """Return the median CPU seconds of `function`."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return statistics.median(spent)


def throughput(chunk: TextChunk) -> None:
    """Signature, features and both."""
    size = (int(chunk.offsets[-1]) - int(chunk.offsets[0])) / 1e6
    index_chunk(chunk_of([b"warm"]))
    for name, function in (
        ("signature", lambda: sign(chunk)),
        ("features", lambda: measure(chunk)),
        ("index_rows", lambda: index_chunk(chunk)),
    ):
        result(name, size / cpu(function), "MB/s/core", documents=len(chunk), megabytes=size)


def job(folder: Path, workers: int, copies: int = 1) -> float:
    """The whole index job over a manifest: read, decode, check, sign, measure, write."""
    with tempfile.TemporaryDirectory() as home:
        for copy in range(copies):
            for path in sorted(folder.glob("*.parquet")):
                (Path(home) / f"{copy:02d}-{path.name}").symlink_to(path.resolve())
        manifest = build_manifest([f"{home}/*.parquet"], Path(home) / "manifest")
        start, spent = time.perf_counter(), time.process_time()
        report = build_signatures(manifest, workers=workers)
        wall, own = time.perf_counter() - start, time.process_time() - spent
        size = manifest.header.tokens / 1e6
        result(
            "index_job",
            size / (wall if workers else own),
            "MB/s" if workers else "MB/s/core",
            workers=workers,
            bytes_per_document=round(report.bytes / report.documents, 1),
        )
        return wall


def scan(documents: int) -> None:
    """The band scan with query sets of growing size."""
    rng = np.random.default_rng(3)
    bands = tuple(rng.integers(0, 1 << 32, documents, dtype=np.uint32) for _ in range(BANDS))
    for band in bands:
        band[: documents // 200] = band[0]  # a hot bucket: one document in 200 shares a value
    for query in (10, 100, 1000, 10_000):
        picks = rng.integers(documents // 200, documents, query // 2)
        sets = tuple(
            value_set(np.concatenate([band[picks], rng.integers(0, 1 << 32, query - query // 2)]))
            for band in bands
        )
        rows_sharing_a_band(tuple(band[:8] for band in bands), sets)
        spent = cpu(lambda sets=sets: rows_sharing_a_band(bands, sets), 3)
        result("band_scan", documents / spent / 1e6, "M documents/s/core", query=query)


def starts() -> None:
    """Cold compile with an empty cache, then a warm start."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "NUMBA_CACHE_DIR": cache}
        for name in ("cold_compile", "warm_start"):
            done = subprocess.run(
                [sys.executable, "-c", COLD], env=env, capture_output=True, text=True, check=True
            )
            wall, spent = map(float, done.stdout.split())
            result(name, wall, "s", cpu=spent)


def hostile() -> Iterator[tuple[str, bytes]]:
    """Yield texts that try to stall: 10 MB each."""
    size = 10_000_000
    rng = np.random.default_rng(5)
    yield "one line of one letter", b"a" * size
    yield "one letter per word", b"a " * (size // 2)
    yield "newlines", b"\n" * size
    yield "period 13", b"abcdefghijkl " * (size // 13)
    yield "period 14", b"abcdefghijklm " * (size // 14)
    yield "two words", bytes(rng.choice([97, 32], size).astype(np.uint8))
    yield "bidi controls", "\u202eabc\u202c\u200f ".encode() * (size // 14)
    yield "combining marks", ("a" + "\u0301" * 500).encode() * (size // 1001)
    yield "decomposed Hangul", "\u1112\u1161\u11ab ".encode() * (size // 10)
    yield "lone surrogates", b"\xed\xa0\x80" * (size // 3)
    yield "random bytes", rng.bytes(size)
    yield "angle brackets", b"<" * size
    yield "short period lines", b"1;2;3\n" * (size // 6)
    yield "one ideograph", "\u4e2d".encode() * (size // 3)
    yield "ideographs and letters in turn", "\u4e2da".encode() * (size // 4)
    yield "question marks", b"?a" * (size // 2)
    yield "seven words", b"one two three four five six seven " * (size // 34)
    yield "three-letter words", b"ab " * (size // 3)
    yield "NUL", b"\0" * size
    yield "private use", "\ue000".encode() * (size // 3)
    yield "tags", b"<a>" * (size // 3)


def worst_case() -> None:
    """Seconds per MB of hostile texts, and the memory of a 200 MB document."""
    for name, text in hostile():
        chunk = chunk_of([text])
        start = time.process_time()
        index_chunk(chunk)
        indexed = time.process_time()
        list(detect_chunk(chunk, measure(chunk), np.zeros(1, np.int64)))
        found = time.process_time()
        shingle_set(text)
        size, end = len(text) / 1e6, time.process_time()
        result(
            "hostile",
            max(indexed - start, found - indexed, end - found) / size,
            "s/MB",
            text=name,
            index=round((indexed - start) / size, 4),
            evidence=round((found - indexed) / size, 4),
            shingles=round((end - found) / size, 4),
        )
    words = b"lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor "
    Path("/proc/self/clear_refs").write_text("5")  # the texts before had a peak of their own
    before = peak()
    chunk = chunk_of([words * (200_000_000 // len(words))])
    held = peak()
    index_chunk(chunk)
    after = peak()
    result("memory_200MB_document", after, "MB RSS", text_held=held - before, grown=after - held)


def peak() -> float:
    """Return the most memory that the process had resident, in MB, since it was last reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main(folder: Path, documents: int) -> None:
    """Run everything; the band scan is over `documents` documents."""
    starts()
    tables = [pq.read_table(p) for p in sorted(folder.glob("*.parquet"))]
    (chunk,) = text_chunks(pa.concat_tables(tables)["text"].combine_chunks())
    throughput(chunk)
    job(folder, 0)
    alone, pair = job(folder, 1, COPIES), job(folder, 2, COPIES)
    result("index_job.scaling", alone / pair, "times on 2 workers", copies=COPIES)
    scan(documents)
    worst_case()
