"""What to type next: the command of the next step, and of what else may be done now."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ...loader.errors import FormatError, IntegrityError, MismatchError, NotFound
from .decisions import DecisionLog, log_trouble
from .machine import ways_out
from .revisions import load_revision
from .suspects import judged

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Incident

WHY = '--reason "WHY"'


def next_command(incident: Incident, run: Run) -> str:
    """Return the command for the next step of the response.

    It acts as it stands, unless a person has to say why first.
    """
    step = incident.case().next_step
    if step is None:
        return _typed(run, f"incident show {incident.id}")
    if _undecided(incident, run):
        found = judged(incident)
        if found:
            named = f"--suspects --incident {incident.id} --expect {len(found)}"
            return _typed(run, f"quarantine add {named} {WHY}")
        return _typed(run, f"incident skip {incident.id} --window {_window(incident)} --yes")
    return _typed(run, f"incident {step} {incident.id} --yes")


def other_commands(incident: Incident, run: Run) -> tuple[str, ...]:
    """Return the commands for what else the order of the response allows now.

    Without --yes, since a person has to say why.
    """
    words = [f"{act} {incident.id} {WHY}" for act in ways_out(incident.case())]
    if _unconfirmed(incident):
        words = [f'confirm {incident.id} --accept "WHY"', *words]
    if _undecided(incident, run):
        window = [f"skip {incident.id} --window {_window(incident)}"] if judged(incident) else []
        words = [*window, f'skip {incident.id} --no-skip "WHY"', *words]
    return tuple(_typed(run, f"incident {each}") for each in words)


def ways_on(incident: Incident, run: Run) -> tuple[str, ...]:
    """Return the commands to name after an act: the next step, or more where a person chooses."""
    if _unconfirmed(incident):  # to look again would give the same answer
        return other_commands(incident, run)
    more = other_commands(incident, run) if _undecided(incident, run) else ()
    return (next_command(incident, run), *more)


def _typed(run: Run, words: str) -> str:
    arguments, yes, _ = words.partition(" --yes")
    return f"shardward {arguments} --run {shlex.quote(str(run.path))}{yes}"


def _unconfirmed(incident: Incident) -> bool:
    return incident.case().next_step == "confirm" and incident.last("attempt") is not None


def _undecided(incident: Incident, run: Run) -> bool:
    """Return whether a skip comes next and no decision was made that it could publish."""
    if incident.case().next_step != "skip" or log_trouble(run.path) is not None:
        return False
    try:
        number = incident.require("rewind").summary["revision"]
        in_force = load_revision(run.path, number, manifest=run.fingerprint)
    except (FormatError, IntegrityError, MismatchError, NotFound):
        return False  # the skip will say so
    entries = DecisionLog(run.path).entries()
    return all(e.decision.action == "suspect" for e in entries[in_force.decisions_count :])


def _window(incident: Incident) -> str:
    looked_at = incident.require("identify").summary
    return f"{looked_at['first']}-{looked_at['last']}"
