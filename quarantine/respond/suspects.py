"""The suspects of a window: ranked, freed where their like did no harm, and as an attachment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...loader.errors import IncidentError
from ..search.incident_window import IncidentWindow, document_losses
from ..search.similar import warn_of
from ..search.triage import triage
from .acquittal import (
    COPIES,
    COPY_KINDS,
    HISTORY_DOCUMENTS,
    Acquittal,
    acquit_hits,
    acquit_suspects,
    harmed_steps,
)
from .on_branch import OnBranch

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ..ledger.ledger import Ledger
    from ..search.findings import Suspect
    from ..search.hits import Hit
    from .incident import Incident

MOST_SPANS = 8
SPAN_CHARACTERS = 240


class SuspectLike(Protocol):
    """What triage says about one document."""

    @property
    def doc(self) -> int:
        """Ordinal of the document."""

    @property
    def score(self) -> float:
        """0 to 1."""

    @property
    def verdict(self) -> bool:
        """Whether it crossed the line."""

    @property
    def loss(self) -> float | None:
        """Highest loss of a sample it was in, where that is known."""

    @property
    def reasons(self) -> Sequence[str]:
        """Why, in words."""

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """Characters [start, end) that show it."""


def find_suspects(
    incident: Incident,
    ledger: Ledger,
    manifest: Manifest,
    window: IncidentWindow,
    *,
    branch: int | None,
    history: int = HISTORY_DOCUMENTS,
    tell: Callable[[str], object] = warn_of,
) -> tuple[list[Suspect], list[Acquittal]]:
    """Rank the window's documents against its controls; free the copies that were not to blame.

    Args:
        branch: the branch piece that spiked.
        history: documents eaten before the window that its copies are compared with; 0: none.
        tell: hears of detectors that cannot be used or failed; else a RuntimeWarning says it.

    Returns:
        The suspects, the most suspicious first, and who of them was acquitted. Of token ids without
        a known tokenizer only repeats and copies are judged.
    """
    losses = document_losses(OnBranch(ledger, branch), window.first, window.last)
    suspects = triage(manifest, window.alone, window.controls, losses=losses, tell=tell)
    return acquit_suspects(
        suspects,
        ledger,
        manifest,
        window,
        branch=branch,
        harmed=harmed_steps(incident.run_path),
        most=history,
    )


def acquit_relatives(
    incident: Incident,
    ledger: Ledger,
    manifest: Manifest,
    hits: Sequence[Hit],
    *,
    branch: int | None,
    tell: Callable[[str], object] = warn_of,
) -> tuple[list[Hit], list[Acquittal]]:
    """Return `hits` without those that lead to copies which were not to blame, and the acquittals.

    Where copies of a suspected copy fed healthy steps before the window, it is free, and so is
    what is like it. `tell` hears where more documents may be like it than could be verified.
    """
    stored = (incident.attached("suspects") or {}).get("suspects", [])
    copies = {each["doc"] for each in stored if each["family"] == COPIES}
    junk = {each["doc"] for each in stored if each.get("verdict")} - copies
    found = acquit_hits(
        [hit for hit in hits if hit.query_doc in copies],
        ledger,
        manifest,
        before=incident.require("identify").summary["first"],
        branch=branch,
        harmed=harmed_steps(incident.run_path),
        tell=tell,
    )
    free = [each for each in found if each.doc not in junk]
    names = {each.doc for each in free}

    def stays(hit: Hit) -> bool:
        like_junk = hit.query_doc in junk and hit.kind not in COPY_KINDS
        return hit.query_doc not in names and (like_junk or hit.doc not in names)

    return [hit for hit in hits if stays(hit)], free


def families_of(suspects: Sequence[Suspect]) -> dict[int, str]:
    """Return the family of the first finding that condemns each suspect, by document.

    `copies` only where nothing else condemns it: copies may be acquitted, junk may not.
    """
    return {
        suspect.doc: min(
            (finding.family for finding in suspect.findings if finding.verdict),
            key=lambda family: family == COPIES,
        )
        for suspect in suspects
        if suspect.verdict
    }


def judged(incident: Incident) -> dict[int, str] | None:
    """Return the documents that the suspects stored in this round condemn, each with its reason.

    None when no suspects were stored in this round.
    """
    current = incident.case().round
    for event in reversed(incident.events()):
        if event.act == "note" and event.summary.get("name") == "suspects":
            suspects = incident.evidence(event, "suspects")["suspects"]
            if event.round != current or any("verdict" not in each for each in suspects):
                return None
            return {each["doc"]: each["reasons"][0] for each in suspects if each["verdict"]}
    return None


def suspect_reasons(incident: Incident) -> dict[int, str]:
    """Return the suspects of this round that crossed the line, each with its reason.

    Raises:
        IncidentError: there are none, or nobody has identified the window in this round.
    """
    found = judged(incident)
    if found is None:
        raise IncidentError(f"{incident.id} has no suspects yet; run incident identify first")
    if not found:
        raise IncidentError(
            f"no document of {incident.id} crossed the line; name documents with --doc or --steps, "
            "or say with incident skip --no-skip why nothing is left out"
        )
    return found


def suspects_json(
    manifest: Manifest,
    suspects: Sequence[SuspectLike],
    *,
    families: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """Return the attachment `suspects`: where each document lies, why, and the text of its spans.

    Reads the documents once. Texts are cut to 240 characters a span, 8 spans a document.
    """
    docs = [suspect.doc for suspect in suspects]
    columns = ("id", "text") if manifest.has_text else ("id",)
    rows = manifest.documents(docs, columns=columns).to_pylist()
    return {
        "suspects": [
            _suspect(suspect, row, (families or {}).get(suspect.doc))
            for suspect, row in zip(suspects, rows, strict=True)
        ]
    }


def _suspect(suspect: SuspectLike, row: Mapping[str, Any], family: str | None) -> dict[str, Any]:
    text = row.get("text") or ""
    return {
        "doc": suspect.doc,
        "id": row["id"],
        "shard": row["shard"],
        "row": row["row"],
        "source": row["source"],
        "score": float(suspect.score),
        "verdict": bool(suspect.verdict),
        "loss": suspect.loss,
        "family": family,
        "reasons": [str(reason) for reason in suspect.reasons],
        "spans": [
            {
                "start": int(start),
                "end": int(end),
                "text": text[start : min(end, start + SPAN_CHARACTERS)],
            }
            for start, end in list(suspect.spans)[:MOST_SPANS]
        ],
    }
