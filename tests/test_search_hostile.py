"""Texts made to crash or stall: bounded in time and memory, whatever they hold."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from helpers_search import chunk

from shardward.quarantine.search import warm as warming
from shardward.quarantine.search.columns import chunk_of, text_chunks
from shardward.quarantine.search.detectors import detect_chunk
from shardward.quarantine.search.features import measure
from shardward.quarantine.search.rows import NOT_UTF8, index_chunk
from shardward.quarantine.search.shingles import jaccard
from shardward.quarantine.search.signature import shingle_set

MEGABYTE = 1_000_000
SECONDS_PER_MEGABYTE = 2.0
HOSTILE = {
    "one line of one letter": b"a" * (10 * MEGABYTE),
    "one letter per word": b"a " * MEGABYTE,
    "newlines": b"\n" * (2 * MEGABYTE),
    "period 13": b"abcdefghijkl " * (MEGABYTE // 6),
    "period 47 of spaces": (b" " * 46 + b"x") * (MEGABYTE // 23),
    "bidi controls": "\u202eabc\u202c\u200f ".encode() * (MEGABYTE // 7),
    "combining marks": ("a" + "\u0301" * 3000).encode() * 300,
    "lone surrogates": b"\xed\xa0\x80" * MEGABYTE,
    "random bytes": np.random.default_rng(5).bytes(2 * MEGABYTE),
    "angle brackets": b"<" * (2 * MEGABYTE),
    "cut in a character": "ж".encode() * MEGABYTE + b"\xd0",
    "NUL": b"\x00" * (2 * MEGABYTE),
    "ignorable only": "\u200b".encode() * (MEGABYTE // 2),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_text_takes_bounded_time(name: str) -> None:
    text = chunk_of([HOSTILE[name], b"after it"])
    index_chunk(chunk_of([b"compiled"]))
    start = time.process_time()
    rows = index_chunk(text)
    findings = list(detect_chunk(text, measure(text), np.array([0, 1])))
    shingle_set(text.raw(0))
    spent = time.process_time() - start

    assert spent < SECONDS_PER_MEGABYTE * len(HOSTILE[name]) / MEGABYTE
    assert rows.counts[1] == 1
    assert all(finding.doc == 0 for finding in findings)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_bytes_that_are_not_utf8_are_reported_in_every_column_type(kind: pa.DataType) -> None:
    raw = [b"good", b"\xed\xa0\x80 lone surrogate", b"cut \xe2\x82", b"\xff", "é".encode()]
    wide = kind in (pa.large_string(), pa.large_binary())
    values = pa.array(raw, pa.large_binary() if wide else pa.binary())
    array = pa.Array.from_buffers(kind, len(raw), values.buffers())
    (part,) = text_chunks(array)

    assert (index_chunk(part).flags & NOT_UTF8 > 0).tolist() == [False, True, True, True, False]


def test_a_large_document_stays_in_a_fixed_workspace() -> None:
    """Measured in a process of its own: 100 MB of text may add less than 400 MB."""
    # Not ru_maxrss, which a child inherits from the process that it was forked from.
    code = r"""
import re
from pathlib import Path
from shardward.quarantine.search.columns import chunk_of
from shardward.quarantine.search.rows import index_chunk
index_chunk(chunk_of([b"one two three four five six"]))
text = chunk_of([b"lorem ipsum dolor sit amet consectetur " * 2_500_000])
def peak():
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
index_chunk(text)
print((peak() - before) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert float(done.stdout) < 400


def test_a_column_of_many_chunks_and_slices_reads_the_right_rows() -> None:
    whole = pa.chunked_array([["zero", "one two"], [None, "three"], []], pa.string()).slice(1, 2)
    raw = [part.raw(row) for part in text_chunks(whole) for row in range(len(part))]

    assert raw == [b"one two", b""]


def test_zero_width_and_bidi_characters_do_not_hide_a_copy() -> None:
    text = "this is the text that somebody wants to hide from the search for copies"
    hidden = "\u202e" + "\u2060".join(text) + "\u202c"

    assert jaccard(text, hidden) == 1.0
    assert (index_chunk(chunk(text)).low == index_chunk(chunk(hidden)).low).all()


def test_a_step_that_takes_long_is_told_of_and_a_fast_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    said = threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        said.set()

    steps = (("fast", lambda: None), ("slow", lambda: said.wait(30)))
    monkeypatch.setattr(warming, "_STEPS", steps)
    monkeypatch.setattr(warming, "PATIENCE", 0.3)
    warming.warm(tell)

    assert [line.split(";")[0] for line in told] == ["loading or compiling kernels, 2 of 2: slow"]


def test_kernels_compile_where_no_cache_can_be_written() -> None:
    code = """
import numba
from shardward.quarantine.search import jit
real = numba.njit
def refuse(*args, **kwargs):
    if kwargs.get("cache"):
        raise RuntimeError("cannot cache function: no locator available")
    return real(*args, **kwargs)
numba.njit = refuse
print(jit.kernel(lambda x: x + 1)(41))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "42"


def test_kernels_compile_where_numba_can_only_count_references() -> None:
    code = """
from numba.core.options import DefaultOptions
del DefaultOptions._nrt
from shardward.quarantine.search import jit
print(jit.UNCOUNTED, jit.kernel(lambda x: x + 1)(41))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "{} 42"
