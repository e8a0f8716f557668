"""What a drill came to: the object of `shardward drill --json`, as `schemas/drill.v1.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...loader.formats import canonical_json, sha256_hex
from ..ledger import Ledger
from ..respond.decisions import DecisionLog
from .finding import Found
from .prepare import Corpus
from .responding import Response
from .score import Score
from .session import Session

LEDGER_QUERIES = (
    "SELECT step, piece, rank, sample_position, doc, token_start, token_count FROM segments "
    "ORDER BY piece, step, rank, sample_position, doc, token_start",
    "SELECT step, piece, rank, name, value FROM signals ORDER BY piece, step, rank, name",
)


def digests(session: Session, ledger: Ledger, found: Found | None) -> dict[str, str]:
    """Return SHA-256 digests of ledger, findings and decisions, times and paths left out.

    Two drills with one seed and one corpus digest have the same.
    """
    tables = [ledger.sql(query).to_pydict() for query in LEDGER_QUERIES]
    findings: dict[str, Any] = {"suspects": [], "hits": []}
    if found is not None:
        findings = {
            "suspects": [suspect.to_json() for suspect in found.suspects],
            "hits": [hit.to_json() for hit in found.hits],
            "acquittals": [asdict(one) for one in found.acquittals],
        }
    decisions = [
        {
            "action": entry.decision.action,
            "scope": entry.decision.scope.to_json(),
            "reason": entry.decision.reason,
            "evidence": dict(entry.decision.evidence),
        }
        for entry in DecisionLog(session.run.path).entries()
    ]
    named = {"ledger": tables, "findings": findings, "decisions": decisions}
    return {name: sha256_hex(canonical_json(value)) for name, value in named.items()}


def base(session: Session, corpus: Corpus, *, salted: bool) -> dict[str, Any]:
    """Return the part of the result that every drill has."""
    placement = corpus.placement
    return {
        "seed": session.seed,
        "salted": salted,
        "steps": session.steps,
        "scale": asdict(session.scale),
        "corpus": {
            "digest": corpus.digest,
            "documents": corpus.documents,
            "bytes": corpus.bytes,
            "shards": corpus.shards,
            "blocks": len(placement.blocks),
            "sources": list(session.manifest.source_names),
        },
        "manifest": session.manifest.fingerprint,
        "plan": session.plan.plan_id,
        "placement": {
            "block": placement.bad_block,
            "first_step": placement.first_step,
            "last_step": placement.last_step,
        }
        if salted
        else None,
    }


def paths(session: Session, extra: Mapping[str, Path]) -> dict[str, str]:
    """Return where everything lies, by name."""
    directory = session.directory
    named = {
        "corpus": directory.corpus,
        "manifest": directory.manifest,
        "run": directory.run,
        "ledger": directory.run / "ledger.duckdb",
        "checkpoints": directory.checkpoints,
        **extra,
    }
    return {name: str(path) for name, path in named.items()}


def next_commands(
    session: Session, *, incident: str | None, step: int, branch: int | None = None
) -> list[str]:
    """Return what a curious person would type next; `branch` is the piece that spiked."""
    run, manifest = session.directory.run, session.directory.manifest
    where = "" if branch is None else f" --branch {branch}"
    commands = [
        f"shardward ledger step {step}{where} --run {run}",
        f"shardward ledger check --run {run}",
        f"shardward corpus show --manifest {manifest}",
    ]
    if incident is None:
        return [*commands, "shardward drill"]
    return [
        f"shardward incident show {incident} --run {run}",
        *commands,
        f"shardward quarantine list --run {run}",
        f"shardward quarantine log --run {run}",
    ]


def incident_facts(response: Response) -> dict[str, Any]:
    """Return one response as an entry of `incidents`."""
    looked, rewound, removed = response.looked, response.rewound, response.removed
    resumed, closed, found = response.resumed, response.closed, removed.found
    return {
        "id": looked.incident.id,
        "state": looked.incident.case().state,
        "outcome": closed.filed.report["outcome"],
        "event": looked.event.to_json(),
        "checklist": looked.checklist.to_json(),
        "window": {
            "first": looked.window.first,
            "last": looked.window.last,
            "documents": looked.window.documents.num_rows,
            "shards": sorted(looked.window.shards),
        },
        "rewind": {
            "step": rewound.plan.checkpoint.step,
            "steps_lost": rewound.plan.steps_lost,
        },
        "refusal": rewound.refusal,
        "replay": rewound.replay.to_json(),
        "found": {
            "suspects": len(found.suspects),
            "culprits": len(found.culprits),
            "relatives": len(found.documents) - len(found.culprits),
            "acquitted": len(found.acquittals),
        },
        "shards": removed.shards,
        "revision": {
            "number": removed.revision.number,
            "digest": removed.revision.digest,
            "documents": int(removed.revision.documents.size),
        },
        "orders": removed.orders.id,
        "proof": resumed.proof.to_json(),
        "watch": resumed.watch.to_json(),
        "resumed_page": resumed.stretch.page and resumed.stretch.page.to_json(),
        "causes": [{"name": cause.name, "score": cause.score} for cause in closed.causes],
    }


def solved(
    session: Session, response: Response, *, score: Score | None, problems: int
) -> dict[str, Any]:
    """Return the part of the result that a drill with an incident has."""
    closed, resumed = response.closed, response.resumed
    files = {path.name.replace(".", "_"): path for path in closed.filed.paths}
    healthy = not problems and resumed.watch.verdict == "clear" and resumed.stretch.page is None
    return {
        "incidents": [incident_facts(response)],
        "rebuild": {
            "rows_in": closed.rebuild.rows_in,
            "rows_out": closed.rebuild.rows_out,
            "removed": closed.rebuild.removed,
            **closed.child,
        },
        "score": None if score is None else score.to_json(),
        "problems": problems,
        "passed": healthy and score is not None and score.passed,
        "paths": paths(session, {**files, "rebuilt": session.directory.rebuilt}),
        "next": next_commands(
            session,
            incident=response.looked.incident.id,
            step=response.looked.event.onset,
            branch=response.rewound.plan.checkpoint.piece,
        ),
    }


def clean(session: Session, *, last_step: int, problems: int) -> dict[str, Any]:
    """Return the part of the result that a drill without an incident has."""
    return {
        "incidents": [],
        "rebuild": None,
        "score": None,
        "problems": problems,
        "passed": not problems,
        "paths": paths(session, {}),
        "next": next_commands(session, incident=None, step=last_step),
    }
