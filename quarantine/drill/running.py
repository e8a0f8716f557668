"""The phases on the trainer's side: corpus, index, train, and the resumed run."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from typing import Any

from ...loader.cursor import Cursor
from ...loader.errors import IncidentError
from ...loader.records import finite_json
from ...loader.stream import ShardLoader
from ..diagnose.monitor import Monitor
from ..respond.resume import Resume, read_resume
from ..respond.resume import resume as take_orders
from . import prepare
from .session import Session
from .stage import Stage
from .trainer import Trainer
from .training import Stretch, newest_checkpoint, page_of, stop_after, train


def corpus(stage: Stage) -> dict[str, Any]:
    """Collect text, hide trouble in it if that is the cause, and write it as shards."""
    identity = stage.state.identity
    made = prepare.write_corpus(
        prepare.collect(identity.corpus),
        stage.directory,
        scale=stage.scale,
        seed=stage.seed,
        salted=identity.cause == "data",
    )
    stage.narrator.say(
        f"{made.documents} documents, {made.bytes / 1e6:.1f} MB of text in {made.shards} "
        f"Parquet shards; {made.digest[:12]} is the text before salting"
    )
    placement = made.placement
    place = {
        "block": placement.bad_block,
        "first_step": placement.first_step,
        "last_step": placement.last_step,
    }
    return {
        "digest": made.digest,
        "documents": made.documents,
        "bytes": made.bytes,
        "shards": made.shards,
        "blocks": len(placement.blocks),
        "steps": placement.steps,
        "placement": None if placement.bad_block is None else place,
        "bad_documents": made.bad_documents,
    }


def index(stage: Stage) -> dict[str, Any]:
    """Index the shards and make the run."""
    directory = stage.directory
    shutil.rmtree(directory.manifest, ignore_errors=True)  # of a start before this one
    made = stage.shell.ask(
        "corpus", "index", str(directory.corpus), "--out", str(directory.manifest),
        "--id-column", "id", "--source-column", "source",
    )  # fmt: skip
    session = stage.session
    stage.narrator.say(
        f"manifest {made['fingerprint'][:12]}, plan {session.plan.plan_id[:12]}, run "
        f"{session.run.run_id}"
    )
    _tell_scale(stage)
    return {
        "fingerprint": made["fingerprint"],
        "plan": session.plan.plan_id,
        "sources": list(session.manifest.source_names),
    }


def _tell_scale(stage: Stage) -> None:
    monitor = stage.session.monitor_config
    shown = {
        **asdict(stage.scale),
        "steps": stage.session.steps,
        **{f"monitor {name}": value for name, value in asdict(monitor).items()},
    }
    stage.narrator.table("this drill's own small scale", ("what", "value"), list(shown.items()))


def first_run(stage: Stage) -> dict[str, Any]:
    """Train until the run ends or a page stops it; go on from the newest checkpoint, if any."""
    session = stage.session
    trainer, monitor = session.trainer(), session.monitor()
    newest = newest_checkpoint(session.run)
    if newest is not None and newest.path:
        _load(session, trainer, monitor, newest.path)
        stage.narrator.say(f"the trainer goes on from its checkpoint of step {newest.step}")
    cursor = None if newest is None else Cursor.from_json(newest.cursor)
    reason = "start" if newest is None else "restart"
    return _stretch(stage, trainer, monitor, cursor=cursor, reason=reason, title="train")


def resume(stage: Stage) -> dict[str, Any]:
    """Start the trainer as its own restart would: take the orders, load, train to the end.

    Raises:
        IncidentError: nobody ordered a resume.
    """
    session = stage.session
    orders = take_orders(session.run)
    if orders is None:
        raise IncidentError("there are no orders to resume; run the steps before")
    trainer, monitor = session.trainer(), session.monitor()
    if orders.checkpoint.path:
        _load(session, trainer, monitor, orders.checkpoint.path)
    trainer.clip_norm *= orders.clip_factor
    trainer.scale_learning_rate(orders.learning_rate_factor)
    stage.narrator.say(
        f"the trainer's orders: go on from step {orders.checkpoint.step} under revision "
        f"{orders.cursor.revision}, with the learning rate times {orders.learning_rate_factor:.4g}"
    )
    facts = _stretch(
        stage,
        trainer,
        monitor,
        cursor=orders.cursor,
        reason=orders.reason,
        title="train the resumed run",
    )
    return {
        **facts,
        "orders": _given(session).id,
        "revision": orders.cursor.revision,
        "revision_digest": orders.cursor.revision_digest,
    }


def _given(session: Session) -> Resume:
    """Return the orders as the incident gave them, before a trainer went on from them."""
    orders = read_resume(session.run.path)
    assert orders is not None
    return orders


def _load(session: Session, trainer: Trainer, monitor: Monitor, path: str) -> None:
    loaded = trainer.load(session.directory.checkpoints / path)
    if loaded.monitor is not None:
        monitor.load_state_dict(loaded.monitor)


def _stretch(
    stage: Stage,
    trainer: Trainer,
    monitor: Monitor,
    *,
    cursor: Cursor | None,
    reason: str,
    title: str,
) -> dict[str, Any]:
    """Train from `cursor` to the end of the run or to the stop after a page."""
    session = stage.session
    begin = 0 if cursor is None else cursor.step
    stop = stop_after(monitor, session.steps, stage.scale.reaction)
    if begin >= stop:  # stopped after its last checkpoint, before that was written down
        return _facts(Stretch(last_step=begin, page=page_of(monitor)))
    loader = session.loader(cursor=cursor, reason=reason)
    with loader, stage.narrator.progress(title, stop - begin) as advance:
        if not begin:
            _check_placement(stage, loader)
        stretch = train(
            trainer,
            loader,
            until=session.steps,
            heldout=session.heldout,
            checkpoints=session.directory.checkpoints,
            monitor=monitor,
            advance=advance,
        )
    return _facts(stretch)


def _check_placement(stage: Stage, loader: ShardLoader) -> None:
    made = stage.state.result("corpus")
    if made["placement"] is None:
        return
    low, high = made["bad_documents"]
    first = made["placement"]["first_step"]
    prepare.check_placement(loader, first_step=first, low=low, high=high)


def _facts(stretch: Stretch) -> dict[str, Any]:
    facts: dict[str, Any] = finite_json(stretch.to_json())
    return facts
