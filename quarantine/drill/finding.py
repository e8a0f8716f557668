"""Phases 8 and 9: rank the window's documents, find their relatives, and quarantine them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...loader.errors import IncidentError
from ..ledger import Ledger
from ..respond.decisions import DecisionLog
from ..respond.incident import Incident
from ..respond.scopes import Scope
from ..respond.status import Decision
from ..respond.suspects import suspects_json
from ..respond.window import Window
from ..search.findings import Suspect
from ..search.hits import Hit
from ..search.similar import search
from ..search.triage import triage
from .acquittal import Acquittal, acquit
from .session import ACTOR, Session

COPIES = "copies"
AUDIT_SHARE = 0.02
"""A shard with a larger share of excluded documents is listed for audit."""
MOST_SHARE = 0.2
"""Of a corpus no more than this can be a hole in it."""
SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found: culprits of the window and relatives anywhere.

    Attributes:
        suspects: the window's documents that look guilty, most suspicious first.
        families: family of each culprit by document.
        hits: relatives of the culprits in the rest of the corpus.
        acquittals: copies that were not to blame.
    """

    suspects: tuple[Suspect, ...]
    families: Mapping[int, str]
    hits: tuple[Hit, ...]
    acquittals: tuple[Acquittal, ...] = ()

    @property
    def culprits(self) -> list[int]:
        """Sorted documents of the window that the detectors condemn."""
        return sorted(self.families)

    @property
    def documents(self) -> dict[int, str]:
        """Family of every document to quarantine, culprits and relatives, by document."""
        found = dict(self.families)
        for hit in self.hits:
            found.setdefault(hit.doc, self.family(hit))
        return dict(sorted(found.items()))

    def family(self, hit: Hit) -> str:
        """Return the family that a relative belongs to: that of the culprit it is like."""
        return COPIES if hit.kind in ("near", "exact") else self.families[hit.query_doc]

    def reason(self, doc: int) -> str:
        """Return why `doc` is among the found."""
        for suspect in self.suspects:
            if suspect.doc == doc:
                return suspect.reasons[0]
        return next(hit.reason for hit in self.hits if hit.doc == doc)


def find(session: Session, ledger: Ledger, window: Window) -> Found:
    """Triage the window against its controls, then search the whole corpus for relatives."""
    docs = window.documents["doc"].to_numpy()
    losses = document_losses(ledger, window)
    suspects = triage(session.manifest, docs, window.control_documents, losses=losses)
    families = {s.doc: _family(s) for s in suspects if s.verdict}
    _show_suspects(session, suspects)
    if not families:
        return Found(suspects=tuple(suspects), families={}, hits=())
    total = session.manifest.documents_count
    with session.narrator.progress("search the corpus for relatives", total) as advance:
        hits = search(session.manifest, sorted(families), advance=advance)
    found = Found(suspects=tuple(suspects), families=families, hits=tuple(hits))
    acquittals = acquit(session, ledger, found, window)
    if acquittals:
        _show_acquittals(session, acquittals)
        found = without(found, acquittals)
    return found


def document_losses(ledger: Ledger, window: Window) -> dict[int, float]:
    """Return the mean loss of the samples that each document was part of.

    The window's own branch is asked, since the head may have left it by now.
    """
    sums: dict[int, list[float]] = defaultdict(list)
    table = window.segments.select(["step", "sample_position", "doc"]).to_pylist()
    branch = int(window.segments["piece"][0].as_py())
    for step in range(window.first, window.last + 1):
        rows = [row for row in table if row["step"] == step]
        places = {p: i for i, p in enumerate(dict.fromkeys(r["sample_position"] for r in rows))}
        losses = ledger.sample_losses(step, branch)["loss"].to_pylist()
        for row in rows:
            sums[row["doc"]].append(losses[places[row["sample_position"]]])
    return {doc: sum(values) / len(values) for doc, values in sorted(sums.items())}


def _family(suspect: Suspect) -> str:
    return next(finding.family for finding in suspect.findings if finding.verdict)


def without(found: Found, acquittals: Sequence[Acquittal]) -> Found:
    """Return what is left when the acquitted and what was found through them are taken out."""
    free = {one.doc for one in acquittals}
    return Found(
        suspects=found.suspects,
        families={doc: name for doc, name in found.families.items() if doc not in free},
        hits=tuple(h for h in found.hits if h.doc not in free and h.query_doc not in free),
        acquittals=tuple(acquittals),
    )


