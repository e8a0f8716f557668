"""Phases 10 and 11: skip and resume, prove it from the record, watch what follows."""

from __future__ import annotations

from ...loader.errors import IncidentError, IntegrityError
from ...loader.order import Layout
from ...loader.revision import Revision
from ...loader.stream import ShardLoader
from ..diagnose.events import Event
from ..diagnose.monitor import Monitor
from ..ledger import Ledger
from ..respond import response
from ..respond.incident import Incident
from ..respond.proof import Proof, prove
from ..respond.proof_source import corpus_tokens, ledger_steps
from ..respond.resume import Resume
from ..respond.resume import resume as take_orders
from ..respond.rewind import RewindPlan
from ..respond.watchplan import WatchResult, generate_watch_plan
from .session import ACTOR, Session, by_step, signals
from .training import Stretch, train

TREND_STEPS = 60
WATCHED = ("loss", "grad_norm")


def order_resume(
    session: Session, ledger: Ledger, incident: Incident, event: Event, plan: RewindPlan
) -> Resume:
    """Write the orders for the trainer's next start, with a watch over the trend before."""
    trend = {
        name: by_step(series, event.onset - TREND_STEPS, event.onset - 1)
        for name, series in signals(ledger, *WATCHED, branch=plan.checkpoint.piece).items()
    }
    watch = generate_watch_plan(
        trend, resume_step=plan.checkpoint.step, length=session.scale.watch, signals=WATCHED
    )
    session.narrator.say(watch.describe())
    return response.resume(incident, session.run, actor=ACTOR, watch=watch)


def resume(session: Session) -> tuple[int, Stretch]:
    """Start the trainer as its own restart would: take the orders, load, train to the end.

    Returns:
        The new branch piece, and how the stretch went.

    Raises:
        IncidentError: nobody ordered a resume.
    """
    orders = take_orders(session.run)
    if orders is None:
        raise IncidentError("there are no orders to resume; run the steps before")
    trainer = session.trainer()
    trainer.load(session.directory.checkpoints / orders.checkpoint.path)
    trainer.clip_norm *= orders.clip_factor
    trainer.scale_learning_rate(orders.learning_rate_factor)
    loader = ShardLoader(
        session.manifest,
        session.plan,
        run=session.run,
        batch=session.scale.batch,
        cursor=orders.cursor,
        reason="rewind",
    )
    todo = session.steps - orders.checkpoint.step
    with loader, session.narrator.progress("train the resumed run", todo) as advance:
        stretch = train(
            trainer,
            loader,
            until=session.steps,
            heldout=session.heldout,
            checkpoints=session.directory.checkpoints,
            monitor=Monitor(session.monitor),
            advance=advance,
        )
    assert loader.piece is not None
    return loader.piece, stretch


def prove_resume(
    session: Session,
    ledger: Ledger,
    incident: Incident,
    revision: Revision,
    *,
    piece: int,
    plan: RewindPlan,
) -> Proof:
    """Prove from the ledger that the hole is a hole and nothing else moved.

    Raises:
        IntegrityError: a statement does not hold.
    """
    first = plan.checkpoint.step + 1
    manifest = session.manifest
    proof = prove(
        ledger_steps(ledger, piece, first),
        piece=piece,
        layout=Layout(session.plan, manifest.geometry(), manifest.lengths),
        revision=revision,
        before=ledger_steps(ledger, plan.checkpoint.piece, first),
        tokens=corpus_tokens(manifest),
    )
    incident.attach("proof", proof.to_json(), actor=ACTOR)
    session.narrator.table(
        f"proved from the ledger: steps {proof.first} to {proof.last} of branch piece {piece}",
        ("statement", "holds", "checked"),
        [(check.name, "yes" if check.holds else "NO", check.checked) for check in proof.checks],
    )
    if not proof.holds:
        broken = next(check for check in proof.checks if not check.holds)
        raise IntegrityError(f"the resumed run fails its proof: {broken.name}: {broken.note}")
    return proof


def watch(session: Session, ledger: Ledger, incident: Incident, piece: int) -> WatchResult:
    """Judge the resumed run by the watch plan in its orders."""
    series = signals(ledger, *WATCHED, branch=piece)
    values = {name: by_step(each) for name, each in series.items()}
    result = response.watch(incident, values, actor=ACTOR)
    session.narrator.say(f"watch: {result.verdict}; {result.reason}")
    return result
