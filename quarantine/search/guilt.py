"""Which kinds of junk a document is, and how strongly, read from its index row.

Kinds are narrower than families where families are wide: a table of numbers is not like a text of
digits. Binary data and repetition are one kind each, however their rules were broken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .rows import DECIDING
from .vectors import restore

BINARY, REPETITION = "binary", "repetition"
WHOLE_FAMILIES = (BINARY, REPETITION)
"""In binary data every other measure is an accident, and in repetition most are: the first of
these that a document is, it is alone."""
AS_STRONG = {BINARY: 0.0, "encoded": 0.9, "numbers": 0.85}
"""Share of the weakest culprit's strength that makes a document as guilty, by family."""
ELSE_AS_STRONG = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of junk: its name, its family, and the places in DECIDING of its rules."""

    name: str
    family: str
    rules: tuple[int, ...]


def _kinds() -> tuple[Kind, ...]:
    whole = [
        Kind(
            name=family,
            family=family,
            rules=tuple(i for i, rule in enumerate(DECIDING) if rule.family == family),
        )
        for family in WHOLE_FAMILIES
    ]
    single = [
        Kind(name=rule.name, family=rule.family, rules=(i,))
        for i, rule in enumerate(DECIDING)
        if rule.family not in WHOLE_FAMILIES
    ]
    return (*whole, *single)


KINDS_OF_JUNK = _kinds()


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
        return AS_STRONG.get(self.family, ELSE_AS_STRONG) * self.strength


def strengths(vectors: NDArray[np.uint8], flags: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return float64[N, K]: the largest value of the kind's broken rules, 0 if none was broken."""
    features = restore(vectors)
    found = np.zeros((len(flags), len(KINDS_OF_JUNK)))
    for place, kind in enumerate(KINDS_OF_JUNK):
        for bit in kind.rules:
            fired = (flags >> np.uint32(bit)) & np.uint32(1) > 0
            value = np.maximum(DECIDING[bit].measure(features), 1e-9)
            found[:, place] = np.maximum(found[:, place], np.where(fired, value, 0.0))
    for place in range(len(WHOLE_FAMILIES)):
        found[np.flatnonzero(found[:, place]), place + 1 :] = 0.0
    return found


def culprits(found: NDArray[np.float64], docs: NDArray[np.int64]) -> tuple[Culprit, ...]:
    """Return the weakest culprit of each kind among `docs`; `found` comes from `strengths`."""
    known = []
    for kind in np.flatnonzero(found.any(axis=0)).tolist():
        column = np.where(found[:, kind] > 0, found[:, kind], np.inf)
        row = int(column.argmin())
        known.append(Culprit(kind=kind, doc=int(docs[row]), strength=float(column[row])))
    return tuple(known)


def as_guilty(found: NDArray[np.float64], known: tuple[Culprit, ...]) -> NDArray[np.int64]:
    """Return int64[N]: the place in `known` of a culprit that the document equals, or -1."""
    match = np.full(len(found), -1, dtype=np.int64)
    for place in range(len(known) - 1, -1, -1):
        column = found[:, known[place].kind]
        match[(column > 0) & (column >= known[place].needed)] = place
    return match
