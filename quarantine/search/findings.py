"""What a detector says about a document, and what all of them together say."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...loader.errors import UsageError

Span = tuple[int, int]
DECISIVE = 0.5
"""A score from here on crosses the detector's own line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One detector's annotation of one document.

    `score` lies in [0, 1] and reaches 0.5 at the detector's line. `verdict` says that the line was
    crossed by a detector that may decide. `spans` are (start, end) in characters.
    """

    doc: int
    detector: str
    version: int
    family: str
    score: float
    verdict: bool
    reason: str
    spans: tuple[Span, ...] = ()
    values: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.score <= 1.0:
            raise UsageError(f"{self.detector} scored {self.score}; a score lies in 0 to 1")
        if any(not 0 <= start < end for start, end in self.spans):
            raise UsageError(
                f"{self.detector} gave spans {self.spans}; each needs 0 <= start < end"
            )

    def to_json(self) -> dict[str, object]:
        """Return the finding as plain JSON values."""
        return {
            "doc": self.doc,
            "detector": self.detector,
            "version": self.version,
            "family": self.family,
            "score": round(self.score, 6),
            "verdict": self.verdict,
            "reason": self.reason,
            "spans": [list(span) for span in self.spans],
            "values": {name: round(value, 6) for name, value in sorted(self.values.items())},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What a text detector says: `decides` False annotates only."""

    score: float
    reason: str
    spans: tuple[Span, ...] = ()
    decides: bool = False
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A document of a spike window, ranked by `score`; `findings` hold the evidence."""

    doc: int
    score: float
    verdict: bool
    reasons: tuple[str, ...]
    spans: tuple[Span, ...]
    findings: tuple[Finding, ...]
    source: str = ""
    loss: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return the suspect as plain JSON values."""
        return {
            "doc": self.doc,
            "score": round(self.score, 6),
            "verdict": self.verdict,
            "source": self.source,
            "loss": self.loss,
            "reasons": list(self.reasons),
            "spans": [list(span) for span in self.spans],
            "findings": [finding.to_json() for finding in self.findings],
        }
