"""Run every detector over a text column and collect the findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .columns import TextChunk, text_chunks
from .features import Features, measure
from .findings import DECISIVE, Finding, Suspect
from .rules import BUILT_IN, Rule
from .spans import SEARCHED

__all__ = ["Finding", "Suspect", "detect_documents", "detect_features", "verdicts"]

BINARY = "binary"
PRECEDENCE = (BINARY, "repetition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The joint verdict over N documents.

    `yes` bool[N], `score` float64[N] the highest of a deciding detector, `strengths`
    float64[N, F] the largest deciding value in each of the F `families`, 0 where none decided.
    """

    families: tuple[str, ...]
    yes: np.ndarray
    score: np.ndarray
    strengths: np.ndarray


def detect_documents(
    column: object,
    docs: Sequence[int] | np.ndarray,
    sources: Sequence[str] | None = None,
    *,
    rules: Sequence[Rule] = BUILT_IN,
) -> list[Finding]:
    """Return the findings over a text column, in document order then detector order.

    `column` is a pyarrow Array, ChunkedArray, or a Table with a `text` column; `docs` are the
    ordinals of its rows; `sources` name each row's source where known.

    Raises:
        CorpusError: the column holds no text.
    """
    text = column["text"] if isinstance(column, pa.Table) else column
    ordinals = np.asarray(docs, dtype=np.int64)
    found: list[Finding] = []
    start = 0
    for chunk in text_chunks(text):
        found.extend(detect_features(chunk, measure(chunk), ordinals[start:], rules=rules))
        start += len(chunk)
    return found


def detect_features(
    chunk: TextChunk,
    features: Features,
    docs: np.ndarray,
    *,
    rules: Sequence[Rule] = BUILT_IN,
) -> Iterator[Finding]:
    """Yield the findings over one chunk whose features are known."""
    scores = np.stack([rule.scores(features) for rule in rules])
    for row in np.flatnonzero((scores >= DECISIVE).any(axis=0)):
        text = chunk.view(int(row))[: 4 * SEARCHED].tobytes().decode("utf-8", "replace")
        for rule, score in zip(rules, scores[:, row], strict=True):
            if score >= DECISIVE:
                yield Finding(
                    doc=int(docs[row]),
                    detector=rule.name,
                    version=rule.version,
                    family=rule.family,
                    score=float(score),
                    verdict=rule.decides,
                    reason=rule.explain(features, int(row)),
                    spans=rule.spans(text),
                    values={"value": float(rule.values(features)[row]), "line": rule.line},
                )


def verdicts(features: Features, *, rules: Sequence[Rule] = BUILT_IN) -> Verdicts:
    """Return the joint verdict of each document without building findings.

    In binary data every other measure is an accident, and in repetition most are: the first
    family of PRECEDENCE that decides stands alone.
    """
    deciding = [rule for rule in rules if rule.decides]
    families = tuple(sorted({rule.family for rule in deciding}))
    strengths = np.zeros((len(features), len(families)))
    score = np.zeros(len(features))
    for rule in deciding:
        scores = rule.scores(features)
        score = np.maximum(score, scores)
        value = np.where(scores >= DECISIVE, rule.values(features), 0.0)
        place = families.index(rule.family)
        strengths[:, place] = np.maximum(strengths[:, place], value)
    for first in PRECEDENCE:
        alone = strengths[:, families.index(first)] > 0 if first in families else np.zeros(0, bool)
        others = np.array([family != first for family in families])
        strengths[np.ix_(np.flatnonzero(alone), others)] = 0.0
    yes = np.any(strengths > 0, axis=1)
    return Verdicts(families=families, yes=yes, score=score, strengths=strengths)
