"""The acts of the response, each safe to repeat after a crash between any two of its writes.

Every function checks the order first, then writes, then records the event that makes it count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...loader.cursor import Cursor, Mode
from ...loader.errors import IncidentError
from ...loader.formats import canonical_json
from .resume import Resume, read_resume, write_resume
from .revisions import load_revision, publish_revision
from .rewind import RewindPlan
from .watchplan import Series, WatchPlan, WatchResult, evaluate_watch

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ...loader.revision import Revision
    from ...loader.run import Run
    from .incident import Event, Incident
    from .window import Window

Json = Mapping[str, Any]


def confirm(
    incident: Incident,
    *,
    verdict: str,
    checklist: Json,
    actor: str,
    panels: Json | None = None,
    pictures: Mapping[str, bytes] | None = None,
    accept: str | None = None,
) -> Event:
    """Store the checklist and frozen panels; only "confirmed" or `accept` moves the incident on.

    Args:
        verdict: what the checklist came to: confirmed, unconfirmed, insufficient, …
        checklist: its items, as JSON.
        panels: the series that were looked at, as JSON.
        pictures: PNG panels by name.
        accept: why a person goes on without the verdict "confirmed".
    """
    incident.check("confirm")
    ok = verdict == "confirmed" or accept is not None
    files = {
        name: incident.store(name, data, ".png") for name, data in sorted((pictures or {}).items())
    }
    return incident.record(
        "confirm" if ok else "attempt",
        actor=actor,
        summary={"verdict": verdict, "accepted": accept},
        evidence={"checklist": checklist, "panels": panels or {}},
        files=files,
    )


def identify(incident: Incident, window: Window, *, actor: str) -> Event:
    """Store what the window ate, beside its controls."""
    incident.check("identify")
    return incident.record(
        "identify",
        actor=actor,
        summary={
            "first": window.first,
            "last": window.last,
            "documents": window.documents.num_rows,
            "shards": len(window.shards),
            "unusual": window.unusual,
        },
        evidence={"window": window.to_json()},
    )


def rewind(incident: Incident, run: Run, plan: RewindPlan, *, actor: str) -> Event:
    """Write the pending orders and move the run's head to the plan's checkpoint.

    Raises:
        IncidentError: out of order, or another rewind was begun and not finished.
    """
    incident.check("rewind")
    begun = incident.last("intent")
    if begun is None:
        incident.record(
            "intent",
            actor=actor,
            summary={"step": plan.checkpoint.step, "piece": plan.checkpoint.piece},
            evidence={"plan": plan.to_json()},
        )
    else:
        _refuse_other_plan(incident, begun, plan)
    cursor = _in_force(run, plan)
    write_resume(
        run.path,
        Resume(
            incident=incident.id,
            round=incident.case().round,
            checkpoint=plan.checkpoint,
            cursor=cursor,
        ),
    )
    _move_head(run, plan, cursor, incident.id)
    return incident.record(
        "rewind",
        actor=actor,
        summary={
            "step": plan.checkpoint.step,
            "piece": plan.checkpoint.piece,
            "steps_lost": plan.steps_lost,
            "revision": cursor.revision,
        },
        evidence={"plan": plan.to_json()},
    )


def skip(
    incident: Incident,
    run: Run,
    manifest: Manifest,
    *,
    actor: str,
    no_skip: str | None = None,
) -> Revision:
    """Publish the revision the decision log amounts to, and record it.

    Args:
        no_skip: why nothing is left out (the cause is not the data); no revision is published.

    Raises:
        IncidentError: out of order, or no decision leaves anything new out.
    """
    incident.check("skip")
    in_force = incident.require("rewind").summary["revision"]
    old = load_revision(run.path, in_force, manifest=manifest.fingerprint)
    revision = old if no_skip else publish_revision(run.path, manifest)
    if not no_skip and revision.digest == old.digest:
        raise IncidentError(
            f"no decision leaves out anything that revision {old.number} does not: quarantine or "
            "skip what the window ate, or say why nothing is skipped"
        )
    incident.record(
        "skip",
        actor=actor,
        summary={
            "revision": revision.number,
            "digest": revision.digest,
            "documents": int(revision.documents.size),
            "skips": len(revision.skips),
            "no_skip": no_skip,
        },
    )
    return revision


def resume(
    incident: Incident,
    run: Run,
    *,
    actor: str,
    watch: WatchPlan | None,
    mode: Mode | None = None,
    learning_rate_factor: float = 1.0,
    clip_factor: float = 1.0,
) -> Resume:
    """Make the orders final: the trainer's next start loads them.

    Raises:
        IncidentError: out of order, or a trainer has gone on from the rewind without orders.
    """
    incident.check("resume")
    plan = rewind_plan(incident)
    skipped = incident.require("skip").summary
    number = skipped["revision"]
    cursor = replace(
        Cursor.from_json(plan.checkpoint.cursor),
        revision=number,
        revision_digest=skipped["digest"] if number else None,
    )
    if mode is not None:
        cursor = replace(cursor, mode=mode)
    orders = Resume(
        incident=incident.id,
        round=incident.case().round,
        checkpoint=plan.checkpoint,
        cursor=cursor,
        ready=True,
        learning_rate_factor=learning_rate_factor,
        clip_factor=clip_factor,
        watch=watch,
        no_skip=skipped["no_skip"],
    )
    current = read_resume(run.path)
    if current is None or current.id != orders.id:
        _move_head(run, plan, cursor, incident.id, expect=True)
        orders = write_resume(run.path, orders)
    incident.record(
        "resume",
        actor=actor,
        summary={
            "step": plan.checkpoint.step,
            "revision": number,
            "orders": orders.id,
            "watch": watch.describe() if watch else None,
        },
        evidence={"orders": orders.to_json()},
    )
    return orders


def watch(
    incident: Incident,
    signals: Mapping[str, Series],
    *,
    actor: str,
    plan: WatchPlan | None = None,
) -> WatchResult:
    """Judge the resumed run by the watch plan of the orders; a recurrence reopens the incident.

    Args:
        signals: values by step of the new branch, at least those of the plan.
        plan: an edited plan, or None for the one in the orders.

    Raises:
        IncidentError: out of order, or there is no plan.
    """
    incident.check("watch")
    plan = plan or watch_plan(incident)
    result = evaluate_watch(plan, signals)
    incident.record(
        "note" if result.verdict == "running" else "watch",
        actor=actor,
        summary={"verdict": result.verdict, "reason": result.reason, "seen_to": result.seen_to},
        evidence={"watch": {"plan": plan.to_json(), "result": result.to_json()}},
    )
    if result.verdict == "recurrence":
        incident.record("reopen", actor=actor, summary={"reason": result.reason})
    return result


def leave(
    incident: Incident, act: str, *, actor: str, reason: str, evidence: Json | None = None
) -> Event:
    """Take a legal exit (dismiss, recover, not-data, escalate) or `reopen`, with the reason."""
    incident.check(act)
    if not reason.strip():
        raise IncidentError(f"{act} needs a reason")
    return incident.record(
        act,
        actor=actor,
        summary={"reason": reason},
        evidence={"evidence": evidence} if evidence else None,
    )


def rewind_plan(incident: Incident) -> RewindPlan:
    """Return the plan of this round's rewind; IncidentError when there is none."""
    return RewindPlan.from_json(incident.evidence(incident.require("rewind"), "plan"))


