"""Phases 6 and 7: go back to the last healthy checkpoint, then see whether the spike returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...loader.cursor import Cursor
from ...loader.errors import IntegrityError, SupersededCursor
from ...loader.stream import ShardLoader
from ..diagnose.events import Event
from ..diagnose.monitor import Monitor
from ..ledger import Ledger
from ..respond import response
from ..respond.checkpoints import journalled_checkpoints
from ..respond.incident import Incident
from ..respond.rewind import RewindPlan, plan_rewind
from .session import ACTOR, Session, by_step, signals
from .training import train


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The same batches from the same checkpoint again: what came back, and how exactly."""

    piece: int
    first: int
    last: int
    recurred: bool
    bitwise: bool

    def to_json(self) -> dict[str, Any]:
        """Return the trial as the report lists it."""
        return {
            "kind": "replay",
            "piece": self.piece,
            "first": self.first,
            "last": self.last,
            "recurred": self.recurred,
            "bitwise": self.bitwise,
        }


def rewind(session: Session, incident: Incident, event: Event, last_step: int) -> RewindPlan:
    """Move the run's head to the newest checkpoint that is surely older than the onset."""
    plan = plan_rewind(
        journalled_checkpoints(session.run),
        session.run.lineage(),
        onset=event.onset,
        head_step=last_step,
        margin=session.scale.margin,
    )
    response.rewind(incident, session.run, plan, actor=ACTOR)
    passed = "; ".join(f"step {one.step}: {why}" for one, why in plan.passed_over)
    session.narrator.say(
        f"rewound to step {plan.checkpoint.step}, {plan.steps_lost} steps back ({passed})"
    )
    return plan


def refused_latest(session: Session) -> str:
    """Load the superseded latest checkpoint, as a requeued job would; return the refusal.

    Raises:
        IntegrityError: it was not refused.
    """
    latest = journalled_checkpoints(session.run)[-1]
    trainer = session.trainer()
    cursor = Cursor.from_json(trainer.load(session.directory.checkpoints / latest.path))
    try:
        ShardLoader(
            session.manifest,
            session.plan,
            run=session.run,
            batch=session.scale.batch,
            cursor=cursor,
        ).close()
    except SupersededCursor as error:
        session.narrator.say(f"the latest checkpoint, step {latest.step}, is refused: {error}")
        return str(error)
    raise IntegrityError(
        f"the checkpoint of step {latest.step} was loaded although the head has left it behind"
    )


def replay(session: Session, plan: RewindPlan, last_step: int) -> int:
    """Train the lost steps again on a trial branch; return its branch piece."""
    trainer = session.trainer()
    cursor = Cursor.from_json(trainer.load(session.directory.checkpoints / plan.checkpoint.path))
    loader = ShardLoader(
        session.manifest,
        session.plan,
        run=session.run,
        batch=session.scale.batch,
        cursor=cursor,
        reason="trial",
    )
    todo = last_step - plan.checkpoint.step
    with loader, session.narrator.progress("replay on a trial branch", todo) as advance:
        train(
            trainer,
            loader,
            until=last_step,
            heldout=session.heldout,
            checkpoints=None,
            monitor=None,
            advance=advance,
        )
    assert loader.piece is not None
    return loader.piece


def judge_replay(session: Session, ledger: Ledger, piece: int, plan: RewindPlan) -> Replay:
    """Compare the trial with the run, both as the ledger has them."""
    original = plan.checkpoint.piece
    first = plan.checkpoint.step + 1
    names = ("loss", "grad_norm")
    then = {n: by_step(s, first) for n, s in signals(ledger, *names, branch=original).items()}
    now = {n: by_step(s, first) for n, s in signals(ledger, *names, branch=piece).items()}
    series = signals(ledger, *names, branch=piece)
    monitor = Monitor(session.monitor)
    norms = by_step(series["grad_norm"])
    for step, loss in by_step(series["loss"]).items():
        monitor.update(step, loss=loss, grad_norm=norms.get(step))
    result = Replay(
        piece=piece,
        first=first,
        last=max(now["loss"]),
        recurred=any(page.onset >= first for page in monitor.pages),
        bitwise=now == then,
    )
    came = "the spike came back" if result.recurred else "the spike did not come back"
    same = "with the same losses, bit for bit" if result.bitwise else "with other losses"
    session.narrator.say(
        f"steps {first} to {result.last} again from the checkpoint: {came}, {same}"
    )
    return result
