"""The drill from end to end, in thirteen phases, through public interfaces alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...loader.errors import IncidentError
from ...loader.run import Run
from ...loader.stream import ShardLoader
from ..diagnose.events import Event
from ..diagnose.monitor import Monitor
from ..ledger import Ledger
from ..respond import response
from . import closing, finding, investigate, prepare, recovery, result, rewinding
from .directory import Directory, claim
from .heldout import heldout_tokens
from .narrator import Narrator
from .scale import Scale
from .score import score
from .session import Session
from .trainer import reproducible
from .training import Stretch, train

TITLES = (
    "corpus", "index", "train", "confirm", "identify", "rewind", "replay",
    "find", "quarantine", "resume", "watch", "file", "rebuild",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Clock:
    """Announces phases and keeps the seconds that each took."""

    directory: Directory
    narrator: Narrator
    facts: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, title: str) -> Iterator[None]:
        self.directory.note(title, self.facts)
        self.narrator.phase(TITLES.index(title) + 1, title)
        began = time.monotonic()
        yield
        self.seconds[title] = round(time.monotonic() - began, 2)


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
        UsageError: `out` holds something.
        CorpusError: text that cannot be read, or too little of it.
        IncidentError: the salted run did not spike, or no other signal agreed.
        IntegrityError: a proof from the record failed.
    """
    scale = scale or Scale()
    directory = claim(out)
    clock = _Clock(directory=directory, narrator=narrator, facts={"seed": seed, "salted": salted})
    with reproducible(scale.threads):
        session, made = _prepare(clock, scale, seed=seed, corpus=corpus, salted=salted)
        with clock.phase("train"):
            stretch = _train(session, made)
        facts = result.base(session, made, salted=salted)
        if stretch.page is not None:
            facts |= _respond(session, clock, stretch.page, stretch.last_step, salted=salted)
        elif salted:
            raise IncidentError(
                f"the monitor saw nothing in {stretch.last_step} steps, although a block of junk "
                f"was due at step {made.placement.first_step}; this corpus is as hard to learn as "
                "the junk, so try another one"
            )
        else:
            facts |= _clean(session, stretch)
    directory.note("done", clock.facts)
    return {**facts, "seconds": clock.seconds}


def _prepare(
    clock: _Clock, scale: Scale, *, seed: int, corpus: str | None, salted: bool
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
        problems = ledger.check()
        digests = result.digests(session, ledger, None)
    session.narrator.say(f"{stretch.last_step} steps, no page, {len(problems)} problems on record")
    return {
        "incidents": [],
        "problems": len(problems),
        "digests": digests,
        "passed": not problems,
        "paths": result.paths(session, {}),
        "next": result.next_commands(session, incident=None, step=stretch.last_step),
    }


def _respond(
    session: Session, clock: _Clock, event: Event, last_step: int, *, salted: bool
) -> dict[str, Any]:
    """Phases 4 to 13: from the page to the rebuilt corpus."""
    incident = investigate.open_incident(session, event)
    session.narrator.say(
        f"{incident.id}: a {event.kind} from step {event.onset}, paged at step {event.detected}, "
        f"loss {event.peak:.2f} over a trend of {event.baseline:.2f}"
    )
    with Ledger.open(session.run) as ledger:
        with clock.phase("confirm"):
            checklist = investigate.confirm_event(session, ledger, incident, event)
        with clock.phase("identify"):
            last = investigate.window_last(event, last_step)
            window = investigate.identify_window(session, ledger, incident, event, last)
    with clock.phase("rewind"):
        plan = rewinding.rewind(session, incident, event, last_step)
        refusal = rewinding.refused_latest(session)
    with clock.phase("replay"):
        trial = rewinding.replay(session, plan, last_step)
        with Ledger.open(session.run) as ledger:
            replayed = rewinding.judge_replay(session, ledger, trial, plan)
    with Ledger.open(session.run) as ledger:
        with clock.phase("find"):
            found = finding.find(session, ledger, window)
            finding.attach_suspects(session, incident, found)
        with clock.phase("quarantine"):
            finding.quarantine(session, incident, found)
            shards = finding.audit_shards(session, incident, found)
            revision = response.skip(incident, session.run, session.manifest, actor="drill")
            session.narrator.say(
                f"revision {revision.number} leaves out {revision.documents.size} documents"
            )
        orders = recovery.order_resume(session, ledger, incident, event, plan)
    with clock.phase("resume"):
        piece, stretch = recovery.resume(session)
        with Ledger.open(session.run) as ledger:
            proof = recovery.prove_resume(
                session, ledger, incident, revision, piece=piece, plan=plan
            )
    with Ledger.open(session.run) as ledger:
        with clock.phase("watch"):
            watched = recovery.watch(session, ledger, incident, piece)
        with clock.phase("file"):
            causes = closing.attach_causes(
                session,
                ledger,
                incident,
                event=event,
                window=window,
                found=found,
                trial=replayed,
                recurred=watched.verdict == "recurrence",
            )
            branches = [("original", plan.checkpoint.piece), ("replay", trial), ("resumed", piece)]
            closing.attach_curves(session, ledger, incident, branches)
            filed = closing.file_incident(session, incident)
        with clock.phase("rebuild"):
            report, child = closing.rebuild_corpus(session, incident, revision)
        problems = ledger.check()
        digests = result.digests(session, ledger, found)
    scored = score(session.manifest, found, session.directory.truth)
    files = {path.name.replace(".", "_"): path for path in filed.paths}
    return {
        "incidents": [
            {
                "id": incident.id,
                "state": incident.case().state,
                "outcome": filed.report["outcome"],
                "event": event.to_json(),
                "checklist": checklist.to_json(),
                "window": {
                    "first": window.first,
                    "last": window.last,
                    "documents": window.documents.num_rows,
                    "shards": sorted(window.shards),
                },
                "rewind": {"step": plan.checkpoint.step, "steps_lost": plan.steps_lost},
                "refusal": refusal,
                "replay": replayed.to_json(),
                "found": {
                    "suspects": len(found.suspects),
                    "culprits": len(found.culprits),
                    "relatives": len(found.documents) - len(found.culprits),
                },
                "shards": shards,
                "revision": {
                    "number": revision.number,
                    "digest": revision.digest,
                    "documents": int(revision.documents.size),
                },
                "orders": orders.id,
                "proof": proof.to_json(),
                "watch": watched.to_json(),
                "resumed_pages": 0 if stretch.page is None else 1,
                "causes": [{"name": cause.name, "score": cause.score} for cause in causes],
            }
        ],
        "rebuild": {
            "rows_in": report.rows_in,
            "rows_out": report.rows_out,
            "removed": report.removed,
            **child,
        },
        "score": scored.to_json() if salted else None,
        "problems": len(problems),
        "digests": digests,
        "passed": salted and scored.passed and not problems and watched.verdict == "clear",
        "paths": result.paths(session, {**files, "rebuilt": session.directory.rebuilt}),
        "next": result.next_commands(session, incident=incident.id, step=event.onset),
    }
