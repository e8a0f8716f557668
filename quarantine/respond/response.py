"""The acts of the response, each safe to repeat after a crash between any two of its writes.

Every function checks the order first, then writes, then records the event that makes it count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...loader.cursor import Cursor, Mode
from ...loader.errors import IncidentError
from ...loader.files import exclusive_lock
from ...loader.formats import canonical_json
from .exits import reopen
from .orders import (
    LOCK,
    begun_rewind,
    check_rewind,
    check_undecided,
    in_force,
    move_head,
    under_revision,
    unrecorded,
    with_heads,
)
from .passed import store_passed
from .resume import Resume, write_resume
from .revisions import check_tombstones, load_revision, publish_revision
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
    evaluations: Json | None = None,
) -> Event:
    """Store the checklist and frozen panels; only "confirmed" or `accept` moves the incident on.

    Args:
        verdict: what the checklist came to: confirmed, unconfirmed, insufficient, …
        checklist: its items, as JSON.
        panels: the series that were looked at, as JSON.
        pictures: PNG panels by name.
        accept: why a person goes on without the verdict "confirmed".
        evaluations: what the healthy checkpoint and the scene were evaluated as.
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
        evidence={
            "checklist": checklist,
            "panels": panels or {},
            **({"evaluations": evaluations} if evaluations else {}),
        },
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

    A refusal writes nothing.

    Raises:
        IncidentError: out of order, another rewind is not finished or not decided, or the
            checkpoint is no longer in the run's history.
    """
    incident.check("rewind")
    with exclusive_lock(run.path / LOCK):
        check_rewind(run, incident, plan)
        _begin(incident, run, plan, actor)
        orders = Resume(
            incident=incident.id,
            round=incident.case().round,
            checkpoint=plan.checkpoint,
            cursor=in_force(run, plan),
        )
        write_resume(run.path, with_heads(run, orders))
        move_head(run, orders)
        return incident.record(
            "rewind",
            actor=actor,
            summary={
                "step": plan.checkpoint.step,
                "piece": plan.checkpoint.piece,
                "steps_lost": plan.steps_lost,
                "revision": orders.cursor.revision,
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
        DecisionError: what is left in is gone from the rebuilt corpus.
    """
    incident.check("skip")
    in_force = incident.require("rewind").summary["revision"]
    old = load_revision(run.path, in_force, manifest=manifest.fingerprint)
    revision = old if no_skip else publish_revision(run.path, manifest)
    check_tombstones(manifest, revision)
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
    # Last, since the response must not wait for an aid to go on after an interrupt.
    store_passed(run, manifest, revision)
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

    Final orders of this round that a crash left unrecorded are taken up as they stand.

    Raises:
        IncidentError: out of order, or a trainer has gone on from the rewind without orders.
    """
    incident.check("resume")
    with exclusive_lock(run.path / LOCK):
        check_undecided(run, incident)
        orders = unrecorded(incident, run)
        if orders is None:
            orders = _final(
                incident,
                watch=watch,
                mode=mode,
                learning_rate_factor=learning_rate_factor,
                clip_factor=clip_factor,
            )
            move_head(run, orders, expect=True)
            orders = write_resume(run.path, with_heads(run, orders))
        incident.record(
            "resume",
            actor=actor,
            summary={
                "step": orders.checkpoint.step,
                "revision": orders.cursor.revision,
                "orders": orders.id,
                "watch": orders.watch.describe() if orders.watch else None,
            },
            evidence={"orders": replace(orders, heads=0).to_json()},
        )
    return orders


def _final(
    incident: Incident,
    *,
    watch: WatchPlan | None,
    mode: Mode | None,
    learning_rate_factor: float,
    clip_factor: float,
) -> Resume:
    """Return the final orders that this round's rewind and skip come to."""
    plan, skipped = rewind_plan(incident), incident.require("skip").summary
    cursor = Cursor.from_json(plan.checkpoint.cursor)
    cursor = under_revision(cursor, skipped["revision"], skipped["digest"])
    return Resume(
        incident=incident.id,
        round=incident.case().round,
        checkpoint=plan.checkpoint,
        cursor=cursor if mode is None else replace(cursor, mode=mode),
        ready=True,
        learning_rate_factor=learning_rate_factor,
        clip_factor=clip_factor,
        watch=watch,
        no_skip=skipped["no_skip"],
    )


def watch(
    incident: Incident,
    signals: Mapping[str, Series],
    *,
    actor: str,
    plan: WatchPlan | None = None,
    final: bool = False,
) -> WatchResult:
    """Judge the resumed run by the watch plan of the orders; a recurrence reopens the incident.

    The new round is about the recurrence: its steps, on the branch that the run is on now.

    Args:
        signals: values by step of the new branch, at least those of the plan.
        plan: an edited plan, or None for the one in the orders.
        final: the run is over, so that no more will be seen.

    Raises:
        IncidentError: out of order, there is no plan, or the run ended and nothing was seen.
    """
    incident.check("watch")
    plan = plan or watch_plan(incident)
    result = evaluate_watch(plan, signals, final=final)
    incident.record(
        "note" if result.verdict == "running" else "watch",
        actor=actor,
        summary={"verdict": result.verdict, "reason": result.reason, "seen_to": result.seen_to},
        evidence={"watch": {"plan": plan.to_json(), "result": result.to_json()}},
    )
    if result.verdict == "recurrence":
        reopen(
            incident,
            actor=actor,
            reason=result.reason,
            onset=result.onset,
            detected=result.detected,
        )
    return result


def rewind_plan(incident: Incident) -> RewindPlan:
    """Return the plan of this round's rewind; IncidentError when there is none."""
    return RewindPlan.from_json(incident.evidence(incident.require("rewind"), "plan"))


def watch_plan(incident: Incident) -> WatchPlan:
    """Return the watch plan in this round's orders; IncidentError when there is none."""
    orders = incident.evidence(incident.require("resume"), "orders")
    if not orders["watch"]:
        raise IncidentError(f"{incident.id} was resumed without a watch plan; give one")
    return WatchPlan.from_json(orders["watch"])


def _begin(incident: Incident, run: Run, plan: RewindPlan, actor: str) -> None:
    """Record what is about to be done, once; refuse another plan than the one that was begun."""
    begun = begun_rewind(incident, run)
    if begun is None:
        incident.record(
            "intent",
            actor=actor,
            summary={"step": plan.checkpoint.step, "piece": plan.checkpoint.piece},
            evidence={"plan": plan.to_json()},
        )
    elif canonical_json(incident.evidence(begun, "plan")) != canonical_json(plan.to_json()):
        raise IncidentError(
            f"a rewind of {incident.id} to step {begun.summary['step']} was begun and not "
            f"finished; finish it before you rewind to step {plan.checkpoint.step}"
        )