def watch_plan(incident: Incident) -> WatchPlan:
    """Return the watch plan in this round's orders; IncidentError when there is none."""
    orders = incident.evidence(incident.require("resume"), "orders")
    if not orders["watch"]:
        raise IncidentError(f"{incident.id} was resumed without a watch plan; give one")
    return WatchPlan.from_json(orders["watch"])


def _refuse_other_plan(incident: Incident, begun: Event, plan: RewindPlan) -> None:
    if canonical_json(incident.evidence(begun, "plan")) != canonical_json(plan.to_json()):
        raise IncidentError(
            f"a rewind of {incident.id} to step {begun.summary['step']} was begun and not "
            f"finished; finish it before you rewind to step {plan.checkpoint.step}"
        )


def _move_head(
    run: Run, plan: RewindPlan, cursor: Cursor, incident_id: str, *, expect: bool = False
) -> None:
    """Move the head to the checkpoint unless it is there; with `expect`, refuse if it went on."""
    head = run.head()
    target = (plan.checkpoint.piece, plan.checkpoint.step)
    at_target = head is not None and (head.piece, head.step) == target
    if expect and not at_target:
        raise IncidentError(
            f"the run's head should stand at step {target[1]} of branch piece {target[0]}, where "
            f"{incident_id} left it, and stands at {head and (head.piece, head.step)}: a trainer "
            "was started in between; stop it, reopen the incident and rewind again"
        )
    if at_target and head is not None and head.revision == cursor.revision:
        return
    run.move_head(
        piece=plan.checkpoint.piece,
        step=plan.checkpoint.step,
        cursor=cursor,
        revision=cursor.revision,
        reason=f"rewind {incident_id}",
    )


def _in_force(run: Run, plan: RewindPlan) -> Cursor:
    """Return the checkpoint's cursor with the newest revision the run has been under.

    A second rewind may go back to before the first skip; what was left out stays left out.
    """
    where = f"the cursor of checkpoint {plan.checkpoint.path}"
    cursor = Cursor.from_json(plan.checkpoint.cursor, where=where)
    head = run.head()
    if head is None or head.revision <= cursor.revision:
        return cursor
    revision = load_revision(run.path, head.revision, manifest=run.fingerprint)
    return replace(cursor, revision=revision.number, revision_digest=revision.digest)
