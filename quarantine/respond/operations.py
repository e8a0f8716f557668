"""What the commands of the response work out before an act: defaults a person would choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...loader.cursor import Cursor
from ...loader.errors import IncidentError
from ..diagnose.config import MonitorConfig
from ..diagnose.events import Event
from ..diagnose.monitor import detect
from ..diagnose.series import Series
from .checkpoints import ledger_checkpoints
from .decisions import DecisionLog
from .response import rewind_plan
from .rewind import RewindPlan, plan_rewind
from .selection import skip_scope
from .status import Decision
from .telemetry import by_step, event_of
from .watchplan import WatchPlan, generate_watch_plan

if TYPE_CHECKING:
    from ...loader.run import Run
    from ..ledger.ledger import Ledger
    from .incident import Incident

HISTORY_STEPS = 400


def newest_page(series: Mapping[str, Series], *, short_run: bool = False) -> Event:
    """Return the newest event of the monitor that calls a person.

    Raises:
        IncidentError: nothing pages in these signals.
    """
    steps = int(series["loss"].steps.max()) if "loss" in series else 0
    config = MonitorConfig.for_short_run(steps) if short_run and steps else None
    pages = [event for event in detect(series, config) if event.page]
    if not pages:
        raise IncidentError(
            "the monitor pages nothing in these signals; name the steps with --onset, or try "
            "--short-run for a run of a few hundred steps"
        )
    return pages[-1]


def choose_rewind(
    incident: Incident,
    run: Run,
    ledger: Ledger,
    *,
    margin: int = 0,
    checkpoint: int | None = None,
) -> RewindPlan:
    """Return the plan of the rewind; one that was begun before a crash is taken up as it was.

    Args:
        margin: steps to stay clear of the onset.
        checkpoint: go back to the checkpoint of this step and to no other.

    Raises:
        IncidentError: no checkpoint fits.
    """
    begun = incident.last("intent")
    if begun is not None:
        return RewindPlan.from_json(incident.evidence(begun, "plan"))
    known = ledger_checkpoints(ledger)
    return plan_rewind(
        [c for c in known if checkpoint is None or c.step == checkpoint],
        run.lineage(),
        onset=event_of(incident).onset,
        head_step=ledger.last_step(),
        margin=margin,
    )


def where_it_stands(run: Run, ledger: Ledger) -> tuple[Cursor, int | None]:
    """Return the cursor after the last recorded step of the head's history, and its batch."""
    head = run.head()
    cursor = Cursor(plan_id=run.plan_id) if head is None else Cursor.from_json(head.cursor)
    last = ledger.last_step()
    rows = ledger.steps(last, last).to_pylist() if last else []
    if not rows or last <= cursor.step:
        return cursor, None
    row = rows[-1]
    moved = replace(cursor, step=last, epoch=row["epoch"], position=row["end_position"])
    return moved, row["samples"]


def window_skip(
    incident: Incident, run: Run, ledger: Ledger, *, first: int, last: int, actor: str
) -> Decision:
    """Return the decision to pass over, once, the positions of steps on the rewound branch.

    Raises:
        NotFound: a step is not recorded there.
    """
    piece = branch_before(incident, run)
    rows: list[dict[str, Any]] = ledger.steps(first, last, piece).to_pylist()
    return Decision(
        action="skip",
        scope=skip_scope(rows, plan_id=run.plan_id, first=first, last=last),
        reason=f"the window of {incident.id}",
        actor=actor,
        incident=incident.id,
    )


def append_once(log: DecisionLog, decision: Decision) -> None:
    """Append `decision` unless the log has the very same of the same incident already."""
    known = [e.decision for e in log.entries() if e.decision.incident == decision.incident]
    if not any((d.action, d.scope) == (decision.action, decision.scope) for d in known):
        log.append(decision)


def default_watch_plan(
    incident: Incident, series: Mapping[str, Series], *, length: int
) -> WatchPlan:
    """Return the watch plan that the healthy steps before the onset and the checkpoint give."""
    step = rewind_plan(incident).checkpoint.step
    onset = event_of(incident).onset
    before = {
        name: {s: v for s, v in values.items() if onset - HISTORY_STEPS <= s < onset}
        for name, values in by_step(series).items()
    }
    return generate_watch_plan(before, resume_step=step, length=length)


def branch_of_spike(incident: Incident, run: Run) -> int | None:
    """Return the branch piece that spiked, before or after the rewind; None without a head."""
    if incident.last("rewind") is not None:
        return branch_before(incident, run)
    head = run.head()
    return None if head is None else head.piece


def branch_before(incident: Incident, run: Run) -> int:
    """Return the branch piece that the head stood in before the rewind."""
    target = rewind_plan(incident).checkpoint
    pieces = [head.piece for head in run.heads()]
    reasons = [head.reason for head in run.heads()]
    for index in range(len(pieces) - 1, 0, -1):
        if reasons[index] == f"rewind {incident.id}" and reasons[index - 1] != reasons[index]:
            return pieces[index - 1]
    return target.piece
