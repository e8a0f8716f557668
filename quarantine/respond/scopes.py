"""What a decision is about: one scope, from a single document to a detector's whole harvest.

Scopes that only a search can resolve (content hash, positions, steps, detector) carry the
documents they were resolved to, so that the log alone answers for every document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...loader.errors import DecisionError

# From the most specific to the least: the place in this tuple is the precedence.
KINDS = ("document", "content", "positions", "shard", "source", "steps", "detector")
ENTRY = "decision"
MAX_DOCUMENT = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRange:
    """Raw sample positions [start, end) of one epoch of one plan."""

    plan_id: str
    epoch: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not self.plan_id or self.epoch < 0 or not 0 <= self.start < self.end:
            raise DecisionError(
                f"positions [{self.start}, {self.end}) of epoch {self.epoch} are no range; give "
                "a plan, an epoch from 0 and 0 <= start < end"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the range as a JSON object."""
        return {
            "plan_id": self.plan_id,
            "epoch": self.epoch,
            "start": self.start,
            "end": self.end,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFacts:
    """What a scope may ask about one document."""

    doc: int
    shard: str = ""
    source: str = ""
    content: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`kind` with its `value`, the `documents` it was resolved to, and `ranges` for a skip.

    `value` is a content hash, shard uri, source name, "first-last" steps, "detector@version" or
    the sequence of a decision. `documents` is sorted and free of duplicates.
    """

    kind: str
    value: str = ""
    documents: tuple[int, ...] = ()
    ranges: tuple[PositionRange, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in (*KINDS, ENTRY):
            raise DecisionError(f"unknown scope {self.kind!r}; choose one of {', '.join(KINDS)}")
        if any(isinstance(d, bool) or not isinstance(d, int) for d in self.documents):
            raise DecisionError("documents of a scope must be integers")
        unique = tuple(sorted(set(self.documents)))
        if unique and not 0 <= unique[0] <= unique[-1] <= MAX_DOCUMENT:
            raise DecisionError(f"document {unique[0]} or {unique[-1]} is no ordinal")
        object.__setattr__(self, "documents", unique)
        self._check_filled()

    def _check_filled(self) -> None:
        if self.kind == "document" and not self.documents:
            raise DecisionError("a document scope names no document")
        if self.kind == "positions" and not self.ranges:
            raise DecisionError("a positions scope has no range")
        if self.kind not in ("document", "positions") and not self.value:
            raise DecisionError(f"a {self.kind} scope needs its value")
        if self.kind == ENTRY and not self.value.isdecimal():
            raise DecisionError(f"{self.value!r} is not the number of a decision")

    @property
    def specificity(self) -> int:
        """Higher wins; see `KINDS`."""
        return len(KINDS) - KINDS.index(self.kind)

    def covers(self, facts: DocumentFacts) -> bool:
        """Whether the scope speaks about the document `facts` describes."""
        if self.kind == "shard":
            return facts.shard == self.value
        if self.kind == "source":
            return facts.source == self.value
        if self.kind == "content" and facts.content is not None:
            return facts.content == self.value or facts.doc in self.documents
        return facts.doc in self.documents

    def describe(self) -> str:
        """Return the scope in a few words."""
        if self.kind == "document":
            head = ", ".join(map(str, self.documents[:3]))
            more = len(self.documents) - 3
            return f"document {head}" + (f" and {more} more" if more > 0 else "")
        if self.kind == "positions":
            return "positions " + ", ".join(
                f"[{r.start}, {r.end}) of epoch {r.epoch}" for r in self.ranges
            )
        if self.kind == "detector" and "=" in str(self.value):
            return f"what matches {self.value}"  # the conditions of a filter
        return f"{self.kind} {self.value}"

    def to_json(self) -> dict[str, Any]:
        """Return the scope as a JSON object without empty fields."""
        value: dict[str, Any] = {"kind": self.kind}
        if self.value:
            value["value"] = self.value
        if self.documents:
            value["documents"] = list(self.documents)
        if self.ranges:
            value["ranges"] = [r.to_json() for r in self.ranges]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Scope:
        """Return the scope `value` describes.

        Raises:
            DecisionError: a field is missing, unknown or of the wrong type.
        """
        try:
            return cls(
                kind=value["kind"],
                value=value.get("value", ""),
                documents=tuple(value.get("documents", ())),
                ranges=tuple(PositionRange(**r) for r in value.get("ranges", ())),
            )
        except (KeyError, TypeError) as error:
            raise DecisionError(f"a scope is malformed ({error})") from error

    @classmethod
    def of_documents(cls, documents: Sequence[int]) -> Scope:
        """Return the scope of these ordinals."""
        return cls(kind="document", documents=tuple(int(d) for d in documents))

    @classmethod
    def of_entry(cls, sequence: int) -> Scope:
        """Return the scope of an earlier decision, for `undo`."""
        return cls(kind=ENTRY, value=str(sequence))
