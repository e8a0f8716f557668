"""The final scoring: found against the truth that was frozen before anything was searched for.

An unsalted document among the found is right only where the truth names it: as junk that the text
held already, or as a copy of what was salted. What the search itself found proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...loader.manifest import Manifest
from .finding import COPIES, Found
from .leaving import CERTAIN, DATA, RATE
from .truth import Truth

FAMILY_OF = {"binary": "binary", "repetition": "repetition", "toxic": COPIES}
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


def score(manifest: Manifest, found: Found, truth: Truth) -> Score:
    """Compare what was found with what was salted, and with what was wrong before."""
    documents = found.documents
    table = manifest.documents(list(documents), columns=("id",))
    ids = dict(zip(documents, table["id"].to_pylist(), strict=True))
    salted = {name for names in truth.families.values() for name in names}
    unsalted = tuple(
        Unsalted(
            doc=doc,
            id=ids[doc],
            family=family,
            reason=found.reason(doc),
            justified=ids[doc] in (truth.copies if family == COPIES else truth.junk),
        )
        for doc, family in documents.items()
        if ids[doc] not in salted
    )
    wrong = {one.doc for one in unsalted if not one.justified}
    return Score(
        families=tuple(
            _family(name, set(members), documents, ids, wrong)
            for name, members in truth.families.items()
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
    """Return the score of a family: a member that was found as something else was not found."""
    claimed = [doc for doc, family in documents.items() if family == FAMILY_OF[name]]
    mistaken = sum(doc in wrong for doc in claimed)
    return FamilyScore(
        family=name,
        salted=len(members),
        found=sum(ids[doc] in members for doc in claimed),
        precision=1 - mistaken / max(1, len(claimed)),
    )


def blamed_rightly(
    causes: Sequence[Mapping[str, Any]], *, decisions: int, revision: int, outcome: str
) -> dict[str, Any]:
    """Return whether an incident without bad data ended as it should, and what that rests on.

    Args:
        causes: name and score, the likeliest first.
        decisions: entries of the decision log; any one would have left something out.
        revision: that the resumed run is under.
        outcome: of the incident.
    """
    scores = {cause["name"]: cause["score"] for cause in causes}
    data = scores.get(DATA, 0.0)
    named = causes[0]["name"] == RATE and data < min(CERTAIN, scores[RATE])
    untouched = decisions == 0 and revision == 0
    return {
        "cause": causes[0]["name"],
        "score": causes[0]["score"],
        "bad_data": data,
        "decisions": decisions,
        "revision": revision,
        "outcome": outcome,
        "passed": named and untouched and outcome == "not-data",
    }
