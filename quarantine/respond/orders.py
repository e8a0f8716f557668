"""Who may write the orders of a run, and how pending ones become final.

A run has at most one rewind that is not decided: its orders stand in `resume.json`, not ready,
and no trainer starts. They become final by resume, or by leaving the incident.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...loader.cursor import Cursor
from ...loader.errors import IncidentError
from ...loader.head import Head
from ...loader.lineage import leaves_at
from .resume import Resume, check_factors, read_resume, taken_by, write_resume
from .revisions import load_revision
from .rewind import Checkpoint, RewindPlan

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Event, Incident

LOCK = "respond.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """What the trainer multiplies its learning rate and its clip threshold by."""

    learning_rate: float = 1.0
    clip: float = 1.0

    def __post_init__(self) -> None:
        check_factors(self.learning_rate, self.clip)


def given(orders: Resume) -> Factors:
    """Return the factors that `orders` hold."""
    return Factors(learning_rate=orders.learning_rate_factor, clip=orders.clip_factor)


def kept(run: Run, checkpoint: Checkpoint) -> bool:
    """Return whether the history of the run's head still leads through `checkpoint`."""
    head = run.head()
    if head is None:
        return False
    last = leaves_at(run.pieces(), head.piece, head.step, checkpoint.piece)
    return last is None or checkpoint.step <= last


def begun_rewind(incident: Incident, run: Run) -> Event | None:
    """Return the intent of a rewind of this round, unless another rewind went to before it."""
    begun = incident.last("intent")
    if begun is None:
        return None
    plan = RewindPlan.from_json(incident.evidence(begun, "plan"))
    return begun if kept(run, plan.checkpoint) else None


def check_undecided(run: Run, incident: Incident) -> None:
    """Refuse while another incident has rewound the run and has not decided what to skip.

    Raises:
        IncidentError: naming it and the ways on.
    """
    orders = read_resume(run.path)
    if orders is not None and not orders.ready and orders.incident != incident.id:
        raise IncidentError(
            f"{orders.incident} has rewound the run to step {orders.checkpoint.step} and not yet "
            f"decided what to skip; one rewind at a time: finish it (incident skip, then incident "
            f"resume {orders.incident}) or leave it, then go on with {incident.id}"
        )


def check_rewind(run: Run, incident: Incident, plan: RewindPlan) -> None:
    """Refuse a rewind that cannot be done, before anything is written.

    Raises:
        IncidentError: another rewind is undecided, the checkpoint was superseded, or another
            incident's final orders lead to it and no trainer has taken them.
    """
    check_undecided(run, incident)
    target = plan.checkpoint
    head = run.head()
    if head is None or not kept(run, target):
        raise IncidentError(
            f"the checkpoint of step {target.step} of branch piece {target.piece} is no longer in "
            f"the run's history, which stands at {head and (head.piece, head.step)}; plan the "
            "rewind again"
        )
    orders = read_resume(run.path)
    if orders is None or orders.incident == incident.id or not orders.ready:
        return
    same = (orders.checkpoint.piece, orders.checkpoint.step) == (target.piece, target.step)
    if same and (head.piece, head.step) == (target.piece, target.step) and not _taken(run, orders):
        raise IncidentError(
            f"the orders of {orders.incident} lead to that very checkpoint, step {target.step}, "
            f"and no trainer has taken them: start the trainer first, or leave {incident.id} "
            "(incident dismiss --as duplicate)"
        )


def move_head(run: Run, orders: Resume, *, expect: bool = False) -> None:
    """Move the head to the orders' checkpoint unless it is there.

    Raises:
        IncidentError: with `expect`, the head has gone on from there.
    """
    head = run.head()
    target = (orders.checkpoint.piece, orders.checkpoint.step)
    at_target = head is not None and (head.piece, head.step) == target
    if expect and not at_target:
        raise IncidentError(
            f"the run's head should stand at step {target[1]} of branch piece {target[0]}, where "
            f"{orders.incident} left it, and stands at {head and (head.piece, head.step)}: a "
            "trainer was started in between; stop it, reopen the incident and rewind again"
        )
    if _stands(head, orders):
        return
    run.move_head(
        piece=orders.checkpoint.piece,
        step=orders.checkpoint.step,
        cursor=orders.cursor,
        revision=orders.cursor.revision,
        reason=f"rewind {orders.incident}",
    )


