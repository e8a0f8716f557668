"""The order of the response as a pure state machine.

confirm → identify → rewind → skip → resume → watch → file, with the legal exits dismissed,
recovered, not-data and escalated. An act out of order is refused with the step that is missing
and what going on without it would break.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...loader.errors import IncidentError

STEPS = ("confirm", "identify", "rewind", "skip", "resume", "watch", "file")
EXITS = {
    "dismiss": "dismissed",
    "recover": "recovered",
    "not-data": "not-data",
    "escalate": "escalated",
}
REACHED = {
    "open": "opened",
    "confirm": "confirmed",
    "identify": "identified",
    "rewind": "rewound",
    "skip": "skipped",
    "resume": "resumed",
    "watch": "watched",
    "file": "filed",
    "reopen": "opened",
    **EXITS,
}
NOTES = ("attempt", "intent", "note")
# What each exit may be taken from: an exit needs what it claims to have been looked at.
EXIT_FROM = {
    "dismiss": ("opened", "confirmed", "identified"),
    "recover": ("opened", "confirmed", "identified"),
    "not-data": ("confirmed", "identified", "rewound"),
    "escalate": ("opened", "confirmed", "identified", "rewound", "skipped", "resumed", "watched"),
}
REOPENED_FROM = ("rewound", "skipped", "resumed", "watched")
CLOSED = ("filed", *EXITS.values())
WITHOUT = {
    "confirm": "a glitch of a dashboard would set people hunting for documents that did no harm",
    "identify": "nobody would know what the run ate, and it would eat it again",
    "rewind": "weights that have learnt the bad batches would stay in the run",
    "skip": "the same weights would meet the same batches and the spike would come back",
    "resume": "there would be no step after the hole to look at",
    "watch": "the report would claim an outcome that nobody has seen",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Where an incident stands: its state, round (1 + times reopened) and acts of this round."""

    state: str = ""
    round: int = 1
    done: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether the response is over."""
        return self.state in CLOSED

    @property
    def next_step(self) -> str | None:
        """The step the order asks for next; None when closed."""
        if self.state in EXITS.values() and self.state != "escalated":
            return "file"
        if self.closed:
            return None
        return next(step for step in STEPS if step not in self.done)


def ways_out(case: Case) -> tuple[str, ...]:
    """Return the exits that may be taken now, and "reopen" where that may be done."""
    exits = tuple(act for act, states in EXIT_FROM.items() if case.state in states)
    return (*exits, "reopen") if case.closed or case.state in REOPENED_FROM else exits


def advance(case: Case, act: str) -> Case:
    """Return the case after `act`.

    Raises:
        IncidentError: the act is unknown or out of order; the message says what is missing.
    """
    check(case, act)
    if act in NOTES:
        return case
    if act == "reopen":
        return Case(state=REACHED[act], round=case.round + 1)
    done = case.done if act == "open" or act in case.done else (*case.done, act)
    return Case(state=REACHED[act], round=case.round, done=done)


def check(case: Case, act: str) -> None:
    """Refuse `act` unless the order of the response allows it now; errors as in `advance`."""
    if act not in REACHED and act not in NOTES:
        raise IncidentError(f"unknown act {act!r}; the steps are {' → '.join(STEPS)}")
    if (act == "open") != (case.state == ""):
        raise IncidentError("an incident is opened once, before anything else")
    if act in ("open", *NOTES):
        return
    if act == "reopen":
        _check_reopen(case)
    elif act in EXITS:
        _check_exit(case, act)
    else:
        _check_step(case, act)


def fold(acts: Iterable[str]) -> Case:
    """Return the case after `acts`, oldest first; errors as in `advance`."""
    case = Case()
    for act in acts:
        case = advance(case, act)
    return case


def _check_step(case: Case, act: str) -> None:
    if act == "file" and case.state in EXITS.values() and case.state != "escalated":
        return
    if case.closed:
        raise IncidentError(f"the incident is {case.state}; reopen it before you {act}")
    missing = [step for step in STEPS[: STEPS.index(act)] if step not in case.done]
    if missing:
        first = missing[0]
        raise IncidentError(
            f"{act} comes after {first}, which is missing: without it {WITHOUT[first]}; "
            f"run {first} first (the incident is {case.state})"
        )
    if act in case.done and act != "watch":
        raise IncidentError(
            f"{act} is done and its evidence stored (the incident is {case.state}); go on with "
            f"{case.next_step}, or reopen the incident to start over"
        )
    if act != "watch" and any(later in case.done for later in STEPS[STEPS.index(act) + 1 :]):
        raise IncidentError(f"{act} cannot follow {case.done[-1]}")


def _check_exit(case: Case, act: str) -> None:
    if case.state not in EXIT_FROM[act]:
        allowed = ", ".join(EXIT_FROM[act])
        raise IncidentError(
            f"{act} is an exit from {allowed}, and the incident is {case.state}; "
            + ("reopen it first" if case.closed else f"the next step is {case.next_step}")
        )


def _check_reopen(case: Case) -> None:
    if not case.closed and case.state not in REOPENED_FROM:
        raise IncidentError(
            f"the incident is {case.state} and still open; the next step is {case.next_step}"
        )
