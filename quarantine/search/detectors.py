"""Run the detectors over documents and collect the findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .columns import TextChunk, text_chunks
from .features import Features, measure
from .findings import DECISIVE, Finding, Suspect
from .opinions import Failure, Panel
from .rules import BUILT_IN
from .spans import SEARCHED

MOST_READ = 4 << 20
"""Bytes of a text that text detectors are given, whose memory grows by what they read."""
_ONLY_HEAD = f"of the text's first {MOST_READ >> 20} MiB, which alone were read"

__all__ = ["Finding", "Suspect", "detect_chunk", "detect_documents"]


def detect_documents(
    column: object,
    docs: Sequence[int] | NDArray[np.int64],
    sources: Sequence[str] | None = None,
    *,
    panel: Panel | None = None,
) -> list[Finding]:
    """Return the findings over a text column, in document order then detector order.

    `column` is a pyarrow Array, ChunkedArray, or a Table with a `text` column; `docs` are the
    ordinals of its rows; `sources` name each row's source where known. `panel` adds detectors that
    read the text itself.

    Raises:
        CorpusError: the column holds no text.
    """
    text = column["text"] if isinstance(column, pa.Table) else column
    ordinals = np.asarray(docs, dtype=np.int64)
    found: list[Finding] = []
    start = 0
    for chunk in text_chunks(text):
        part = ordinals[start : start + len(chunk)]
        found.extend(detect_chunk(chunk, measure(chunk), part))
        if panel is not None:
            names = [""] * len(chunk) if sources is None else sources[start : start + len(chunk)]
            found.extend(panel_findings(chunk, part, names, panel)[0])
        start += len(chunk)
    return sorted(found, key=lambda finding: finding.doc) if panel is not None else found


def detect_chunk(
    chunk: TextChunk, features: Features, docs: NDArray[np.int64]
) -> Iterator[Finding]:
    """Yield the findings of the built-in rules over one chunk whose features are known."""
    scores = np.stack([rule.scores(features) for rule in BUILT_IN])
    for row in np.flatnonzero((scores >= DECISIVE).any(axis=0)).tolist():
        text = chunk.view(row)[: 4 * SEARCHED].tobytes().decode("utf-8", "replace")
        for rule, score in zip(BUILT_IN, scores[:, row], strict=True):
            if score >= DECISIVE:
                yield Finding(
                    doc=int(docs[row]),
                    detector=rule.name,
                    version=rule.version,
                    family=rule.family,
                    score=float(score),
                    verdict=rule.decides,
                    reason=rule.explain(features, row),
                    spans=rule.spans(text),
                    values={"value": float(rule.values(features)[row]), "line": rule.line},
                )


def panel_findings(
    chunk: TextChunk, docs: NDArray[np.int64], sources: Sequence[str], panel: Panel
) -> tuple[list[Finding], list[Failure]]:
    """Return the findings of text detectors over one chunk, and what went wrong.

    Of a longer text they are given its first MOST_READ bytes, and their reasons say so.
    """
    found: list[Finding] = []
    failures: list[Failure] = []
    for row, doc in enumerate(docs.tolist()):
        text = chunk.text(row, MOST_READ)
        findings, failed = panel.examine(doc, text, sources[row])
        if len(chunk.view(row)) > MOST_READ:
            findings = [replace(f, reason=f"{f.reason} ({_ONLY_HEAD})") for f in findings]
        found.extend(findings)
        failures.extend(failed)
    return found, failures
