"""What the commands of the response work out before an act: defaults a person would choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...loader.cursor import Cursor
from ...loader.errors import IncidentError, NotFound
from ..diagnose.config import MonitorConfig
from ..diagnose.events import Event as Page
from ..diagnose.replay import detect
from ..diagnose.series import Series
from .checkpoints import ledger_checkpoints, start_of, without_lost
from .decisions import DecisionLog
from .orders import begun_rewind
from .response import rewind_plan
from .revisions import load_revision
from .rewind import Checkpoint, RewindPlan, plan_rewind
from .selection import skip_scope
from .status import Decision
from .telemetry import by_step, event_of
from .watchplan import WatchPlan, generate_watch_plan

if TYPE_CHECKING:
    from ...loader.run import Run
    from ..ledger.ledger import Ledger
    from .incident import Event, Incident

HISTORY_STEPS = 400
FEWEST_POINTS = 16
SHORTEST_RUN = 64


def newest_page(
    series: Mapping[str, Series],
    *,
    short_run: bool = False,
    announced: Mapping[int, str] | None = None,
) -> Page:
    """Return the newest event of the monitor that calls a person; `announced` as for `detect`.

    Raises:
        IncidentError: nothing pages in these signals.
    """
    if "loss" not in series:
        raise IncidentError("no loss was logged, so nothing pages; name the steps with --onset")
    steps = int(series["loss"].steps.max())
    if short_run and steps < SHORTEST_RUN:
        raise IncidentError(
            f"{steps} steps are too few for the monitor, it needs {SHORTEST_RUN}; name the steps "
            "with --onset"
        )
    config = MonitorConfig.for_short_run(steps) if short_run else None
    pages = [event for event in detect(series, config, announced=announced) if event.page]
    if not pages:
        raise IncidentError(
            "the monitor pages nothing in these signals; name the steps with --onset, or try "
            "--short-run for a run of a few hundred steps"
        )
    return pages[-1]


def check_reached(run: Run, last: int, onset: int) -> None:
    """Refuse an onset after the `last` step that the run's history has recorded.

    Raises:
        NotFound: it is; a run without any record may be younger than what its logs say.
    """
    if 0 < last < onset:
        raise NotFound(
            f"step {onset} is not recorded in {run.path}, which goes to step {last}; name a step "
            "of it, or the log that has it with --log"
        )


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
    begun = begun_rewind(incident, run)
    if begun is not None:
        plan = RewindPlan.from_json(incident.evidence(begun, "plan"))
        _refuse_other(incident, plan, margin, checkpoint)
        return plan
    known, start = without_lost(ledger_checkpoints(ledger)), start_of(run)
    if checkpoint is not None:
        known = _named([*([] if start is None else [start]), *known], checkpoint)
    return plan_rewind(
        known,
        run.lineage(),
        onset=event_of(incident).onset,
        head_step=ledger.last_step(),
        margin=margin,
        start=start if checkpoint in (None, 0) else None,
    )


def _refuse_other(
    incident: Incident, plan: RewindPlan, margin: int, checkpoint: int | None
) -> None:
    step = plan.checkpoint.step
    if margin not in (0, plan.margin) or checkpoint not in (None, step):
        raise IncidentError(
            f"a rewind of {incident.id} to step {step} with margin {plan.margin} was begun and not "
            f"finished; run incident rewind {incident.id} without --checkpoint and --margin, then "
            "reopen the incident to rewind elsewhere"
        )


def _named(known: Sequence[Checkpoint], step: int) -> list[Checkpoint]:
    """Return the checkpoints of `step`, without the start, which `plan_rewind` takes by itself."""
    found = [c for c in known if c.step == step]
    if not found:
        steps = ", ".join(str(c.step) for c in known[-12:])
        raise IncidentError(
            f"the run's history has no checkpoint of step {step}; it has {steps or 'none'}"
        )
    return [c for c in found if c.step > 0]


def where_it_stands(run: Run, ledger: Ledger) -> tuple[Cursor, int | None]:
    """Return the cursor after the last recorded step of the head's history, and its batch."""
    head = run.head()
    cursor = Cursor(plan_id=run.plan_id) if head is None else Cursor.from_json(head.cursor)
    last = ledger.last_step()
    rows = ledger.steps(last, last).to_pylist() if last else []
    if not rows:
        return cursor, None
    row = rows[-1]
    if last <= cursor.step:
        return cursor, row["samples"]
    moved = replace(cursor, step=last, epoch=row["epoch"], position=row["end_position"])
    return moved, row["samples"]


def window_skip(
    incident: Incident, run: Run, ledger: Ledger, *, first: int, last: int, actor: str
) -> Decision:
    """Return the decision to pass over, once, the positions of steps on the branch that spiked.

    Raises:
        NotFound: a step is not recorded there.
    """
    piece = branch_of_spike(incident, run)
    rows: list[dict[str, Any]] = ledger.steps(first, last, piece).to_pylist()
    return Decision(
        action="skip",
        scope=skip_scope(rows, plan_id=run.plan_id, first=first, last=last),
        reason=f"the window of {incident.id}",
        actor=actor,
        incident=incident.id,
    )


def skipped_so(run: Run, done: Event, window: Decision | None, *, no_skip: str | None) -> bool:
    """Return whether the recorded skip `done` is what the same words would do now.

    Args:
        run: that it is of.
        done: the act.
        window: a decision of `window_skip` that was asked for.
        no_skip: why nothing was to be left out.
    """
    if done.summary["no_skip"] != no_skip:
        return False
    log = DecisionLog(run.path, manifest=run.fingerprint)
    if window is not None and log.standing(window) is None:
        return False
    revision = load_revision(run.path, done.summary["revision"], manifest=run.fingerprint)
    newer = log.entries()[revision.decisions_count :]
    return no_skip is not None or all(e.decision.action == "suspect" for e in newer)


def default_watch_plan(
    incident: Incident, series: Mapping[str, Series], *, length: int, trend: int = HISTORY_STEPS
) -> WatchPlan:
    """Return the watch plan that the healthy steps before the onset and the checkpoint give.

    Args:
        incident: rewound.
        series: the telemetry of the branch that spiked.
        length: steps to watch.
        trend: steps before the onset that are learnt from.
    """
    step = rewind_plan(incident).checkpoint.step
    onset = event_of(incident).onset
    before = {name: _recent(values, onset, trend) for name, values in by_step(series).items()}
    return generate_watch_plan(before, resume_step=step, length=length)


def _recent(values: Mapping[int, float], onset: int, trend: int) -> dict[int, float]:
    """Return the steps shortly before the onset, or the last few of a log with few rows."""
    steps = sorted(step for step in values if step < onset)
    near = [step for step in steps if step >= onset - trend]
    return {step: values[step] for step in max(near, steps[-FEWEST_POINTS:], key=len)}


def branch_of_spike(incident: Incident, run: Run) -> int | None:
    """Return the branch piece that spiked, before or after the rewind; None without a head."""
    piece: int | None = incident.opening().summary.get("piece")
    if piece is not None:
        return piece
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
