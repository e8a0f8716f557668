"""The phases of looking: page, confirm, identify, and whether the spike comes back."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from ...loader.cursor import Cursor
from ...loader.errors import IncidentError, IntegrityError, SupersededCursor
from ..respond.checkpoints import journalled_checkpoints
from ..respond.narrative import count
from .incident import Led
from .narrator import SHOWN, shown
from .shell import ACTOR
from .stage import Stage

BEFORE = 3
"""Steps before the onset that belong to the window."""
PAGED = 3
"""Exit code of a monitor that pages."""


def confirm(stage: Stage) -> dict[str, Any]:
    """Let the monitor judge the log, open the incident of its page, and ask the other signals.

    Raises:
        IncidentError: nothing pages, or the checklist does not confirm the event.
    """
    page = stage.page
    checked = monitor_check(stage, "train")
    opened = _opened(stage)
    led, onset = stage.led(opened["id"]), opened["onset"]
    pages = [event for event in checked["events"] if event["page"]]
    if not pages:
        raise IncidentError(
            f"{led.id} is open from step {onset}, but the log of the run pages nothing"
        )
    event = min(pages, key=lambda page: abs(page["onset"] - onset))
    stage.narrator.say(
        f"{led.id}: a {event['kind']} from step {onset}, paged at step {event['step']} (the "
        f"trainer saw it at step {page['step']}), loss {event['peak']:.2f} over a trend of "
        f"{event['baseline']:.2f}"
    )
    checklist = led.act("confirm") or led.stored("confirm", "checklist")
    checklist = {name: checklist[name] for name in ("verdict", "items")}
    _show_checklist(stage, checklist)
    if checklist["verdict"] != "confirmed":
        raise IncidentError(
            f"{led.id} stays {checklist['verdict']}: the loss moved at step {onset} and no "
            "other signal says so; look at the panels, then confirm or dismiss it by hand"
        )
    return {"id": led.id, "event": event, "checklist": checklist}


def monitor_check(stage: Stage, name: str) -> dict[str, Any]:
    """Write the log of the run's history to NAME.csv and return what the monitor says of it."""
    log = stage.directory.path / f"{name}.csv"
    log.unlink(missing_ok=True)  # of a start before this one
    stage.shell.ask(
        "ledger", "export", "--table", "telemetry_wide", "--format", "csv", "--out", str(log),
        *stage.run,
    )  # fmt: skip
    return stage.shell.ask("monitor", "check", str(log), "--short-run", ok=(0, PAGED))


def _opened(stage: Stage) -> dict[str, Any]:
    """Return the incident's id and onset; it is opened unless a start before this one did."""
    known = stage.shell.ask("incident", "list", *stage.run)["incidents"] if stage.again else []
    if known:
        opened: dict[str, Any] = known[0]
        return opened
    return stage.shell.ask("incident", "open", "--short-run", *stage.run, "--actor", ACTOR, "--yes")


def _show_checklist(stage: Stage, checklist: dict[str, Any]) -> None:
    words = {True: "yes", False: "no", None: "cannot say"}
    stage.narrator.table(
        f"do other signals agree? {checklist['verdict']}",
        ("signal", "agrees", "in the event", "before", "note"),
        [
            (i["signal"], words[i["agrees"]], i["value"], i["baseline"], i["note"])
            for i in checklist["items"]
        ],
    )


