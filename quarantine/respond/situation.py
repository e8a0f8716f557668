"""The one screen for 3 a.m.: what happened, how sure, what it ate, what waiting costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...loader.errors import IncidentError
from ...loader.lineage import owner
from .checkpoints import start_of
from .narrative import count
from .operations import branch_of_spike
from .rewind import Checkpoint, plan_rewind
from .ways import next_command, other_commands

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the run goes: its last step, and the median seconds and tokens of a step."""

    step: int
    seconds: float | None
    tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What an on-call engineer needs to decide, in words and numbers.

    `next` is the command for the next step, `otherwise` the commands for what else may be done now.
    """

    id: str
    state: str
    happened: str
    sure: str
    ate: str
    bad_steps: int
    rewind_to: int | None
    rewind_steps: int | None
    waiting: str
    rewinding: str
    next: str
    otherwise: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the screen as a JSON object."""
        return asdict(self)


def pace_of(ledger: Any) -> Pace:
    """Return the pace of the head's history, from the completion times in the ledger."""
    rows = ledger.sql(
        "SELECT s.step, min(c.time_ns) AS done, any_value(s.target_tokens) AS tokens "
        "FROM effective_steps s LEFT JOIN completions c "
        "ON c.piece = s.piece AND c.step = s.step "
        "GROUP BY s.step ORDER BY s.step DESC LIMIT 50"
    ).to_pylist()
    done = [row["done"] for row in rows if row["done"] is not None]
    gaps = sorted(later - now for now, later in zip(done[1:], done, strict=False))
    tokens = sorted(row["tokens"] for row in rows)
    return Pace(
        step=ledger.last_step(),
        seconds=gaps[len(gaps) // 2] / 1e9 if gaps else None,
        tokens=tokens[len(tokens) // 2] if tokens else None,
    )


def situation(
    incident: Incident,
    run: Run,
    pace: Pace,
    checkpoints: Sequence[Checkpoint],
    *,
    spiked_to: int,
) -> Situation:
    """Return the screen for an incident of a run that goes at `pace` and has `checkpoints`.

    `spiked_to` is the last step of the branch that spiked.
    """
    opened = incident.opening().summary
    bad = max(spiked_to - opened["onset"] + 1, 0)
    target, lost = _target(incident, run, checkpoints, opened["onset"], pace.step)
    return Situation(
        id=incident.id,
        state=incident.case().state,
        happened=f"a {opened['kind']} from step {opened['onset']}, detected at step "
        f"{opened['detected']}; the run is at step {pace.step}",
        sure=_sure(incident),
        ate=_ate(incident),
        bad_steps=bad,
        rewind_to=target,
        rewind_steps=lost,
        waiting=_waiting(bad, pace, left=_left(incident, run, opened["onset"])),
        rewinding="the run has no start to go back to"
        if target is None or lost is None
        else f"going back to step {target} repeats {lost} steps{_cost(lost, pace)}",
        next=next_command(incident, run),
        otherwise=other_commands(incident, run),
    )


def _left(incident: Incident, run: Run, onset: int) -> bool:
    """Return whether the run has left the branch that spiked, in this round or before."""
    piece = branch_of_spike(incident, run)
    if piece is None:
        return False
    spiked, now = (owner(run.lineage(each), onset) for each in (piece, None))
    return spiked is None or now is None or now.piece != spiked.piece


def _waiting(bad: int, pace: Pace, *, left: bool) -> str:
    if left:
        return f"{bad} steps had been trained since the onset{_cost(bad, pace)} at the rewind"
    return (
        f"{bad} steps have been trained since the onset{_cost(bad, pace)}; every step more is "
        "lost as well if the run is rewound later"
    )


def _target(
    incident: Incident,
    run: Run,
    checkpoints: Sequence[Checkpoint],
    onset: int,
    head_step: int,
) -> tuple[int | None, int | None]:
    done = incident.last("rewind")
    if done is not None:
        return done.summary["step"], done.summary["steps_lost"]
    try:
        plan = plan_rewind(
            checkpoints,
            run.lineage(),
            onset=onset,
            head_step=head_step,
            start=start_of(run),
        )
    except IncidentError:
        return None, None
    return plan.checkpoint.step, plan.steps_lost


def _sure(incident: Incident) -> str:
    event = incident.last("confirm") or incident.last("attempt")
    if event is None:
        return "not looked at yet"
    items = incident.evidence(event, "checklist").get("items", [])
    agree = [item["signal"] for item in items if item.get("agrees")]
    known = [item for item in items if item.get("agrees") is not None]
    said = f"{event.summary['verdict']}: {len(agree)} of {len(known)} signals agree"
    return said + (f" ({', '.join(agree)})" if agree else "")


def _ate(incident: Incident) -> str:
    event = incident.last("identify")
    if event is None:
        return "not identified yet"
    window = incident.evidence(event, "window")
    shard, share = next(iter(window["shards"].items()))
    odd = [c["name"].replace("_", " ") for c in window["comparisons"] if c["unusual"]]
    said = {None: "cannot be compared", True: "unusual in " + ", ".join(odd), False: "not unusual"}
    return (
        f"{count(event.summary['documents'], 'document')} from "
        f"{count(event.summary['shards'], 'shard')}, "
        f"{share:.0%} of the tokens from {shard}; {said[window['unusual']]}"
    )


def _cost(steps: int, pace: Pace) -> str:
    parts = []
    if pace.seconds is not None:
        parts.append(_duration(steps * pace.seconds))
    if pace.tokens is not None:
        parts.append(f"{steps * pace.tokens:,.0f} tokens")
    return f" (about {', '.join(parts)})" if parts else ""


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
