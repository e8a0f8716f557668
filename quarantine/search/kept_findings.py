"""The findings of a whole corpus, held small: some forty bytes each, where an object takes 700.

They can be judged only when all of them are there, since a source's lines depend on all of its
documents. So the findings of each part are packed as they come, and judged as they are read.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from .findings import Finding
from .usage import judge

FASTEST = 1
"""Level of zlib; a higher one saves a tenth of the space at twice the time."""


class KeptFindings(Collection[Finding]):
    """Findings in document order; parts of the corpus are added in any order."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, bytes]] = []
        self._lines: Mapping[tuple[str, str], float] = {}

    def add(self, findings: Sequence[Finding], sources: Mapping[int, str]) -> None:
        """Keep the findings of one part, all that there are of its documents."""
        if findings:
            ordered = sorted(findings, key=lambda finding: finding.doc)
            packed = zlib.compress(pickle.dumps((ordered, sources)), FASTEST)
            self._parts.append((ordered[0].doc, len(ordered), packed))

    def judge_by(self, lines: Mapping[tuple[str, str], float]) -> None:
        """Judge from now on by the raised lines of (source, rule name)."""
        self._lines = lines

    def __len__(self) -> int:
        return sum(count for _, count, _ in self._parts)

    def __iter__(self) -> Iterator[Finding]:
        for _, _, packed in sorted(self._parts):
            ordered, sources = pickle.loads(zlib.decompress(packed))  # noqa: S301  packed above
            yield from judge(ordered, sources, self._lines)

    def __contains__(self, finding: object) -> bool:
        return any(each == finding for each in self)
