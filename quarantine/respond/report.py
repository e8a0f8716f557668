"""The postmortem as one JSON object, put together from what the incident stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from ...loader.errors import FormatError
from ...schemas import load_schema
from . import reproduce
from .decisions import DecisionLog, entry_json
from .machine import EXITS
from .narrative import count, narrative

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Event, Incident

ATTACHMENTS = ("suspects", "causes", "trials", "proof", "rebuild", "curves", "lessons", "impact")
_SENTENCES = {
    "open": "a {kind} from step {onset}, detected at step {detected}",
    "attempt": "the checklist came to {verdict}",
    "confirm": "the checklist came to {verdict}",
    "identify": "steps {first} to {last} were fed {fed}",
    "intent": "about to go back to step {step} of branch piece {piece}",
    "rewind": "the head moved to step {step} of branch piece {piece}, {steps_lost} steps back",
    "skip": "revision {revision} leaves out {documents} documents and {skips} ranges",
    "resume": "orders {orders} from step {step} under revision {revision}",
    "watch": "{verdict} at step {seen_to}, {reason}",
    "file": "filed as {outcome}",
}
LESSONS = (
    "What went well: to be filled in.",
    "What went badly: to be filled in.",
    "Where we were lucky: to be filled in.",
)


def build_report(
    incident: Incident,
    run: Run,
    *,
    commands: Sequence[str] = (),
    state: str | None = None,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Return `incident.json` as an object that its schema accepts.

    `commands` are added to the ones that reproduce the numbers of the report; `state` is what
    the incident will be once the report is filed.

    Raises:
        IntegrityError: evidence was edited.
        FormatError: an attachment is not what the schema says.
    """
    report = {
        "format": "shardward.incident",
        "version": 1,
        "id": incident.id,
        "run_id": run.run_id,
        "created": (now or datetime.now(UTC)).isoformat(timespec="seconds"),
        "state": state or incident.case().state,
        "round": incident.case().round,
        "outcome": outcome(incident),
        "timeline": [_timeline(event) for event in incident.events()],
        "detection": _detection(incident, run),
        "decisions": _decisions(incident),
        "decision_log": DecisionLog(run.path).head().to_json(),
        "actions": _actions(incident),
        "commands": [*reproduce.commands(incident, run), *commands],
        **_steps(incident),
        **_attachments(incident),
    }
    report |= narrative(report)
    validate(report, "incident.v1", f"the report of {incident.id}")
    return report


def _detection(incident: Incident, run: Run) -> dict[str, Any]:
    first, event = incident.events()[0], incident.opening()
    opened = event.summary
    return {
        "kind": opened["kind"],
        "onset": opened["onset"],
        "detected": opened["detected"],
        "delay_steps": opened["detected"] - opened["onset"],
        "event": incident.evidence(event, "event"),
        "context": {**run.context, **incident.evidence(first, "context")},
    }


def _steps(incident: Incident) -> dict[str, Any]:
    """Return the evidence of the response's steps, None where one was not done."""
    return {
        "confirm": _confirm(incident),
        "window": _evidence(incident, "identify", "window"),
        "rewind": _evidence(incident, "rewind", "plan"),
        "skip": _summary_of(incident, "skip"),
        "resume": _evidence(incident, "resume", "orders"),
        "watch": _evidence(incident, "watch", "watch"),
    }


def _attachments(incident: Incident) -> dict[str, Any]:
    """Return what was stored beside the steps."""
    attached = {name: incident.attached(name) for name in ATTACHMENTS}
    return {
        "impact": _impact(incident, attached["impact"]),
        "causes": (attached["causes"] or {}).get("causes", []),
        "trials": (attached["trials"] or {}).get("trials", []),
        "suspects": (attached["suspects"] or {}).get("suspects", []),
        "proof": attached["proof"],
        "rebuild": attached["rebuild"],
        "curves": attached["curves"] or {"branches": []},
        "lessons": (attached["lessons"] or {}).get("lessons", list(LESSONS)),
    }


