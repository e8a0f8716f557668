"""The exits of the response and the way back in: dismiss, recover, not-data, escalate, reopen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...loader.errors import IncidentError
from ...loader.files import exclusive_lock
from .incident import check_steps, head_piece
from .orders import LOCK, given, settle, unsettled
from .resume import Resume, read_resume

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Event, Incident
    from .orders import Factors

Json = Mapping[str, Any]


def pending_orders(incident: Incident, run: Run) -> Resume | None:
    """Return the orders that leaving the incident would make final or record, or None."""
    orders = read_resume(run.path)
    pending = orders is not None and not orders.ready and orders.incident == incident.id
    return orders if pending else unsettled(incident, run)


def check_exit(
    incident: Incident, run: Run, act: str, *, reason: str, factors: Factors | None = None
) -> None:
    """Refuse what `leave` refuses; nothing is written.

    Raises:
        IncidentError: as `leave`.
    """
    incident.check(act)
    if not reason.strip():
        raise IncidentError(f"{act} needs a reason")
    if factors is None:
        return
    if pending_orders(incident, run) is None:
        raise IncidentError(
            f"{incident.id} has not rewound the run, so {act} gives the trainer no orders that "
            "could hold a factor; rewind first, or change the trainer's own settings"
        )
    orders = unsettled(incident, run)
    if orders is not None and factors != given(orders):
        raise IncidentError(
            f"the orders {orders.id} were written with a learning rate times "
            f"{orders.learning_rate_factor:g} and not recorded, and a trainer may have taken "
            "them: repeat without a factor, then reopen the incident to change it"
        )


def leave(
    incident: Incident,
    run: Run,
    act: str,
    *,
    actor: str,
    reason: str,
    evidence: Json | None = None,
    factors: Factors | None = None,
) -> Event:
    """Take a legal exit (dismiss, recover, not-data, escalate), with the reason.

    If the run was rewound for the incident and no orders were given yet, the exit gives them: the
    trainer's next start goes on from the checkpoint, and nothing more is skipped.

    Args:
        incident: to be left.
        run: that it is about.
        act: the exit.
        actor: who leaves it.
        reason: why.
        evidence: anything that shows it.
        factors: what the orders multiply learning rate and clip threshold by.

    Raises:
        IncidentError: out of order, without a reason, or `factors` without orders to put them in.
    """
    check_exit(incident, run, act, reason=reason, factors=factors)
    with exclusive_lock(run.path / LOCK):
        # Once more, since another may have rewound or left meanwhile.
        check_exit(incident, run, act, reason=reason, factors=factors)
        orders = unsettled(incident, run)
        if orders is None:
            orders = settle(incident, run, reason=f"{act}: {reason}", factors=factors)
        said: dict[str, Any] = {"reason": reason}
        stored: dict[str, Any] = {"evidence": evidence} if evidence else {}
        if orders is not None:
            said |= {
                "orders": orders.id,
                "step": orders.checkpoint.step,
                "revision": orders.cursor.revision,
            }
            stored["orders"] = replace(orders, heads=0).to_json()
        return incident.record(act, actor=actor, summary=said, evidence=stored)


def reopen(
    incident: Incident,
    *,
    actor: str,
    reason: str,
    onset: int | None = None,
    detected: int | None = None,
) -> Event:
    """Start another round, about the same spike or about one from step `onset` of the run.

    Raises:
        IncidentError: the incident cannot be reopened, there is no reason, or the steps do not
            fit.
    """
    incident.check("reopen")
    if not reason.strip():
        raise IncidentError("reopen needs a reason")
    if onset is None and detected is not None:
        raise IncidentError("a detection needs the onset it belongs to; name both")
    return _reopen(incident, actor, reason, onset=onset, detected=detected)


def _reopen(
    incident: Incident, actor: str, reason: str, *, onset: int | None, detected: int | None
) -> Event:
    if onset is None:
        return incident.record("reopen", actor=actor, summary={"reason": reason})
    check_steps(onset, detected := onset if detected is None else detected)
    where = {
        "kind": incident.opening().summary["kind"],
        "onset": onset,
        "detected": detected,
        "piece": head_piece(incident.run_path),
    }
    return incident.record(
        "reopen", actor=actor, summary={"reason": reason, **where}, evidence={"event": {}}
    )
