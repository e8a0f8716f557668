"""How fast other packages turn text into 128-permutation MinHash signatures, beside ours.

    python -m venv peers
    peers/bin/pip install datasketch datatrove rensa gaoya text-dedup nltk regex tokenizers \\
        'xxhash<4' -e .
    taskset -c 1 peers/bin/python -m benchmarks.detectors --only peers --corpus ../shared/corpus

Prints one JSON object per package: CPU time of one core over every 60th document, each used as its
documentation shows with words split at white space and 5-grams; gaoya's time includes the insertion
into its index. A package that is not installed is named as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasketch import MinHash

from shardward.quarantine.search.columns import chunk_of, text_chunks
from shardward.quarantine.search.shingles import shingle_hash, shingles
from shardward.quarantine.search.signature import sign

from .speed import cpu, result

EVERY = 60


def grams(text: str) -> list[str]:
    """Return the word 5-grams of a text."""
    words = text.lower().split()
    return [" ".join(words[i : i + 5]) for i in range(max(1, len(words) - 4))]


def use_datasketch(texts: list[str]) -> Callable[[], None]:
    """Return what signs `texts` with datasketch over our own shingles and hash."""

    def run() -> None:
        for text in texts:
            sketch = MinHash(num_perm=128, seed=1, hashfunc=shingle_hash)
            if found := shingles(text):
                sketch.update_batch(found)

    return run


def use_rensa(texts: list[str]) -> Callable[[], None]:
    """Return what signs `texts` with rensa."""
    sketch = import_module("rensa").RMinHash

    def run() -> None:
        for text in texts:
            signature = sketch(num_perm=128, seed=1)
            signature.update(grams(text))
            signature.digest()

    return run


def use_gaoya(texts: list[str]) -> Callable[[], None]:
    """Return what indexes `texts` with gaoya."""
    make = import_module("gaoya.minhash").MinHashStringIndex

    def run() -> None:
        index = make(hash_size=32, num_bands=20, band_size=6, analyzer="word", ngram_range=(5, 5))
        for place, text in enumerate(texts):
            index.insert_document(place, text)

    return run


def use_datatrove(texts: list[str]) -> Callable[[], None]:
    """Return what signs `texts` with datatrove, with words split at white space."""
    dedup = import_module("datatrove.pipeline.dedup.minhash")
    config = dedup.MinhashConfig(n_grams=5, num_buckets=16, hashes_per_bucket=8)
    with TemporaryDirectory() as unused:  # it wants a folder, but signing writes nothing
        base = import_module("datatrove.utils.word_tokenizers").WordTokenizer
        abstract = dict.fromkeys(base.__abstractmethods__, lambda self, text: text.split())
        words = type("Words", (base,), abstract)()
        signer = dedup.MinhashDedupSignature(unused, config=config, language=words)

    def run() -> None:
        for text in texts:
            found = signer.get_shingles(text)
            if len(found):
                signer.get_signature(found)

    return run


def use_text_dedup(texts: list[str]) -> Callable[[], None]:
    """Return what signs `texts` with text-dedup, as its own `minhash` command does per document."""
    module, tools = import_module("text_dedup.minhash"), import_module("text_dedup.utils")
    prime = np.uint64((1 << 61) - 1)
    drawn = np.random.RandomState(42)
    permutations = tuple(drawn.randint(1, (1 << 61) - 1, 128, dtype=np.uint64) for _ in range(2))
    ranges = [(6 * band, 6 * band + 6) for band in range(20)]

    def run() -> None:
        for place, text in enumerate(texts):
            module.embed_func(
                text,
                place,
                num_perm=128,
                ngram_size=5,
                min_length=0,
                hashranges=ranges,
                permutations=permutations,
                hash_func=tools.xxh3_32hash,
                dtype=np.uint64,
                max_hash=np.uint32(0xFFFFFFFF),
                modulo_prime=prime,
            )

    return run


def measured(texts: list[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name of each package that is installed and what it has to do."""
    chunk = chunk_of([text.encode() for text in texts])
    sign(chunk)
    yield "shardward", lambda: sign(chunk)
    for name, use in (
        ("datasketch", use_datasketch),
        ("rensa", use_rensa),
        ("gaoya", use_gaoya),
        ("datatrove", use_datatrove),
        ("text_dedup", use_text_dedup),
    ):
        if find_spec(name) is None:
            result(f"signature.{name}", 0.0, "MB/s/core", note="not installed")
        else:
            yield name, use(texts)


def main(folder: Path) -> None:
    """Time all of them."""
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    (chunk,) = text_chunks(pa.concat_tables(tables)["text"].combine_chunks())
    texts = [chunk.text(row) for row in range(0, len(chunk), EVERY)]
    size = sum(len(text.encode()) for text in texts) / 1e6
    for name, work in measured(texts):
        result(f"signature.{name}", size / cpu(work, 3), "MB/s/core", documents=len(texts))