def validate(value: object, schema: str, where: str) -> None:
    """Refuse `value` unless the schema accepts it.

    Raises:
        FormatError: naming the first place that differs.
    """
    error = next(iter(Draft202012Validator(load_schema(schema)).iter_errors(value)), None)
    if error is not None:
        raise FormatError(
            f"{where} does not fit {schema} at {error.json_path}: {error.message[:300]}"
        )


def outcome(incident: Incident) -> str:
    """Return how the incident ended, in one word or two."""
    for event in reversed(incident.events()):
        if event.act in EXITS:
            return EXITS[event.act]
        if event.act == "watch":
            verdict = str(event.summary["verdict"])
            return "resolved" if verdict == "clear" else verdict
        if event.act == "reopen":
            break
    return "open"


def _impact(incident: Incident, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    rewound = _summary_of(incident, "rewind")
    base = {"steps_lost": rewound["steps_lost"] if rewound else 0}
    return {**base, **(extra or {})}


def _actions(incident: Incident) -> list[dict[str, Any]]:
    """Return what was changed, with the value before and after."""
    plan = _evidence(incident, "rewind", "plan")
    if plan is None:
        return []
    rewound = incident.require("rewind").summary
    orders = _evidence(incident, "resume", "orders") or _orders_of_exit(incident)
    actions = [_action("head of the run", f"step {plan['head_step']}", f"step {rewound['step']}")]
    if orders is not None:
        cursor = orders["cursor"]
        actions += [
            _action("revision", rewound["revision"], cursor["revision"]),
            _action("mode", plan["cursor"]["mode"], cursor["mode"]),
            _action("learning rate factor", 1.0, orders["learning_rate_factor"]),
            _action("clip factor", 1.0, orders["clip_factor"]),
        ]
    return [action for action in actions if action["before"] != action["after"]]


def _action(what: str, before: object, after: object) -> dict[str, Any]:
    return {"what": what, "before": before, "after": after}


def _timeline(event: Event) -> dict[str, Any]:
    return {
        "time": event.time,
        "act": event.act,
        "actor": event.actor,
        "round": event.round,
        "text": describe(event),
    }


def describe(event: Event) -> str:
    """Return the event as one plain sentence fragment."""
    summary = event.summary
    if event.act == "note" and "name" in summary:
        return f"stored {summary['name']}" + (f": {summary['what']}" if "what" in summary else "")
    if event.act == "note":
        return f"watched: {summary['reason']}"
    if event.act == "skip" and summary["no_skip"]:
        return f"skip: nothing, {summary['no_skip']}"
    if event.act == "identify":
        documents, shards = (count(summary[n], n[:-1]) for n in ("documents", "shards"))
        summary = {**summary, "fed": f"{documents} from {shards}"}
    if event.act in _SENTENCES:
        return f"{event.act}: {_SENTENCES[event.act].format_map(summary)}"
    text = f"{event.act}: {summary.get('reason', '')}"
    if "orders" in summary:
        text += (
            f"; the run goes on from step {summary['step']} under revision {summary['revision']}"
        )
    return text


def _confirm(incident: Incident) -> dict[str, Any] | None:
    event = incident.last("confirm") or incident.last("attempt")
    if event is None:
        return None
    checklist = incident.evidence(event, "checklist")
    return {
        "verdict": event.summary["verdict"],
        "accepted": event.summary["accepted"],
        "items": checklist.get("items", []),
    }


def _decisions(incident: Incident) -> list[dict[str, Any]]:
    entries = DecisionLog(incident.run_path).entries()
    return [entry_json(e) for e in entries if e.decision.incident == incident.id]


def _summary_of(incident: Incident, act: str) -> Mapping[str, Any] | None:
    event = incident.last(act)
    return event.summary if event else None


def _evidence(incident: Incident, act: str, name: str) -> dict[str, Any] | None:
    event = incident.last(act)
    return incident.evidence(event, name) if event else None


def _orders_of_exit(incident: Incident) -> dict[str, Any] | None:
    """Return the orders that leaving the incident made final, or None."""
    left = [event for act in EXITS if (event := incident.last(act)) and "orders" in event.evidence]
    return incident.evidence(left[-1], "orders") if left else None