def with_heads(run: Run, orders: Resume) -> Resume:
    """Return `orders` with how many entries the head's log has once the head is where they say."""
    heads = run.heads()
    stands = _stands(heads[-1] if heads else None, orders)
    return replace(orders, heads=len(heads) + (not stands))


def _stands(head: Head | None, orders: Resume) -> bool:
    target = (orders.checkpoint.piece, orders.checkpoint.step, orders.cursor.revision)
    return head is not None and (head.piece, head.step, head.revision) == target


def unrecorded(incident: Incident, run: Run) -> Resume | None:
    """Return final orders of this round's skip that were written and never recorded, or None.

    A crash leaves them; they are taken up as they are, since a trainer may have obeyed them.
    """
    orders, skipped = read_resume(run.path), incident.last("skip")
    if orders is None or skipped is None or not orders.ready or incident.last("resume"):
        return None
    case, summary = incident.case(), skipped.summary
    ours = (orders.incident, orders.round) == (incident.id, case.round)
    same = (orders.cursor.revision, orders.no_skip) == (summary["revision"], summary["no_skip"])
    return orders if ours and same else None


def unsettled(incident: Incident, run: Run) -> Resume | None:
    """Return final orders of `incident` that were written and that no event records, or None.

    A crash leaves them; they are taken up as they are, since a trainer may have obeyed them.
    """
    orders = read_resume(run.path)
    if orders is None or not orders.ready or orders.incident != incident.id:
        return None
    recorded = {event.summary.get("orders") for event in incident.events()}
    return None if orders.id in recorded else orders


def settle(
    incident: Incident, run: Run, *, reason: str, factors: Factors | None = None
) -> Resume | None:
    """Make pending orders of `incident` final as it is left, so that the run can start again.

    The run goes on from the checkpoint under the revision of the skip if there was one, else
    under the one in force; `reason` stands where the orders say why nothing was skipped.

    Returns:
        The final orders, or None when the incident has none pending.

    Raises:
        IncidentError: a trainer went on from the rewind without orders.
    """
    pending = read_resume(run.path)
    if pending is None or pending.ready or pending.incident != incident.id:
        return None
    skipped = incident.last("skip")
    cursor, no_skip = pending.cursor, reason
    if skipped is not None:
        cursor = under_revision(cursor, skipped.summary["revision"], skipped.summary["digest"])
        no_skip = skipped.summary["no_skip"]
    factors = factors or Factors()
    orders = replace(
        pending,
        cursor=cursor,
        ready=True,
        no_skip=no_skip,
        learning_rate_factor=factors.learning_rate,
        clip_factor=factors.clip,
        created="",
    )
    if _half_done(incident, pending) or not _went_on(run, pending):
        move_head(run, orders)
    return write_resume(run.path, replace(orders, heads=len(run.heads())))


def under_revision(cursor: Cursor, number: int, digest: str | None) -> Cursor:
    """Return `cursor` under revision `number`; revision 0 has no digest."""
    return replace(cursor, revision=number, revision_digest=digest if number else None)


def in_force(run: Run, plan: RewindPlan) -> Cursor:
    """Return the checkpoint's cursor with the newest revision the run has been under.

    A second rewind may go back to before the first skip; what was left out stays left out.
    """
    where = f"the cursor of checkpoint {plan.checkpoint.path}"
    cursor = Cursor.from_json(plan.checkpoint.cursor, where=where)
    head = run.head()
    if head is None or head.revision <= cursor.revision:
        return cursor
    revision = load_revision(run.path, head.revision, manifest=run.fingerprint)
    return under_revision(cursor, revision.number, revision.digest)


def _taken(run: Run, orders: Resume) -> bool:
    return taken_by(run.path, orders) is not None


def _half_done(incident: Incident, pending: Resume) -> bool:
    """Return whether a crash stopped the rewind of this round before it was recorded."""
    return pending.round == incident.case().round and incident.last("rewind") is None


def _went_on(run: Run, orders: Resume) -> bool:
    """Return whether a trainer opened a piece after the rewind, against the orders."""
    head = run.head()
    target = (orders.checkpoint.piece, orders.checkpoint.step)
    return head is not None and (head.piece, head.step) != target