def _show_acquittals(session: Session, acquittals: Sequence[Acquittal]) -> None:
    session.narrator.table(
        f"{len(acquittals)} copies are acquitted: the run ate their like before without harm",
        ("doc", "like document", "eaten before", "first at step"),
        [(one.doc, one.like, one.eaten, one.first_step) for one in acquittals[:SHOWN]],
    )


def _show_suspects(session: Session, suspects: list[Suspect]) -> None:
    guilty = [suspect for suspect in suspects if suspect.verdict]
    session.narrator.table(
        f"{len(guilty)} documents of the window look guilty",
        ("doc", "score", "loss", "source", "why"),
        [(s.doc, s.score, s.loss, s.source, s.reasons[0]) for s in guilty[:SHOWN]],
    )


def attach_suspects(session: Session, incident: Incident, found: Found) -> dict[str, Any]:
    """Store the culprits with their evidence spans in the incident."""
    guilty = [suspect for suspect in found.suspects if suspect.doc in found.families]
    value = suspects_json(session.manifest, guilty, families=found.families)
    incident.attach("suspects", value, actor=ACTOR)
    return value


def quarantine(session: Session, incident: Incident, found: Found) -> None:
    """Append one decision for each family and way of being found, with reasons and evidence.

    Raises:
        IncidentError: so much of the corpus was found that leaving it out would end the run.
    """
    total, count = session.manifest.documents_count, len(found.documents)
    if count > MOST_SHARE * total:
        raise IncidentError(
            f"{count} of the corpus's {total} documents look like the culprits; that is no hole in "
            "the corpus but the corpus itself: leaving it out would end the run, so give other text"
        )
    log = DecisionLog(session.run.path, manifest=session.manifest.fingerprint)
    for family in sorted(set(found.families.values())):
        docs = [doc for doc, name in found.families.items() if name == family]
        reasons = {str(doc): found.reason(doc) for doc in docs}
        _decide(log, incident, docs, f"{family} in the window", reasons)
    relatives: dict[tuple[str, str], list[Hit]] = defaultdict(list)
    taken = set(found.families)
    for hit in found.hits:
        if hit.doc not in taken:
            taken.add(hit.doc)
            relatives[hit.kind, found.family(hit)].append(hit)
    for (kind, family), hits in sorted(relatives.items()):
        reasons = {str(hit.doc): hit.reason for hit in hits}
        why = f"relative of {family} ({kind})"
        _decide(log, incident, [hit.doc for hit in hits], why, reasons)


def _decide(
    log: DecisionLog, incident: Incident, docs: list[int], why: str, reasons: Mapping[str, str]
) -> None:
    log.append(
        Decision(
            action="quarantine",
            scope=Scope.of_documents(docs),
            reason=why,
            actor=ACTOR,
            incident=incident.id,
            evidence={"documents": dict(reasons)},
        )
    )


def audit_shards(session: Session, incident: Incident, found: Found) -> list[dict[str, Any]]:
    """Mark the shards with many excluded documents as suspect.

    Returns:
        All shards with an excluded document, most of them first: shard, excluded, documents,
        share, suspect.
    """
    counts = Counter(session.manifest.locate(doc).shard_uri for doc in found.documents)
    sizes = {shard.uri: shard.documents for shard in session.manifest.shards}
    log = DecisionLog(session.run.path, manifest=session.manifest.fingerprint)
    shards = []
    for uri, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        share = count / sizes[uri]
        if share > AUDIT_SHARE:
            _suspect_shard(log, incident, uri, f"{count} of {sizes[uri]} documents excluded")
        row = {"shard": uri, "excluded": count, "documents": sizes[uri], "share": share}
        shards.append({**row, "suspect": share > AUDIT_SHARE})
    session.narrator.table(
        "shards to audit",
        ("shard", "excluded", "documents", "share"),
        [tuple(shard.values())[:4] for shard in shards if shard["suspect"]],
    )
    return shards


def _suspect_shard(log: DecisionLog, incident: Incident, uri: str, why: str) -> None:
    log.append(
        Decision(
            action="suspect",
            scope=Scope(kind="shard", value=uri),
            reason=f"audit: {why}",
            actor=ACTOR,
            incident=incident.id,
        )
    )
