"""Phases 12 and 13: file the incident, and write the corpus without what was condemned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...loader.errors import IntegrityError
from ...loader.index import build_manifest
from ...loader.revision import Revision
from ...loader.stream import ShardLoader
from ..diagnose.attribution import attribute
from ..diagnose.causes import Cause
from ..diagnose.events import Event
from ..diagnose.evidence import Evidence, Trial
from ..diagnose.evidence import Window as Shares
from ..ledger import Ledger
from ..respond.curves import curves_json
from ..respond.filing import Filed, file, write_report
from ..respond.incident import Incident
from ..respond.rebuild import rebuild
from ..respond.rebuild_report import RebuildReport
from ..respond.window import Window
from ..search.detectors import detect_documents
from .finding import Found
from .rewinding import Replay
from .session import ACTOR, Session, by_step, signals

CURVES = ("loss", "grad_norm")


def attach_causes(
    session: Session,
    ledger: Ledger,
    incident: Incident,
    *,
    event: Event,
    window: Window,
    found: Found,
    replay: Replay,
    recurred: bool,
) -> list[Cause]:
    """Rank the causes from all the evidence and store them with the trials."""
    skipped = Trial(kind="skip", recurred=recurred)
    causes = attribute(
        Evidence(
            event=event,
            series=signals(ledger, branch=_branch(window)),
            window=_shares(session, window, found),
            trials=(
                Trial(kind="replay", recurred=replay.recurred, bitwise=replay.bitwise),
                skipped,
            ),
        )
    )
    incident.attach("causes", {"causes": [cause.to_json() for cause in causes]}, actor=ACTOR)
    trials = [replay.to_json(), {"kind": "skip", "recurred": recurred}]
    incident.attach("trials", {"trials": trials}, actor=ACTOR)
    session.narrator.table(
        "what caused it?",
        ("cause", "confidence", "for", "against"),
        [
            (c.name, c.score, "; ".join(c.evidence_for), "; ".join(c.evidence_against))
            for c in causes
        ],
    )
    return causes


def _shares(session: Session, window: Window, found: Found) -> Shares:
    """Return the share of tokens in condemned documents, of the window and of its controls."""
    tokens = window.documents["tokens"].to_pylist()
    docs = window.documents["doc"].to_pylist()
    flagged = sum(t for t, doc in zip(tokens, docs, strict=True) if doc in found.families)
    controls = window.control_documents
    usual = detect_documents(session.manifest.documents(controls, columns=("text",)), controls)
    condemned = {finding.doc for finding in usual if finding.verdict}
    return Shares(
        flagged_share=flagged / sum(tokens),
        control_share=len(condemned) / max(1, len(controls)),
        controls=len(window.controls),
    )


def _branch(window: Window) -> int:
    return int(window.segments["piece"][0].as_py())


def attach_curves(
    session: Session, ledger: Ledger, incident: Incident, pieces: Mapping[str, int]
) -> None:
    """Store loss and gradient norm of branch pieces by name, each from its own first step on."""
    spans = {piece.piece: piece.fork_step + 1 for piece in session.run.pieces()}
    branches = {}
    for name, piece in pieces.items():
        series = signals(ledger, *CURVES, branch=piece)
        branches[name] = {n: by_step(each, spans[piece]) for n, each in series.items()}
    incident.attach("curves", curves_json(branches), actor=ACTOR)


def file_incident(session: Session, incident: Incident) -> Filed:
    """File the incident: JSON, Markdown, HTML and a picture of the curves."""
    filed = file(incident, session.run, actor=ACTOR, commands=_commands(session))
    for path in filed.paths:
        session.narrator.say(f"filed {path}")
    return filed


def _commands(session: Session) -> list[str]:
    return [f"shardward drill --seed {session.seed}"]


def rebuild_corpus(
    session: Session, incident: Incident, revision: Revision
) -> tuple[RebuildReport, dict[str, Any]]:
    """Write the filtered corpus, index it, and load a batch of it.

    Returns:
        The rebuild's report, and facts of the new manifest.

    Raises:
        IntegrityError: rows were lost, or the rebuilt corpus holds other documents.
    """
    directory, manifest = session.directory, session.manifest
    with session.narrator.progress("rebuild the corpus", manifest.documents_count) as advance:
        report = rebuild(manifest, revision, directory.rebuilt, advance=advance)
    child = build_manifest(
        [str(directory.rebuilt)],
        directory.rebuilt_manifest,
        id_column="id",
        source_column="source",
    )
    if child.documents_count != report.rows_out:
        raise IntegrityError(
            f"the rebuilt corpus holds {child.documents_count} documents, the rebuild wrote "
            f"{report.rows_out}"
        )
    plan = replace(session.plan, fingerprint=child.fingerprint)
    with ShardLoader(child, plan, batch=session.scale.batch) as loader:
        batch = next(loader)
    incident.attach("rebuild", report.to_json(), actor=ACTOR)
    write_report(incident, session.run, commands=_commands(session), state="filed")
    session.narrator.say(
        f"rebuilt: {report.rows_in} rows in = {report.rows_out} out + {report.removed} removed; "
        f"indexed as {child.fingerprint[:12]} and loaded"
    )
    facts = {"fingerprint": child.fingerprint, "documents": child.documents_count}
    return report, {**facts, "loaded_tokens": int(batch.target_tokens)}
