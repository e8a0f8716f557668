"""Run the detectors over a whole corpus, or over some of its documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .columns import text_chunks
from .detectors import detect_features
from .engine import executor
from .features import measure
from .findings import Finding

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

TASK_DOCUMENTS = 4096


def scan_corpus(
    manifest: Manifest,
    *,
    workers: int = 0,
    advance: Callable[[int], object] | None = None,
) -> list[Finding]:
    """Return the findings over all documents, in document order then detector order.

    `advance(n)` hears of each n documents scanned.
    """
    found: list[Finding] = []
    for documents, findings in executor(workers).map_unordered(
        detect_blocks, block_tasks(manifest), manifest
    ):
        found.extend(findings)
        if advance is not None:
            advance(documents)
    return sorted(found, key=lambda finding: finding.doc)


def scan_documents(manifest: Manifest, docs: Sequence[int] | np.ndarray) -> list[Finding]:
    """Return the findings over the given documents, in the order given.

    Raises:
        NotFound: a document is outside the corpus.
    """
    table = manifest.documents(docs, columns=("text",))
    ordinals = table["doc"].to_numpy()
    found: list[Finding] = []
    start = 0
    for chunk in text_chunks(table["text"]):
        found.extend(detect_features(chunk, measure(chunk), ordinals[start:]))
        start += len(chunk)
    return found


def detect_blocks(blocks: tuple[int, int], manifest: Manifest) -> tuple[int, list[Finding]]:
    """Return the number of documents in the blocks and the findings over them."""
    documents = 0
    found: list[Finding] = []
    for block in range(*blocks):
        first = int(manifest.geometry().first_document[block])
        for chunk in text_chunks(manifest.block_text(block)):
            ordinals = np.arange(first, first + len(chunk), dtype=np.int64)
            found.extend(detect_features(chunk, measure(chunk), ordinals))
            first += len(chunk)
            documents += len(chunk)
    return documents, found


def block_tasks(manifest: Manifest) -> Iterator[tuple[int, int]]:
    """Yield ranges of blocks of about TASK_DOCUMENTS documents each."""
    sizes = manifest.geometry().block_documents
    first, documents = 0, 0
    for block, size in enumerate(sizes.tolist()):
        documents += size
        if documents >= TASK_DOCUMENTS or block + 1 == len(sizes):
            yield first, block + 1
            first, documents = block + 1, 0
