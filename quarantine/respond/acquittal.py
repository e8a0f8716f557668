"""Copies that were not to blame: the run had eaten their like before, and nothing happened.

A licence text stands in a corpus a hundred times. Four of them in one window look like a flood of
copies, but the ledger says that others of the same text fed healthy steps. That is evidence against
them, and evidence that a copy of something new does not have. Junk has no such way out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..search.findings import DECISIVE, Suspect
from ..search.hits import Hit
from ..search.near import pairs_between
from ..search.query import NEAR
from ..search.similar import search, warn_of
from ..search.texts import documents_chunk
from .incident import IncidentStore

if TYPE_CHECKING:
    from pathlib import Path

    from ...loader.manifest import Manifest
    from ..ledger.ledger import Ledger
    from ..search.incident_window import IncidentWindow

COPY_KINDS = ("near", "exact")
COPIES = "copies"
HISTORY_DOCUMENTS = 20_000
"""Documents eaten before the window that its copies are compared with, unless said otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquittal:
    """`doc` is free because `eaten` copies of `like` fed steps before the window, without harm."""

    doc: int
    like: int
    eaten: int
    first_step: int

    @property
    def reason(self) -> str:
        """The acquittal in words."""
        return (
            f"acquitted: the run ate {self.eaten} copies of document {self.like} before without "
            f"harm, the first at step {self.first_step}"
        )

    def to_json(self) -> dict[str, int]:
        """Return the acquittal as plain JSON values."""
        return {
            "doc": self.doc,
            "like": self.like,
            "eaten": self.eaten,
            "first_step": self.first_step,
        }


def acquit_suspects(
    suspects: Sequence[Suspect],
    ledger: Ledger,
    manifest: Manifest,
    window: IncidentWindow,
    *,
    branch: int | None,
    harmed: frozenset[int] = frozenset(),
    most: int = HISTORY_DOCUMENTS,
) -> tuple[list[Suspect], list[Acquittal]]:
    """Return the suspects, ranked anew without the copies that were not to blame, and those.

    The window's copies are compared with the newest `most` documents that its branch ate before,
    as far from the window as its controls.

    Args:
        branch: the branch piece that spiked.
        harmed: steps that were no healthy ones, such as those of other incidents.
    """
    accused = [s.doc for s in suspects if s.verdict and _only_a_copy(s)]
    last = 2 * window.first - window.last - 2
    eaten = _history(ledger, branch, last, most, harmed) if accused and most else {}
    for doc in window.docs:
        eaten.pop(doc, None)
    innocent = harmless(_copies(manifest, accused, sorted(eaten)), eaten)
    related = [d for d in accused if d not in innocent]
    found = _acquittals(innocent, _copies(manifest, sorted(innocent), related))
    return _without_blame(suspects, found), found


def acquit_hits(
    hits: Sequence[Hit],
    ledger: Ledger,
    manifest: Manifest,
    *,
    before: int,
    branch: int | None,
    harmed: frozenset[int] = frozenset(),
    tell: Callable[[str], object] = warn_of,
) -> list[Acquittal]:
    """Return the culprits with copies among `hits` that fed steps before `before`, and their like.

    The whole corpus is searched for relatives of the culprits that are free; `tell` hears where
    there are more candidates than are verified.
    """
    copies = [hit for hit in hits if hit.kind in COPY_KINDS]
    eaten = eaten_before(ledger, [hit.doc for hit in copies], before, branch, harmed=harmed)
    innocent = harmless(copies, eaten)
    if not innocent:
        return []
    return _acquittals(innocent, search(manifest, sorted(innocent), kinds=COPY_KINDS, tell=tell))


def eaten_before(
    ledger: Ledger,
    docs: Iterable[int],
    step: int,
    branch: int | None,
    *,
    harmed: frozenset[int] = frozenset(),
) -> dict[int, int]:
    """Return document → first healthy step before `step` that it fed, for those that fed one.

    Steps in `harmed` were no healthy ones.
    """
    wanted = sorted(set(docs))
    if not wanted:
        return {}
    rows = ledger.document_steps(wanted, branch).select(["doc", "step"]).to_pylist()
    first: dict[int, int] = {}
    for row in rows:
        if row["step"] < step and row["step"] not in harmed:
            first[row["doc"]] = min(row["step"], first.get(row["doc"], row["step"]))
    return first


def harmless(copies: Iterable[Hit], eaten: Mapping[int, int]) -> dict[int, list[int]]:
    """Return culprit → sorted first steps of its copies that were eaten before the window."""
    found: dict[int, list[int]] = defaultdict(list)
    for hit in copies:
        if hit.doc in eaten:
            found[hit.query_doc].append(eaten[hit.doc])
    return {doc: sorted(steps) for doc, steps in found.items()}


def harmed_steps(run_path: Path) -> frozenset[int]:
    """Return the steps that an incident of the run says did harm."""
    steps: set[int] = set()
    for incident in IncidentStore(run_path).all():
        for event in incident.events():
            at = event.summary
            if event.act in ("open", "reopen") and "onset" in at:
                steps.update(range(at["onset"], at["detected"] + 1))
            elif event.act == "identify":
                steps.update(range(at["first"], at["last"] + 1))
    return frozenset(steps)


def _only_a_copy(suspect: Suspect) -> bool:
    return {finding.family for finding in suspect.findings if finding.verdict} == {COPIES}


def _history(
    ledger: Ledger, branch: int | None, last: int, most: int, harmed: frozenset[int]
) -> dict[int, int]:
    """Return the newest `most` documents eaten up to step `last` → the first step they fed."""
    eaten: dict[int, int] = {}
    width = 1
    while last >= 1 and len(eaten) < most:
        first = max(1, last - width + 1)
        rows = ledger.window_documents(first, last, branch).select(["doc", "first_step"])
        for row in rows.to_pylist():
            if row["first_step"] not in harmed:
                eaten[row["doc"]] = row["first_step"]
        last, width = first - 1, width * 2
    newest = sorted(eaten, key=lambda doc: (-eaten[doc], doc))[:most]
    return {doc: eaten[doc] for doc in newest}


def _copies(manifest: Manifest, docs: Sequence[int], others: Sequence[int]) -> list[Hit]:
    """Return the near and exact copies of `docs` among `others`."""
    if not docs or not others:
        return []
    mine, theirs = documents_chunk(manifest, docs)[0], documents_chunk(manifest, others)[0]
    return [
        Hit(
            doc=others[pair.right],
            query_doc=docs[pair.left],
            kind="exact" if pair.exact else "near",
            score=pair.score,
            reason="a copy",
        )
        for pair in pairs_between(mine, theirs, NEAR)
    ]


def _acquittals(innocent: Mapping[int, list[int]], like: Iterable[Hit]) -> list[Acquittal]:
    """Return the acquittal of each innocent document and of its relatives, by document."""
    named = {hit.doc: hit.query_doc for hit in like} | {doc: doc for doc in innocent}
    return [
        Acquittal(doc=doc, like=source, eaten=len(innocent[source]), first_step=innocent[source][0])
        for doc, source in sorted(named.items())
    ]


def _without_blame(suspects: Sequence[Suspect], found: Sequence[Acquittal]) -> list[Suspect]:
    reasons = {one.doc: one.reason for one in found}
    freed = [
        replace(
            suspect,
            verdict=False,
            score=min(suspect.score, DECISIVE - 1e-6),
            reasons=(reasons[suspect.doc], *suspect.reasons),
        )
        if suspect.doc in reasons
        else suspect
        for suspect in suspects
    ]
    return sorted(freed, key=lambda suspect: (-suspect.score, suspect.doc))
