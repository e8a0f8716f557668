"""Phases 4 to 13, from the page to the rebuilt corpus, in the order of the response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...loader.errors import IncidentError
from ...loader.revision import Revision
from ..diagnose.causes import Cause
from ..diagnose.confirm import Checklist
from ..diagnose.events import Event
from ..ledger import Ledger
from ..respond import response
from ..respond.filing import Filed
from ..respond.incident import Incident
from ..respond.proof import Proof
from ..respond.rebuild_report import RebuildReport
from ..respond.resume import Resume
from ..respond.rewind import RewindPlan
from ..respond.watchplan import WatchResult
from ..respond.window import Window
from . import closing, finding, investigate, recovery, rewinding
from .clock import Clock
from .finding import Found
from .rewinding import Replay
from .session import ACTOR, Session
from .training import Stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The page, what other signals say, and what the run ate."""

    event: Event
    incident: Incident
    checklist: Checklist
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """Where the run went back to, how the superseded checkpoint was refused, what a replay did."""

    plan: RewindPlan
    refusal: str
    replay: Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was found, which shards need a look, what is left out, and the orders to go on."""

    found: Found
    shards: list[dict[str, Any]]
    revision: Revision
    orders: Resume


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The new branch, its proof from the record, and how the watch ended."""

    piece: int
    stretch: Stretch
    proof: Proof
    watch: WatchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The filed report, the causes in it, and the rebuilt corpus."""

    filed: Filed
    causes: list[Cause]
    rebuild: RebuildReport
    child: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A whole response."""

    looked: Looked
    rewound: Rewound
    removed: Removed
    resumed: Resumed
    closed: Closed


def respond(session: Session, clock: Clock, event: Event, last_step: int) -> Response:
    """Respond to `event` of a run that was stopped after `last_step`.

    Raises:
        IncidentError: no other signal agrees with the loss, or nothing was found to leave out.
        IntegrityError: a proof from the record failed.
    """
    looked = _look(session, clock, event, last_step)
    rewound = _rewind(session, clock, looked, last_step)
    removed = _remove(session, clock, looked, rewound)
    resumed = _resume(session, clock, looked, rewound, removed)
    closed = _close(
        session, clock, looked=looked, rewound=rewound, removed=removed, resumed=resumed
    )
    return Response(looked=looked, rewound=rewound, removed=removed, resumed=resumed, closed=closed)


def _look(session: Session, clock: Clock, event: Event, last_step: int) -> Looked:
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
    return Looked(event=event, incident=incident, checklist=checklist, window=window)


def _rewind(session: Session, clock: Clock, looked: Looked, last_step: int) -> Rewound:
    with clock.phase("rewind"):
        plan = rewinding.rewind(session, looked.incident, looked.event, last_step)
        refusal = rewinding.refused_latest(session)
    with clock.phase("replay"):
        piece = rewinding.replay(session, plan, last_step)
        with Ledger.open(session.run) as ledger:
            replay = rewinding.judge_replay(session, ledger, piece, plan)
    return Rewound(plan=plan, refusal=refusal, replay=replay)


def _remove(session: Session, clock: Clock, looked: Looked, rewound: Rewound) -> Removed:
    incident = looked.incident
    with Ledger.open(session.run) as ledger:
        with clock.phase("find"):
            found = finding.find(session, ledger, looked.window)
            finding.attach_suspects(session, incident, found)
        with clock.phase("quarantine"):
            finding.quarantine(session, incident, found)
            shards = finding.audit_shards(session, incident, found)
            revision = response.skip(incident, session.run, session.manifest, actor=ACTOR)
            session.narrator.say(
                f"revision {revision.number} leaves out {revision.documents.size} documents"
            )
            orders = recovery.order_resume(session, ledger, incident, looked.event, rewound.plan)
    return Removed(found=found, shards=shards, revision=revision, orders=orders)


def _resume(
    session: Session, clock: Clock, looked: Looked, rewound: Rewound, removed: Removed
) -> Resumed:
    with clock.phase("resume"):
        piece, stretch = recovery.resume(session)
        with Ledger.open(session.run) as ledger:
            proof = recovery.prove_resume(
                session,
                ledger,
                looked.incident,
                removed.revision,
                piece=piece,
                plan=rewound.plan,
            )
    with clock.phase("watch"), Ledger.open(session.run) as ledger:
        watch = recovery.watch(session, ledger, looked.incident, piece)
    return Resumed(piece=piece, stretch=stretch, proof=proof, watch=watch)


def _close(
    session: Session,
    clock: Clock,
    *,
    looked: Looked,
    rewound: Rewound,
    removed: Removed,
    resumed: Resumed,
) -> Closed:
    incident, original = looked.incident, rewound.plan.checkpoint.piece
    if resumed.watch.verdict == "recurrence":
        raise IncidentError(
            f"the spike came back after the quarantine ({resumed.watch.reason}), so the incident "
            f"is open again and nothing is filed: see 'shardward incident page {incident.id} "
            f"--run {session.run.path}'"
        )
    with clock.phase("file"), Ledger.open(session.run) as ledger:
        causes = closing.attach_causes(
            session,
            ledger,
            incident,
            event=looked.event,
            window=looked.window,
            found=removed.found,
            replay=rewound.replay,
            recurred=resumed.watch.verdict == "recurrence",
        )
        branches = {
            "original": original,
            "replay": rewound.replay.piece,
            "resumed": resumed.piece,
        }
        closing.attach_curves(session, ledger, incident, branches)
        filed = closing.file_incident(session, incident)
    with clock.phase("rebuild"):
        rebuilt, child = closing.rebuild_corpus(session, incident, removed.revision)
    return Closed(filed=filed, causes=causes, rebuild=rebuilt, child=child)
