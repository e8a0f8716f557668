"""Copies that were not to blame: the run had eaten their like before, and nothing happened.

A licence text stands in a corpus a hundred times. Four of them in one window look like a flood of
copies, but the ledger says that others of the same text fed healthy steps. That is evidence against
them, and evidence that a copy of something new does not have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ledger import Ledger
from ..respond.window import Window
from ..search.hits import Hit
from ..search.similar import search
from .session import Session

if TYPE_CHECKING:
    from .finding import Found

COPY_KINDS = ("near", "exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquittal:
    """`doc` is free because `eaten` copies of `like` fed steps before the window, without harm."""

    doc: int
    like: int
    eaten: int
    first_step: int


def acquit(session: Session, ledger: Ledger, found: Found, window: Window) -> list[Acquittal]:
    """Return the copies of the window, and their relatives, whose like was eaten before it."""
    copies = [hit for hit in found.hits if hit.kind in COPY_KINDS]
    branch = int(window.segments["piece"][0].as_py())
    eaten = eaten_before(ledger, [hit.doc for hit in copies], window.first, branch)
    innocent = harmless(copies, eaten)
    if not innocent:
        return []
    like = search(session.manifest, sorted(innocent), kinds=COPY_KINDS)
    named = {doc: doc for doc in innocent} | {h.doc: h.query_doc for h in like}
    return [
        Acquittal(doc=doc, like=source, eaten=len(innocent[source]), first_step=innocent[source][0])
        for doc, source in sorted(named.items())
    ]


def eaten_before(ledger: Ledger, docs: Iterable[int], step: int, branch: int) -> dict[int, int]:
    """Return document → first step before `step` that it fed, for those that fed one."""
    wanted = sorted(set(docs))
    if not wanted:
        return {}
    rows = ledger.document_steps(wanted, branch).select(["doc", "step"]).to_pylist()
    first: dict[int, int] = {}
    for row in rows:
        if row["step"] < step:
            first[row["doc"]] = min(row["step"], first.get(row["doc"], row["step"]))
    return first


def harmless(copies: Iterable[Hit], eaten: Mapping[int, int]) -> dict[int, list[int]]:
    """Return culprit → sorted first steps of its copies that were eaten before the window."""
    found: dict[int, list[int]] = defaultdict(list)
    for hit in copies:
        if hit.doc in eaten:
            found[hit.query_doc].append(eaten[hit.doc])
    return {doc: sorted(steps) for doc, steps in found.items()}
