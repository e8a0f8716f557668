"""What a search returns, and how much of what is there it can be expected to have found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .signature import PERMUTATIONS, candidate_probability

KINDS = ("near", "exact", "junk")
BIN = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One relative: `doc` of the corpus, the query document it is like, how, and how much.

    `score` is the exact Jaccard index for near, 1 for exact, and for junk the broken rule's value
    or 1 / (1 + distance / threshold).
    """

    doc: int
    query_doc: int
    kind: str
    score: float
    reason: str

    def to_json(self) -> dict[str, object]:
        """Return the hit as plain JSON values."""
        return {
            "doc": self.doc,
            "query_doc": self.query_doc,
            "kind": self.kind,
            "score": round(self.score, 6),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallBin:
    """Near hits with low <= J < high, and the share of such pairs that the search finds."""

    low: float
    high: float
    hits: int
    recall: float

    @property
    def expected(self) -> float:
        """How many documents there are in this bin, as far as the hits tell."""
        return self.hits / self.recall if self.recall else 0.0


def recall_bins(hits: Sequence[Hit], *, least: int, banded: bool) -> tuple[RecallBin, ...]:
    """Return the bins of 0.02 that hold near hits, the lowest first.

    `least` is the number of equal signature slots a candidate needs, `banded` whether it also
    had to share a band.
    """
    counts: dict[int, int] = {}
    for hit in hits:
        if hit.kind == "near":
            place = min(int(hit.score / BIN), int(1 / BIN) - 1)
            counts[place] = counts.get(place, 0) + 1
    return tuple(
        RecallBin(
            low=place * BIN,
            high=(place + 1) * BIN,
            hits=counts[place],
            recall=recall_at((place + 0.5) * BIN, least=least, banded=banded),
        )
        for place in sorted(counts)
    )


def recall_at(jaccard: float, *, least: int, banded: bool) -> float:
    """Return P(a document with this Jaccard index to the query is found).

    The slots are taken as independent draws; an 8-bit slot also agrees by chance once in 256.
    """
    chance = jaccard + (1.0 - jaccard) / 256
    below, term = 0.0, (1.0 - chance) ** PERMUTATIONS
    for equal in range(least):
        below += term
        term *= (PERMUTATIONS - equal) / (equal + 1) * chance / (1.0 - chance) if chance < 1 else 0
    agrees = max(0.0, 1.0 - below)
    return agrees * (candidate_probability(jaccard) if banded else 1.0)