def identify(stage: Stage) -> dict[str, Any]:
    """Record what the steps around the onset were fed, beside control windows."""
    event, led = stage.state.result("confirm")["event"], stage.incident
    first = max(1, event["onset"] - BEFORE)
    last = _last(event, stage.state.result("train")["last_step"])
    found = led.act("identify", "--steps", f"{first}-{last}")
    window = found["window"] if found else led.stored("identify", "window")
    documents = window["documents"]
    names = ("doc", "id", "shard", "row", "tokens", "first_step", "last_step")
    rows = list(zip(*(documents[name] for name in names), strict=True))
    stage.narrator.table(
        f"steps {first} to {last}: {window['samples']} samples, {window['segments']} segments, "
        f"{count(len(window['shards']), 'shard')}, documents: {shown(len(rows))}",
        (*names[:5], "steps"),
        [(*row[:5], f"{row[5]}-{row[6]}") for row in rows[:SHOWN]],
    )
    odd = [each["name"] for each in window["comparisons"] if each["unusual"]]
    stage.narrator.say(
        f"beside {len(window['controls'])} control windows: "
        + (f"unusual {', '.join(odd)}" if odd else "nothing unusual")
    )
    return {
        "first": first,
        "last": last,
        "documents": len(rows),
        "shards": sorted(window["shards"]),
        "controls": len(window["controls"]),
        "unusual": odd,
    }


def _last(event: dict[str, Any], last_step: int) -> int:
    """Return the last step of the event that was recorded."""
    end = event["recovered_step"]
    return last_step if end is None else min(last_step, max(end - 1, event["step"]))


def rewind(stage: Stage) -> dict[str, Any]:
    """Move the run's head to the newest checkpoint that is surely older than the onset."""
    led = stage.incident
    done = led.act("rewind", "--margin", str(stage.scale.margin))
    plan = done["plan"] if done else led.stored("rewind", "plan")
    step, lost = plan["checkpoint"]["step"], plan["steps_lost"]
    passed = "; ".join(f"step {each['step']}: {each['why']}" for each in plan["passed_over"])
    stage.narrator.say(f"rewound to step {step}, {lost} steps back ({passed})")
    return {"step": step, "steps_lost": lost, "refusal": _refused_latest(stage)}


def _refused_latest(stage: Stage) -> str:
    """Load the superseded latest checkpoint, as a requeued job would; return the refusal.

    Raises:
        IntegrityError: it was not refused.
    """
    session = stage.session
    latest = journalled_checkpoints(session.run)[-1]
    loaded = session.trainer().load(session.directory.checkpoints / latest.path)
    try:
        session.loader(cursor=Cursor.from_json(loaded.cursor), reason="restart").close()
    except SupersededCursor as error:
        stage.narrator.say(f"the latest checkpoint, step {latest.step}, is refused: {error}")
        return str(error)
    raise IntegrityError(
        f"the checkpoint of step {latest.step} was loaded although the head has left it behind"
    )


def replay(stage: Stage) -> dict[str, Any]:
    """Train the lost steps again on a trial branch, with the drill's trainer as a command."""
    led = stage.incident
    trial = _stored_trial(led) if led.again else None
    if trial is None:
        words = [sys.executable, "-m", "shardward.quarantine.drill.trial"]
        template = shlex.join([*words, str(stage.directory.path.resolve())])
        trial = stage.shell.ask(
            "incident", "trial", led.id, "--command", f"{template} {{spec}} {{metrics}}",
            *stage.run, "--actor", ACTOR, "--yes",
        )  # fmt: skip
    came = "the spike came back" if trial["recurred"] else "the spike did not come back"
    same = "with the same losses, bit for bit" if trial["bitwise"] else "with other losses"
    stage.narrator.say(
        f"steps {trial['first']} to {trial['last']} again from the checkpoint: {came}, {same}"
    )
    return {
        "kind": "replay",
        "piece": _trial_piece(stage),
        "first": trial["first"],
        "last": trial["last"],
        "recurred": trial["recurred"],
        "bitwise": bool(trial["bitwise"]),
    }


def _stored_trial(led: Led) -> dict[str, Any] | None:
    trials: list[dict[str, Any]] = (led.attached("trials") or {}).get("trials", [])
    return trials[-1] if trials else None


def _trial_piece(stage: Stage) -> int:
    """Return the branch piece of the newest trial; one that was cut short is older."""
    pieces = stage.shell.ask("ledger", "timeline", *stage.run)["rows"]
    return max(int(each["piece"]) for each in pieces if each["reason"] == "trial")
