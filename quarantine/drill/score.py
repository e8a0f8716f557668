"""The final scoring: the only place that reads what was salted.

An unsalted document among the found is judged afresh, by other means than those that found it: a
near copy by the overlap of its word 5-grams in plain Python, junk by how far it compresses and how
much of it cannot be printed.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...loader.formats import parse_json
from ...loader.manifest import Manifest
from .finding import COPIES, Found

FAMILY_OF = {"binary": "binary", "repetition": "repetition", "toxic": COPIES}
SHINGLE = 5
OVERLAP = 0.2
COMPRESSED = 0.2
UNPRINTABLE = 0.1
LEAST = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyScore:
    """One salted family: how many there are, how many were found."""

    family: str
    salted: int
    found: int
    precision: float

    @property
    def recall(self) -> float:
        """Share of the family that was found."""
        return self.found / self.salted if self.salted else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsalted:
    """A found document that was not salted: why it was found, and whether that holds."""

    doc: int
    id: str
    family: str
    reason: str
    justified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Found against truth; `precision` counts salt and justified unsalted documents as right."""

    families: tuple[FamilyScore, ...]
    unsalted: tuple[Unsalted, ...]
    found: int
    precision: float
    precision_salt: float

    @property
    def passed(self) -> bool:
        """Whether recall and precision of every family are good enough."""
        good = all(min(one.recall, one.precision) >= LEAST for one in self.families)
        return good and self.precision >= LEAST

    def to_json(self) -> dict[str, Any]:
        """Return the score as JSON."""
        return {
            "families": [
                {
                    "family": one.family,
                    "salted": one.salted,
                    "found": one.found,
                    "recall": one.recall,
                    "precision": one.precision,
                }
                for one in self.families
            ],
            "unsalted": [
                {name: getattr(one, name) for name in one.__dataclass_fields__}
                for one in self.unsalted
            ],
            "found": self.found,
            "precision": self.precision,
            "precision_salt_alone": self.precision_salt,
            "passed": self.passed,
        }


def score(manifest: Manifest, found: Found, truth_path: Path) -> Score:
    """Compare what was found with what was salted."""
    truth = parse_json(truth_path.read_bytes(), where=str(truth_path))["families"]
    documents = found.documents
    table = manifest.documents(list(documents), columns=("id", "text"))
    ids = dict(zip(documents, table["id"].to_pylist(), strict=True))
    texts = dict(zip(documents, table["text"].to_pylist(), strict=True))
    salted = {name for names in truth.values() for name in names}
    unsalted = tuple(
        Unsalted(
            doc=doc,
            id=ids[doc],
            family=family,
            reason=found.reason(doc),
            justified=_justified(doc, family, texts, found),
        )
        for doc, family in documents.items()
        if ids[doc] not in salted
    )
    wrong = {one.doc for one in unsalted if not one.justified}
    return Score(
        families=tuple(
            _family(name, set(members), documents, ids, wrong) for name, members in truth.items()
        ),
        unsalted=unsalted,
        found=len(documents),
        precision=1 - len(wrong) / max(1, len(documents)),
        precision_salt=1 - len(unsalted) / max(1, len(documents)),
    )


def _family(
    name: str,
    members: set[str],
    documents: Mapping[int, str],
    ids: Mapping[int, str],
    wrong: set[int],
) -> FamilyScore:
    claimed = [doc for doc, family in documents.items() if family == FAMILY_OF[name]]
    mistaken = sum(doc in wrong for doc in claimed)
    return FamilyScore(
        family=name,
        salted=len(members),
        found=len(members & set(ids.values())),
        precision=1 - mistaken / max(1, len(claimed)),
    )


def _justified(doc: int, family: str, texts: Mapping[int, str], found: Found) -> bool:
    if family == COPIES:
        mine = _shingles(texts[doc])
        others = [other for other in found.culprits if other != doc]
        return any(_overlap(mine, _shingles(texts[other])) >= OVERLAP for other in others)
    return _is_junk(texts[doc])


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[i : i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1))}


def _overlap(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> float:
    return len(left & right) / len(left | right)


def _is_junk(text: str) -> bool:
    data = text.encode("utf-8", "surrogatepass")
    odd = sum(not (char.isprintable() or char.isspace()) for char in text)
    squeezed = len(zlib.compress(data, 9)) / max(1, len(data))
    return squeezed <= COMPRESSED or odd / max(1, len(text)) >= UNPRINTABLE
