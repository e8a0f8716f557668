"""Which kinds of junk a document is, and how strongly, read from its index row.

Kinds are rules, since families are wide: a table of numbers is not like a text of digits. Binary
data is one kind, however its rules were broken. A document is as guilty as a culprit where it is of
a kind that marks the culprit, about as strongly, and, but for the kinds of which hardly any clean
text is, where its other features are not far from some culprit's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .rows import DECIDING
from .vectors import restore

GUILT_VERSION = 6
"""Rises when the same index rows make another document guilty."""
BINARY, REPETITION, TABLE = "binary", "repetition", "number-table"
ACCIDENTS: dict[str, tuple[str, ...]] = {BINARY: (), REPETITION: (TABLE,)}
"""In binary data every measure of another family is an accident, and in repetition most are: a
document of the first of these families is of no other kind, but for those named beside it. Lines of
a table repeat by right."""
AS_STRONG = {BINARY: 0.0, "encoded": 0.9, "numbers": 0.9, TABLE: 0.65}
"""Share of the weakest culprit's strength that makes a document as guilty, by kind or family. What
counts in a table is its lines: whether a page of notes stands among them says nothing."""
ELSE_AS_STRONG = 0.8
MARKS = 0.5
"""A kind marks a culprit that exceeds its line by half as much as any other line, or more."""
CLEAR = (BINARY, "mojibake", "latin1-letters", "unlikely-characters")
"""Kinds that suffice; of the others a document must also lie near a culprit."""
NEAREST, FARTHEST = 0.9, 1.35
NUMBERS_NEAREST, NUMBERS_FARTHEST = 0.8, 1.0
"""Pages of figures break the rule on digits by right."""
TABLES_NEAREST, TABLES_FARTHEST = 1.2, 2.0
"""Tables are of many layouts, and hardly any clean text is one. How near: TABLES_NEAREST and
SPREADS times the culprits' own distance, so that culprits of one layout find that one."""
REPETITION_NEAREST = 2.0
"""Not for repeated 5-grams, which collections of licences have."""
SPREADS = 1.5
"""How near: SPREADS times the culprits' own median distance, within NEAREST and FARTHEST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of junk: its name, its family, and the places in DECIDING of its rules."""

    name: str
    family: str
    rules: tuple[int, ...]


def _kinds() -> tuple[Kind, ...]:
    binary = tuple(i for i, rule in enumerate(DECIDING) if rule.family == BINARY)
    single = [
        Kind(name=rule.name, family=rule.family, rules=(i,))
        for i, rule in enumerate(DECIDING)
        if rule.family != BINARY
    ]
    single.sort(key=lambda kind: kind.family != REPETITION)
    return (Kind(name=BINARY, family=BINARY, rules=binary), *single)


KINDS_OF_JUNK = _kinds()
_LINES = np.array([min(DECIDING[bit].line for bit in kind.rules) for kind in KINDS_OF_JUNK])


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """The weakest query document of kind number `kind`, and its strength."""

    kind: int
    doc: int
    strength: float

    @property
    def name(self) -> str:
        """The kind's name."""
        return KINDS_OF_JUNK[self.kind].name

    @property
    def family(self) -> str:
        """The kind's family."""
        return KINDS_OF_JUNK[self.kind].family

    @property
    def needed(self) -> float:
        """The strength from which another document is as guilty."""
        of_family = AS_STRONG.get(self.family, ELSE_AS_STRONG)
        return AS_STRONG.get(self.name, of_family) * self.strength

    def within(self, spread: float) -> float:
        """Return the distance from the nearest culprit up to which another document is alike."""
        if self.name in CLEAR:
            return float("inf")
        if self.family == REPETITION and self.name != "repeated-5-grams":
            return max(REPETITION_NEAREST, SPREADS * spread)
        if self.name == TABLE:
            return min(TABLES_NEAREST + SPREADS * spread, TABLES_FARTHEST)
        if self.family == "numbers":
            return min(max(NUMBERS_NEAREST, SPREADS * spread), NUMBERS_FARTHEST)
        return min(max(NEAREST, SPREADS * spread), FARTHEST)


def strengths(vectors: NDArray[np.uint8], flags: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return float64[N, K]: the largest value of the kind's broken rules, 0 if none was broken."""
    features = restore(vectors)
    found = np.zeros((len(flags), len(KINDS_OF_JUNK)))
    for place, kind in enumerate(KINDS_OF_JUNK):
        for bit in kind.rules:
            fired = (flags >> np.uint32(bit)) & np.uint32(1) > 0
            value = np.maximum(DECIDING[bit].measure(features), 1e-9)
            found[:, place] = np.maximum(found[:, place], np.where(fired, value, 0.0))
    for family, spared in ACCIDENTS.items():
        own = np.array([kind.family == family for kind in KINDS_OF_JUNK])
        kept = own | np.array([kind.name in spared for kind in KINDS_OF_JUNK])
        found[np.ix_(found[:, own].any(axis=1), ~kept)] = 0.0
    return found


def culprits(found: NDArray[np.float64], docs: NDArray[np.int64]) -> tuple[Culprit, ...]:
    """Return the weakest culprit of each kind that marks some of `docs`.

    `found` comes from `strengths`.
    """
    ratios = found / _LINES
    found = np.where(ratios >= MARKS * ratios.max(axis=1, keepdims=True), found, 0.0)
    known = []
    for kind in np.flatnonzero(found.any(axis=0)).tolist():
        column = np.where(found[:, kind] > 0, found[:, kind], np.inf)
        row = int(column.argmin())
        known.append(Culprit(kind=kind, doc=int(docs[row]), strength=float(column[row])))
    return tuple(known)


def as_guilty(
    found: NDArray[np.float64],
    known: tuple[Culprit, ...],
    distances: NDArray[np.float32],
    spread: float,
) -> NDArray[np.int64]:
    """Return int64[N]: the place in `known` of a culprit that the document equals, or -1.

    `distances` float32[N] are to the nearest culprit, `spread` is the culprits' own.
    """
    match = np.full(len(found), -1, dtype=np.int64)
    for place in range(len(known) - 1, -1, -1):
        column = found[:, known[place].kind]
        near = distances <= known[place].within(spread)
        match[(column > 0) & (column >= known[place].needed) & near] = place
    return match
