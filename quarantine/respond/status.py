"""The status of documents and positions: a pure function of the decisions.

The most specific scope wins, then the latest decision; `condemn` yields only to `undo`; `suspect`
is a note that counts only where nothing else speaks, so a suspicion never lifts a quarantine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...loader.errors import DecisionError
from .scopes import ENTRY, DocumentFacts, PositionRange, Scope

ACTIONS = ("suspect", "skip", "quarantine", "release", "condemn", "undo")
EXCLUDED = ("quarantined", "condemned")
STATES = {
    "suspect": "suspect",
    "quarantine": "quarantined",
    "release": "released",
    "condemn": "condemned",
}
Documents = npt.NDArray[np.int64]
Resolver = Callable[[Scope], Documents]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One act of a person or rule; `reason` and `actor` are mandatory."""

    action: str
    scope: Scope
    reason: str
    actor: str
    incident: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise DecisionError(
                f"unknown action {self.action!r}; choose one of {', '.join(ACTIONS)}"
            )
        if not self.reason.strip():
            raise DecisionError(f"{self.action} of {self.scope.describe()} needs a reason")
        if not self.actor.strip():
            raise DecisionError(f"{self.action} of {self.scope.describe()} needs an actor")
        if (self.action == "undo") != (self.scope.kind == ENTRY):
            raise DecisionError(
                f"{self.action} cannot have the scope {self.scope.describe()!r}; undo names a "
                "decision by its number, and nothing else does"
            )
        if self.action == "skip" and not self.scope.ranges:
            raise DecisionError("skip needs sample positions; to leave content out, quarantine it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A decision as it stands in the log."""

    sequence: int
    time: str
    digest: str
    manifest: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """`state` is clear, suspect, quarantined, released or condemned; `entry` decided it."""

    state: str
    entry: Entry | None
    trail: tuple[Entry, ...]

    @property
    def excluded(self) -> bool:
        """Whether the loader must leave the document out."""
        return self.state in EXCLUDED


def live_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries no live undo names; an undo may itself be undone."""
    undone: set[int] = set()
    live: list[Entry] = []
    for entry in reversed(entries):
        if entry.sequence in undone:
            continue
        live.append(entry)
        if entry.decision.action == "undo":
            undone.add(int(entry.decision.scope.value))
    return live[::-1]


def status_of(entries: Sequence[Entry], facts: DocumentFacts) -> Status:
    """Return the status of one document, with every entry that ever spoke about it.

    What took such an entry back, or brought it back, spoke about the document as well.
    """
    spoken = [e for e in entries if _speaks_of_documents(e) and e.decision.scope.covers(facts)]
    trail = _with_undos(entries, spoken)
    live = {e.sequence for e in live_entries(entries)}
    decisive = max((e for e in spoken if e.sequence in live), key=_rank, default=None)
    state = STATES[decisive.decision.action] if decisive else "clear"
    return Status(state=state, entry=decisive, trail=tuple(trail))


def _with_undos(entries: Sequence[Entry], spoken: Sequence[Entry]) -> list[Entry]:
    """Return `spoken` and, in their places, the undos of them and of their undos."""
    numbers = {entry.sequence for entry in spoken}
    for entry in entries:  # an undo names an earlier decision
        if entry.decision.action == "undo" and int(entry.decision.scope.value) in numbers:
            numbers.add(entry.sequence)
    return [entry for entry in entries if entry.sequence in numbers]


def excluded_documents(entries: Sequence[Entry], resolve: Resolver) -> Documents:
    """Return the sorted ordinals that are quarantined or condemned.

    `resolve` gives the sorted documents of a scope; shards and sources need the manifest for it.
    """
    return deciding_entries(entries, resolve)[0]


def deciding_entries(
    entries: Sequence[Entry], resolve: Resolver
) -> tuple[Documents, npt.NDArray[np.int64]]:
    """Return the excluded documents and, for each, the number of the decision that holds it out.

    Work and memory grow with the documents named, not with the corpus.
    """
    live = [e for e in live_entries(entries) if _speaks_of_documents(e)]
    named = [
        resolve(e.decision.scope) for e in live if e.decision.action in ("quarantine", "condemn")
    ]
    candidates = np.unique(np.concatenate([np.empty(0, np.int64), *named]))
    if not candidates.size:
        return candidates, candidates
    decided = np.zeros(candidates.size, np.int64)
    for entry in sorted(live, key=_rank):
        if entry.decision.action != "suspect":
            hit = _places(candidates, resolve(entry.decision.scope))
            decided[hit] = 0 if entry.decision.action == "release" else entry.sequence
    out = decided > 0
    return candidates[out], decided[out]


def _places(candidates: Documents, docs: Documents) -> npt.NDArray[np.int64]:
    """Return where the sorted `docs` stand in the sorted `candidates`, those that do."""
    low, high = np.searchsorted(docs, (candidates[0], candidates[-1] + 1))
    inside = docs[low:high]
    places: npt.NDArray[np.int64] = np.searchsorted(candidates, inside)
    known: npt.NDArray[np.bool_] = candidates[places] == inside
    return places[known]


def active_skips(entries: Sequence[Entry]) -> list[tuple[PositionRange, Entry]]:
    """Return the ranges to pass over, in order, less those a later release gives back."""
    skips: list[tuple[PositionRange, Entry]] = []
    for entry in live_entries(entries):
        ranges = entry.decision.scope.ranges
        if entry.decision.action == "skip":
            skips += [(r, entry) for r in ranges]
        elif entry.decision.action == "release":
            for given_back in ranges:
                skips = [(left, e) for r, e in skips for left in _subtract(r, given_back)]
    return sorted(skips, key=lambda pair: (pair[0].plan_id, pair[0].epoch, pair[0].start))


def overlapping(entries: Iterable[Entry], scope: Scope) -> list[Entry]:
    """Return the entries that speak about something `scope` speaks about, as far as named."""
    mine = set(scope.documents)
    return [e for e in entries if _touches(e, scope, mine)]


def _touches(entry: Entry, scope: Scope, mine: set[int]) -> bool:
    other = entry.decision.scope
    if scope.kind == ENTRY:
        return str(entry.sequence) == scope.value or other == scope
    if other.kind == scope.kind and other.value == scope.value and scope.value:
        return True
    if not mine.isdisjoint(other.documents):
        return True
    return any(_subtract(a, b) != [a] for a in other.ranges for b in scope.ranges)


def _speaks_of_documents(entry: Entry) -> bool:
    return entry.decision.action in STATES


def _rank(entry: Entry) -> tuple[int, int, int]:
    """Order by weight: notes, then ordinary decisions by scope and time, then condemnations."""
    action = entry.decision.action
    weight = {"suspect": 0, "condemn": 2}.get(action, 1)
    return weight, entry.decision.scope.specificity, entry.sequence


def _subtract(whole: PositionRange, hole: PositionRange) -> list[PositionRange]:
    if (whole.plan_id, whole.epoch) != (hole.plan_id, hole.epoch):
        return [whole]
    if hole.end <= whole.start or whole.end <= hole.start:
        return [whole]
    spans = ((whole.start, hole.start), (hole.end, whole.end))
    return [
        PositionRange(plan_id=whole.plan_id, epoch=whole.epoch, start=a, end=b)
        for a, b in spans
        if a < b
    ]
