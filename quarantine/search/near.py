"""Exact and near duplicates among few documents: signature check, then exact Jaccard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .columns import TextChunk
from .signature import PERMUTATIONS, jaccard, shingle_set, sign

SLACK = 3.0
"""Standard deviations of the estimate that a candidate may fall short of the threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two rows and their exact Jaccard index; `exact` when their bytes are equal."""

    left: int
    right: int
    score: float
    exact: bool


def content_hash(raw: Any) -> bytes:
    """Return the XXH3-128 of a document's bytes, 16 bytes."""
    return xxhash.xxh3_128_digest(raw)


def least_matches(threshold: float) -> int:
    """Return the equal slots of two 8-bit signatures below which J >= threshold is ruled out."""
    chance = threshold + (1.0 - threshold) / 256
    spread = (PERMUTATIONS * chance * (1.0 - chance)) ** 0.5
    return max(3, int(PERMUTATIONS * chance - SLACK * spread))


def pairs_within(chunk: TextChunk, threshold: float) -> list[Pair]:
    """Return the pairs of rows with exact Jaccard >= threshold; no tokens, no pairs."""
    signatures = sign(chunk)
    low, counts = signatures.low, signatures.counts
    sets: dict[int, NDArray[np.uint64]] = {}
    least = least_matches(threshold)
    found: list[Pair] = []
    for left in range(len(chunk) - 1):
        if not counts[left]:
            continue
        matches = (low[left + 1 :] == low[left]).sum(axis=1)
        for right in np.flatnonzero((matches >= least) & (counts[left + 1 :] > 0)) + left + 1:
            score = jaccard(_set(chunk, sets, left), _set(chunk, sets, int(right)))
            if score >= threshold:
                same = content_hash(chunk.view(left)) == content_hash(chunk.view(int(right)))
                found.append(Pair(left=left, right=int(right), score=score, exact=same))
    return found


def pairs_between(chunk: TextChunk, others: TextChunk, threshold: float) -> list[Pair]:
    """Return the pairs of a row of `chunk`, left, and one of `others`, right; as `pairs_within`."""
    mine, theirs = sign(chunk), sign(others)
    sets: dict[int, NDArray[np.uint64]] = {}
    least = least_matches(threshold)
    found: list[Pair] = []
    for left in np.flatnonzero(mine.counts).tolist():
        matches = (theirs.low == mine.low[left]).sum(axis=1)
        shingles = shingle_set(chunk.view(left).data)
        for right in np.flatnonzero((matches >= least) & (theirs.counts > 0)).tolist():
            score = jaccard(shingles, _set(others, sets, right))
            if score >= threshold:
                same = content_hash(chunk.view(left)) == content_hash(others.view(right))
                found.append(Pair(left=left, right=right, score=score, exact=same))
    return found


def _set(chunk: TextChunk, sets: dict[int, NDArray[np.uint64]], row: int) -> NDArray[np.uint64]:
    if row not in sets:
        sets[row] = shingle_set(chunk.view(row).data)
    return sets[row]
