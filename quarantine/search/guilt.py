"""Which junk rules a document broke and how strongly, read from its index row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .rows import DECIDING
from .vectors import restore

BINARY = "binary"
PRECEDENCE = (BINARY, "repetition")
"""In binary data every other measure is an accident, and in repetition most are: the first of
these families that a document belongs to stands alone."""
AS_STRONG = {BINARY: 0.0, "encoded": 0.9, "numbers": 0.85}
"""Share of the weakest culprit's value that makes a document as guilty, by family."""
ELSE_AS_STRONG = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """The weakest query document that broke rule number `rule`, and its value there."""

    rule: int
    doc: int
    value: float

    @property
    def name(self) -> str:
        """The rule's name."""
        return DECIDING[self.rule].name

    @property
    def family(self) -> str:
        """The rule's family."""
        return DECIDING[self.rule].family

    @property
    def needed(self) -> float:
        """The value from which another document is as guilty."""
        return AS_STRONG.get(self.family, ELSE_AS_STRONG) * self.value


def broken(vectors: NDArray[np.uint8], flags: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return float64[N, R]: the value of each deciding rule that was broken, else 0."""
    features = restore(vectors)
    values = np.zeros((len(flags), len(DECIDING)))
    for bit, rule in enumerate(DECIDING):
        fired = (flags >> np.uint32(bit)) & np.uint32(1) > 0
        values[fired, bit] = np.maximum(rule.measure(features)[fired], 1e-9)
    for first in PRECEDENCE:
        inside = np.array([rule.family == first for rule in DECIDING])
        alone = np.flatnonzero(values[:, inside].any(axis=1))
        values[np.ix_(alone, np.flatnonzero(~inside))] = 0.0
    return values


def culprits(values: NDArray[np.float64], docs: NDArray[np.int64]) -> tuple[Culprit, ...]:
    """Return the weakest culprit of each rule that any of `docs` broke; `values` from `broken`."""
    found = []
    for rule in np.flatnonzero(values.any(axis=0)).tolist():
        column = np.where(values[:, rule] > 0, values[:, rule], np.inf)
        row = int(column.argmin())
        found.append(Culprit(rule=rule, doc=int(docs[row]), value=float(column[row])))
    return tuple(found)


def as_guilty(values: NDArray[np.float64], known: tuple[Culprit, ...]) -> NDArray[np.int64]:
    """Return int64[N]: the place in `known` whose rule the document broke as strongly, or -1."""
    match = np.full(len(values), -1, dtype=np.int64)
    for place in range(len(known) - 1, -1, -1):
        column = values[:, known[place].rule]
        match[(column > 0) & (column >= known[place].needed)] = place
    return match
