"""The published quality on half B of the labelled corpus, where it is there (no hold-out)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_tree import ROOT

from shardward.quarantine.search.columns import TextChunk, text_chunks
from shardward.quarantine.search.rows import NOT_UTF8, index_chunk

CORPUS = ROOT.parent / "shared" / "corpus"

pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"the labelled corpus is not at {CORPUS}"
)


@pytest.fixture(scope="module")
def half() -> tuple[TextChunk, np.ndarray]:
    paths: list[Path] = sorted(CORPUS.glob("*.parquet"))[:2]
    table = pa.concat_tables([pq.read_table(path) for path in paths])
    keep = [hashlib.sha256(i.encode()).digest()[0] & 1 == 1 for i in table["id"].to_pylist()]
    kept = table.filter(pa.array(keep))
    (chunk,) = text_chunks(kept["text"].combine_chunks())
    return chunk, np.array(kept["label"].to_pylist())


def test_the_verdict_catches_the_junk_and_leaves_the_clean_text(
    half: tuple[TextChunk, np.ndarray],
) -> None:
    chunk, labels = half
    flagged = index_chunk(chunk).flags & ~NOT_UTF8 > 0
    junk = np.char.startswith(labels, "junk")
    clean = ~junk & ~np.char.startswith(labels, "edge")

    assert flagged[junk].mean() >= 0.95
    assert flagged[clean].mean() <= 0.01
