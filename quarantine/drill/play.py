"""The drill from end to end, in thirteen phases, through public interfaces alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...loader.errors import IncidentError
from ...loader.files import full_disk_named
from ...loader.run import Run
from ...loader.stream import ShardLoader
from ..diagnose.events import Event
from ..diagnose.monitor import Monitor
from ..ledger import Ledger
from . import prepare, result
from .clock import Clock
from .directory import Directory, claim
from .heldout import heldout_tokens
from .narrator import Narrator
from .responding import respond
from .scale import Scale
from .score import score
from .session import Session
from .trainer import reproducible
from .training import Stretch, train


def play(
    narrator: Narrator,
    *,
    out: Path | None = None,
    seed: int = 0,
    corpus: str | None = None,
    salted: bool = True,
    scale: Scale | None = None,
) -> dict[str, Any]:
    """Play a whole drill and return its result, as `schemas/drill.v1.json` describes it.

    Args:
        narrator: hears what happens.
        out: an empty or new directory; None takes the next free one under `drill-out`.
        seed: of salt, placement, order and weights.
        corpus: path or glob of someone's own text; None uses what this machine holds.
        salted: False plays the control, a clean run without an incident.
        scale: sizes; None is the scale that fits three minutes on two cores.

    Raises:
        Busy: another drill is running in `out`.
        UsageError: `out` holds something.
        OSError: as the system says; a full disk names `out`.
        CorpusError: text that cannot be read, or too little of it.
        IncidentError: the salted run did not spike, or no other signal agreed.
        IntegrityError: a proof from the record failed.
    """
    scale = scale or Scale()
    with claim(out) as directory, full_disk_named(directory.path):
        return _play(narrator, directory, scale, seed=seed, corpus=corpus, salted=salted)


def _play(
    narrator: Narrator,
    directory: Directory,
    scale: Scale,
    *,
    seed: int,
    corpus: str | None,
    salted: bool,
) -> dict[str, Any]:
    facts = {"seed": seed, "salted": salted}
    clock = Clock(directory=directory, narrator=narrator, facts=facts)
    with reproducible(scale.threads):
        session, made = _prepare(clock, scale, seed=seed, corpus=corpus, salted=salted)
        with clock.phase("train"):
            stretch = _train(session, made)
        if salted and stretch.page is None:
            raise _no_page(stretch, made)
        ending = (
            _clean(session, stretch)
            if stretch.page is None
            else _respond(session, clock, stretch.page, stretch.last_step, salted=salted)
        )
    clock.done()
    return {**result.base(session, made, salted=salted), **ending, "seconds": clock.seconds}


def _no_page(stretch: Stretch, made: prepare.Corpus) -> IncidentError:
    return IncidentError(
        f"the monitor saw nothing in {stretch.last_step} steps, although a block of junk was due "
        f"at step {made.placement.first_step}; this corpus is as hard to learn as the junk, so "
        "try another one"
    )


def _prepare(
    clock: Clock, scale: Scale, *, seed: int, corpus: str | None, salted: bool
) -> tuple[Session, prepare.Corpus]:
    directory, narrator = clock.directory, clock.narrator
    with clock.phase("corpus"):
        texts = prepare.collect(corpus)
        made = prepare.write_corpus(texts, directory, scale=scale, seed=seed, salted=salted)
        narrator.say(
            f"{made.documents} documents, {made.bytes / 1e6:.1f} MB of text in {made.shards} "
            f"Parquet shards; digest {made.digest[:12]}"
        )
    with clock.phase("index"):
        manifest = prepare.index(directory)
        tokenizer = manifest.header.tokenizer
        assert tokenizer.separator is not None
        plan = scale.plan(
            fingerprint=manifest.fingerprint,
            seed=seed,
            separator=tokenizer.separator,
            pad=tokenizer.pad,
        )
        narrator.say(f"manifest {manifest.fingerprint[:12]}, plan {plan.plan_id[:12]}")
    run = Run.create(
        directory.run,
        plan=plan,
        manifest_path=directory.manifest,
        run_id=f"drill-{seed}",
        context={"drill": {"seed": seed, "salted": salted}},
    )
    session = Session(
        directory=directory,
        scale=scale,
        seed=seed,
        steps=made.placement.steps,
        manifest=manifest,
        plan=plan,
        run=run,
        heldout=heldout_tokens(manifest, plan),
        narrator=narrator,
    )
    _tell_scale(session)
    return session, made


def _tell_scale(session: Session) -> None:
    monitor = session.monitor
    shown = {
        **asdict(session.scale),
        "steps": session.steps,
        **{f"monitor {name}": value for name, value in asdict(monitor).items()},
    }
    session.narrator.table("this drill's own small scale", ("what", "value"), list(shown.items()))


def _train(session: Session, made: prepare.Corpus) -> Stretch:
    loader = ShardLoader(session.manifest, session.plan, run=session.run, batch=session.scale.batch)
    with loader, session.narrator.progress("train", session.steps) as advance:
        prepare.check_placement(loader, made)
        return train(
            session.trainer(),
            loader,
            until=session.steps,
            heldout=session.heldout,
            checkpoints=session.directory.checkpoints,
            monitor=Monitor(session.monitor),
            advance=advance,
        )


def _clean(session: Session, stretch: Stretch) -> dict[str, Any]:
    with Ledger.open(session.run) as ledger:
        problems = len(ledger.check())
        digests = result.digests(session, ledger, None)
    session.narrator.say(f"{stretch.last_step} steps, no page, {problems} problems on record")
    facts = result.clean(session, last_step=stretch.last_step, problems=problems)
    return {**facts, "digests": digests}


def _respond(
    session: Session, clock: Clock, event: Event, last_step: int, *, salted: bool
) -> dict[str, Any]:
    response = respond(session, clock, event, last_step)
    found = response.removed.found
    with Ledger.open(session.run) as ledger:
        problems = len(ledger.check())
        digests = result.digests(session, ledger, found)
    scored = score(session.manifest, found, session.directory.truth) if salted else None
    return {
        **result.solved(session, response, score=scored, problems=problems),
        "digests": digests,
    }
