"""What is usual for a source: where many documents break a rule, its line rises for that source.

A source of number tables is not a source of junk. So where at least a fifth of a source's
documents cross a line, the line rises to a tenth above what 95 % of them stay below, but never
above the rule's ceiling: a source that is wholly degenerate stays flagged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .features import Features
from .findings import Finding
from .rows import DECIDING

STEPS = 1000
LEAST_DOCUMENTS = 50
USUAL = 0.2
COVERED = 0.95
MARGIN = 1.1
_PLACES = {rule.name: place for place, rule in enumerate(DECIDING)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Documents per source, and for each (source, rule) how many crossed the line at which value.

    Values are counted in steps of a thousandth. Usages of parts of a corpus add up.
    """

    documents: Counter[str] = field(default_factory=Counter)
    crossings: Counter[tuple[str, int, int]] = field(default_factory=Counter)

    def add(self, other: Usage) -> None:
        """Count another part of the corpus."""
        self.documents.update(other.documents)
        self.crossings.update(other.crossings)

    def lines(self) -> dict[tuple[str, str], float]:
        """Return the raised lines by (source, rule name)."""
        grouped: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for (source, place, step), count in self.crossings.items():
            grouped.setdefault((source, place), []).append((step, count))
        raised = {}
        for (source, place), steps in grouped.items():
            line = self._line(source, place, sorted(steps))
            if line is not None:
                raised[source, DECIDING[place].name] = line
        return raised

    def _line(self, source: str, place: int, steps: list[tuple[int, int]]) -> float | None:
        rule, documents = DECIDING[place], self.documents[source]
        crossed = sum(count for _, count in steps)
        if rule.ceiling is None or documents < LEAST_DOCUMENTS or crossed < USUAL * documents:
            return None
        below = documents - crossed
        for step, count in steps:
            below += count
            if below >= COVERED * documents:
                return min(rule.ceiling, MARGIN * (step + 1) / STEPS)
        return rule.ceiling


def usage_of(features: Features, sources: Sequence[str]) -> Usage:
    """Return the usage of some documents."""
    usage = Usage(documents=Counter(sources))
    for place, rule in enumerate(DECIDING):
        values: NDArray[np.float64] = rule.values(features)
        for row in np.flatnonzero(values >= rule.line).tolist():
            usage.crossings[sources[row], place, int(values[row] * STEPS)] += 1
    return usage


def judge(
    findings: Iterable[Finding],
    source_of: Mapping[int, str],
    lines: Mapping[tuple[str, str], float],
) -> list[Finding]:
    """Return the findings, no longer decisive where they stay below their source's raised line."""
    judged = []
    for finding in findings:
        line = lines.get((source_of.get(finding.doc, ""), finding.detector))
        if line is not None and finding.verdict and finding.values["value"] < line:
            reason = f"{finding.reason}; usual for its source, whose line is {line:.2f}"
            finding = replace(  # noqa: PLW2901
                finding, verdict=False, reason=reason, values={**finding.values, "line": line}
            )
        judged.append(finding)
    return judged
