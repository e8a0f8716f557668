"""The status of a document against a plain model, over random logs."""

from __future__ import annotations

from itertools import count

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardward.quarantine.respond.scopes import KINDS, DocumentFacts, PositionRange, Scope
from shardward.quarantine.respond.status import (
    Decision,
    Documents,
    Entry,
    active_skips,
    excluded_documents,
    live_entries,
    status_of,
)

DOCS = [
    DocumentFacts(doc=d, shard=f"s{d % 3}", source=f"x{d % 2}", content=f"c{d // 2}")
    for d in range(8)
]


def entries(decisions: list[Decision]) -> list[Entry]:
    return [
        Entry(sequence=n, time="", digest="", manifest="", decision=d)
        for n, d in zip(count(1), decisions)
    ]


def members(scope: Scope) -> list[int]:
    return [f.doc for f in DOCS if scope.covers(f)]


def resolve(scope: Scope) -> Documents:
    return np.array(members(scope), np.int64)


docs = st.lists(st.integers(0, 7), min_size=1, max_size=4).map(tuple)
content = st.integers(0, 3)
scopes = st.one_of(
    docs.map(Scope.of_documents),
    content.map(lambda c: Scope(kind="content", value=f"c{c}", documents=(2 * c, 2 * c + 1))),
    st.integers(0, 2).map(lambda s: Scope(kind="shard", value=f"s{s}")),
    st.integers(0, 1).map(lambda s: Scope(kind="source", value=f"x{s}")),
    docs.map(lambda d: Scope(kind="steps", value="3-4", documents=d)),
    docs.map(lambda d: Scope(kind="detector", value="repetition@1", documents=d)),
)
acts = st.tuples(st.sampled_from(["suspect", "quarantine", "release", "condemn"]), scopes)


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    decisions: list[Decision] = []
    for _ in range(draw(st.integers(0, 12))):
        if decisions and draw(st.integers(0, 3)) == 0:
            action, scope = "undo", Scope.of_entry(draw(st.integers(1, len(decisions))))
        else:
            action, scope = draw(acts)
        decisions.append(Decision(action=action, scope=scope, reason="r", actor="a"))
    return entries(decisions)


def model(log: list[Entry], facts: DocumentFacts) -> str:
    """Say it the long way: strike out the undone, then ask the scopes from narrow to broad."""
    alive = {e.sequence: True for e in log}
    for entry in reversed(log):
        if entry.decision.action == "undo" and alive[entry.sequence]:
            alive[int(entry.decision.scope.value)] = False
    speaking = [
        e.decision
        for e in log
        if alive[e.sequence] and e.decision.action != "undo" and e.decision.scope.covers(facts)
    ]
    if any(d.action == "condemn" for d in speaking):
        return "condemned"
    for kind in KINDS:
        said = [d.action for d in speaking if d.scope.kind == kind and d.action != "suspect"]
        if said:
            return {"quarantine": "quarantined", "release": "released"}[said[-1]]
    return "suspect" if speaking else "clear"


@given(logs())
def test_the_status_is_what_a_plain_model_says(log: list[Entry]) -> None:
    for facts in DOCS:
        assert status_of(log, facts).state == model(log, facts)


@given(logs())
def test_the_excluded_documents_are_those_whose_status_says_so(log: list[Entry]) -> None:
    expected = [f.doc for f in DOCS if model(log, f) in ("quarantined", "condemned")]

    assert excluded_documents(log, resolve).tolist() == expected


def test_a_scope_without_documents_excludes_nothing() -> None:
    log = entries([one("quarantine", Scope(kind="shard", value="empty"))])

    assert excluded_documents(log, resolve).tolist() == []


def one(action: str, scope: Scope) -> Decision:
    return Decision(action=action, scope=scope, reason="r", actor="a")


def state(*decisions: Decision, doc: int = 4) -> str:
    return status_of(entries(list(decisions)), DOCS[doc]).state


def test_a_suspicion_never_lifts_a_quarantine() -> None:
    held = one("quarantine", Scope(kind="shard", value="s1"))

    assert state(held, one("suspect", Scope.of_documents([4]))) == "quarantined"


def test_a_document_released_from_a_held_shard_stays_released() -> None:
    hold = one("quarantine", Scope(kind="shard", value="s1"))

    assert state(one("release", Scope.of_documents([4])), hold) == "released"


def test_a_condemned_document_yields_only_to_undo() -> None:
    condemn = one("condemn", Scope(kind="source", value="x0"))
    release = one("release", Scope.of_documents([4]))

    assert state(condemn, release) == "condemned"
    assert state(condemn, release, one("undo", Scope.of_entry(1))) == "released"


def test_an_undone_undo_brings_the_decision_back() -> None:
    held = one("quarantine", Scope.of_documents([4]))

    log = entries([held, one("undo", Scope.of_entry(1)), one("undo", Scope.of_entry(2))])

    assert [e.sequence for e in live_entries(log)] == [1, 3]
    assert status_of(log, DOCS[4]).state == "quarantined"


def positions(start: int, end: int) -> Scope:
    span = PositionRange(plan_id="p", epoch=0, start=start, end=end)
    return Scope(kind="positions", ranges=(span,))


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 20), st.integers(1, 8)), min_size=1, max_size=8
    )
)
def test_skipped_positions_are_the_skips_less_what_was_given_back(
    acts: list[tuple[bool, int, int]],
) -> None:
    decisions = [
        one("skip" if skip else "release", positions(start, start + size))
        for skip, start, size in acts
    ]
    expected: set[int] = set()
    for skip, start, size in acts:
        span = set(range(start, start + size))
        expected = expected | span if skip else expected - span

    parts = [part for part, _ in active_skips(entries(decisions))]

    assert {p for part in parts for p in range(part.start, part.end)} == expected


def test_S9_two_skip_ranges_are_both_honoured() -> None:
    log = entries([one("skip", positions(5, 9)), one("skip", positions(20, 30))])

    assert [(p.start, p.end) for p, _ in active_skips(log)] == [(5, 9), (20, 30)]
