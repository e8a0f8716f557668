"""Detectors that read the text itself: the interface for third parties, and how they are found.

A package adds one with an entry point in the group `shardward.detectors` that names a
`TextDetector` or a function returning one. A detector that fails on a document, or says what means
nothing, is reported; the scan goes on. One that takes too long is reported and not asked again.
"""

from __future__ import annotations

import math
import pickle
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from operator import index
from typing import Protocol, runtime_checkable

from ...loader.errors import UsageError
from .findings import DECISIVE, Finding, Opinion
from .foreign import ForeignFailure, Overdue, bounded, foreign
from .mixed_scripts import MixedScripts
from .old_pages import OldCodePage
from .quality import GopherQuality
from .residue import TemplateResidue
from .rules import BUILT_IN

GROUP = "shardward.detectors"
TAKEN = {rule.name for rule in BUILT_IN} | {"token-period", "copies", "unusual-language"}
PATIENCE = 30.0
"""Seconds that a detector of others has for one document."""
_NAME = re.compile(r"[a-z0-9-]+")


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
class Failure:
    """A detector failed on `count` documents; `error` is what it said on the first, `doc`.

    Where it took too long, it was `left_out` of as many others.
    """

    detector: str
    doc: int
    error: str
    count: int = 1
    slow: bool = False
    left_out: int = 0

    def __str__(self) -> str:
        more = f"; and on {self.count - 1} more" if self.count > 1 else ""
        if not self.slow:
            return f"detector {self.detector} failed on document {self.doc}: {self.error}{more}"
        return (
            f"detector {self.detector} {self.error} on document {self.doc}{more}; it was left out "
            f"of the rest, {self.left_out} documents"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The text detectors in use, and what was wrong with the others.

    A detector that is not of this package has `patience` seconds for a document. One that takes
    longer is in `slow`, with the document, and is not asked again.
    """

    detectors: tuple[TextDetector, ...] = ()
    problems: tuple[str, ...] = ()
    patience: float = PATIENCE
    slow: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def examine(self, doc: int, text: str, source: str) -> tuple[list[Finding], list[Failure]]:
        """Return the findings on one document, and what went wrong with which detector."""
        findings, failures = [], []
        for detector in self.detectors:
            if detector.name in self.slow:
                failures.append(self._overdue(detector.name, left_out=1))
                continue
            try:
                with foreign():
                    opinion = self._ask(detector, text, source)
                    if opinion is not None:
                        findings.append(_finding(doc, detector, opinion, len(text)))
            except ForeignFailure as error:
                failures.append(Failure(detector=detector.name, doc=doc, error=str(error)))
            except Overdue:
                self.slow[detector.name] = doc
                failures.append(self._overdue(detector.name, count=1))
        return findings, failures

    def _ask(self, detector: TextDetector, text: str, source: str) -> Opinion | None:
        if type(detector).__module__.rpartition(".")[0] == __package__:
            return detector.examine(text, source)
        return bounded(partial(detector.examine, text, source), self.patience)

    def _overdue(self, name: str, *, count: int = 0, left_out: int = 0) -> Failure:
        return Failure(
            detector=name,
            doc=self.slow[name],
            error=f"took over {self.patience:g} s",
            count=count,
            slow=True,
            left_out=left_out,
        )

    def portable(self) -> Panel:
        """Return the detectors that can be sent to other processes; problems name the others."""
        kept, problems = [], []
        for detector in self.detectors:
            try:
                with foreign():
                    pickle.loads(pickle.dumps(detector))  # noqa: S301 (made the line before)
                kept.append(detector)
            except ForeignFailure as error:
                problems.append(
                    f"detector {detector.name} cannot be sent to worker processes, and was left "
                    f"out ({error}); scan with --workers 0"
                )
        return replace(self, detectors=tuple(kept), problems=tuple(problems))


def panel(points: Sequence[EntryPoint] | None = None) -> Panel:
    """Return the built-in text detectors and those that installed packages add."""
    found: list[TextDetector] = [
        GopherQuality(),
        TemplateResidue(),
        OldCodePage(),
        MixedScripts(),
    ]
    problems = []
    for point in entry_points(group=GROUP) if points is None else points:
        try:
            with foreign():
                loaded = point.load()
                detector = loaded() if callable(loaded) else loaded
                _check(detector, TAKEN | {known.name for known in found})
                found.append(detector)
        except ForeignFailure as error:
            problems.append(f"detector {point.name} of {point.value} cannot be used: {error}")
    return Panel(detectors=tuple(found), problems=tuple(problems))


def merged(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """Return one failure for each detector and kind, the earliest, with the counts of all."""
    groups: dict[tuple[str, bool], list[Failure]] = defaultdict(list)
    for failure in failures:
        groups[failure.detector, failure.slow].append(failure)
    return tuple(
        replace(
            min(groups[kind], key=lambda failure: failure.doc),
            count=sum(failure.count for failure in groups[kind]),
            left_out=sum(failure.left_out for failure in groups[kind]),
        )
        for kind in sorted(groups)
    )


def _check(detector: object, taken: set[str]) -> None:
    if not isinstance(detector, TextDetector):
        raise UsageError("it has no name, version, family or examine")
    name, version, family = detector.name, detector.version, detector.family
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise UsageError(f"its name {name!r} is not lower-case words joined by dashes")
    if name in taken:
        raise UsageError(f"there is a detector {name!r} already")
    if not isinstance(version, int) or version < 1 or not (isinstance(family, str) and family):
        raise UsageError(
            f"version {version!r} and family {family!r} are not a number from 1 on and a word"
        )


def _finding(doc: int, detector: TextDetector, opinion: Opinion, length: int) -> Finding:
    if not isinstance(opinion, Opinion):
        raise UsageError(f"it returned {type(opinion).__name__}, not an Opinion or None")
    spans = tuple((index(start), index(end)) for start, end in opinion.spans)
    if any(end > length for _, end in spans):
        raise UsageError(f"spans {spans} go beyond the {length} characters of the text")
    if not (isinstance(opinion.reason, str) and opinion.reason):
        raise UsageError(f"the reason is {opinion.reason!r}, not a text")
    values = {str(name): float(value) for name, value in opinion.values.items()}
    if not all(map(math.isfinite, values.values())):
        raise UsageError(f"the values {values} are not all finite")
    return Finding(
        doc=doc,
        detector=detector.name,
        version=detector.version,
        family=detector.family,
        score=float(opinion.score),
        verdict=bool(opinion.decides) and opinion.score >= DECISIVE,
        reason=opinion.reason,
        spans=spans,
        values=values,
    )
