"""Detectors that read the text itself: the interface for third parties, and how they are found.

A package adds one with an entry point in the group `shardward.detectors` that names a
`TextDetector` or a function returning one. A detector that fails is reported and left out; the
scan goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, runtime_checkable

from ...loader.errors import UsageError
from .findings import Finding, Opinion
from .foreign import ForeignFailure, foreign
from .quality import GopherQuality
from .residue import TemplateResidue

GROUP = "shardward.detectors"


@runtime_checkable
class TextDetector(Protocol):
    """Judges one document; `name` is stable, `version` rises when its judgement changes."""

    @property
    def name(self) -> str:
        """Lower-case words joined by dashes."""

    @property
    def version(self) -> int:
        """Starts at 1."""

    @property
    def family(self) -> str:
        """Which kind of trouble it finds."""

    def examine(self, text: str, source: str) -> Opinion | None:
        """Return an opinion, or None where there is nothing to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The text detectors in use, and what was wrong with the others."""

    detectors: tuple[TextDetector, ...] = ()
    problems: tuple[str, ...] = ()

    def examine(self, doc: int, text: str, source: str) -> tuple[list[Finding], list[str]]:
        """Return the findings on one document, and what went wrong with which detector."""
        findings, problems = [], []
        for detector in self.detectors:
            try:
                with foreign():
                    opinion = detector.examine(text, source)
                    if opinion is not None:
                        findings.append(_finding(doc, detector, opinion, len(text)))
            except ForeignFailure as error:
                problems.append(f"detector {detector.name} failed on document {doc}: {error}")
        return findings, problems


def panel(points: Sequence[EntryPoint] | None = None) -> Panel:
    """Return the built-in text detectors and those that installed packages add."""
    found: list[TextDetector] = [GopherQuality(), TemplateResidue()]
    problems = []
    for point in entry_points(group=GROUP) if points is None else points:
        try:
            with foreign():
                loaded = point.load()
                detector = loaded() if callable(loaded) else loaded
                if not isinstance(detector, TextDetector):
                    raise UsageError("it has no name, version, family or examine")
                found.append(detector)
        except ForeignFailure as error:
            problems.append(f"detector {point.name} of {point.value} cannot be used: {error}")
    return Panel(detectors=tuple(found), problems=tuple(problems))


def _finding(doc: int, detector: TextDetector, opinion: Opinion, length: int) -> Finding:
    if any(end > length for _, end in opinion.spans):
        raise UsageError(f"spans {opinion.spans} go beyond the {length} characters of the text")
    return Finding(
        doc=doc,
        detector=detector.name,
        version=detector.version,
        family=detector.family,
        score=opinion.score,
        verdict=opinion.decides and opinion.score >= 0.5,
        reason=opinion.reason,
        spans=opinion.spans,
        values=opinion.values,
    )
