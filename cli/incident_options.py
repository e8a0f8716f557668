"""What the incident commands share: the incident, its telemetry, and saying what was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from ..loader.formats import parse_json
from ..loader.run import Run
from ..quarantine.diagnose.series import Series
from ..quarantine.diagnose.signals import read_series
from ..quarantine.respond.acquittal import HISTORY_DOCUMENTS
from ..quarantine.respond.incident import Event, Incident, IncidentStore
from ..quarantine.respond.operations import branch_of_spike
from ..quarantine.respond.report import describe
from ..quarantine.respond.telemetry import ledger_series, standing
from ..quarantine.respond.watchplan import WatchPlan
from ..quarantine.respond.ways import ways_on
from .ledger_options import opened as opened_ledger
from .output import acts, clean, emit, json_option, mutation_options, run_option
from .respond_options import actor_option

Command = TypeVar("Command", bound=Callable[..., Any])
MOST_COMMAND = 8000
"""Characters of a command to type; a path may have 4096, and quoting makes it longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What every act is asked with; `does` is whether it shall be done, not only shown."""

    run: Run
    incident: Incident
    actor: str
    does: bool
    as_json: bool


def act_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the incident's id, `--run`, `--actor`, `--yes`, `--dry-run` and `--json`.

    The command gets them as one `Asked`, before its own options.
    """

    @wraps(command)
    def asking(
        *,
        incident_id: str,
        run: Path,
        actor: str,
        yes: bool,
        dry_run: bool,
        as_json: bool,
        **own: Any,
    ) -> None:
        opened, incident = find(run, incident_id)
        does = acts(yes=yes, dry_run=dry_run)
        command(
            Asked(run=opened, incident=incident, actor=actor, does=does, as_json=as_json), **own
        )

    asked = asking
    for option in (
        json_option,
        mutation_options,
        actor_option,
        run_option,
        click.argument("incident_id", metavar="ID"),
    ):
        asked = option(asked)
    return asked


def log_option(command: Command) -> Command:
    """Add `--log FILE` as the parameter `log`."""
    return click.option(
        "--log",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Read the signals from this CSV or JSON lines file, not from the ledger.",
    )(command)


def history_option(command: Command) -> Command:
    """Add `--history DOCUMENTS` as the parameter `history`."""
    return click.option(
        "--history",
        type=click.IntRange(0),
        default=HISTORY_DOCUMENTS,
        show_default=True,
        help="Documents eaten before the window; copies of them are acquitted. 0: none.",
    )(command)


def find(run: Path, incident_id: str) -> tuple[Run, Incident]:
    """Return the run and the incident."""
    opened = Run.open(run)
    return opened, IncidentStore(opened.path).get(incident_id)


def signals(
    run: Run, log: Path | None, *, incident: Incident | None = None
) -> Mapping[str, Series]:
    """Return the signals by name, from `log` or the ledger.

    With `incident` the ledger's are those of the branch that spiked, else of the run's history.
    Rows that the log itself superseded by stepping back are left out.
    """
    if log is not None:
        return standing(read_series(log))
    with opened_ledger(run) as ledger:
        branch = None if incident is None else branch_of_spike(incident, run)
        return ledger_series(ledger, branch)


def said(asked: Asked, *, done: bool, what: str, facts: Mapping[str, Any]) -> None:
    """Print what an act did or would do, and the next command."""
    incident, run = asked.incident, asked.run
    case = incident.case()
    base = {"id": incident.id, "done": done, "state": case.state, "next": case.next_step}

    def render(out: Console) -> None:
        text = f"{incident.id}: {what}" if done else f"would {what}; say --yes to do it"
        for line in text.split("\n"):
            out.print(clean(line, limit=400))
        if done:
            show_commands(out, ways_on(incident, run))

    emit(asked.as_json, {**base, **facts}, render)


def done_already(asked: Asked, act: str, *, same: Callable[[Event], bool]) -> bool:
    """Say what was done where this round records `act` of the same request; return whether it does.

    A process that died after its last write, or whose answer was lost, is typed again. Another
    request is refused like any act out of order (IncidentError).
    """
    incident = asked.incident
    event, closed = incident.last(act), incident.case().closed
    if event is None or closed or not same(event):
        incident.check(act)
        return False
    facts = {"already": True, "time": event.time, "actor": event.actor, **event.summary}
    said(asked, done=True, what=f"done already, {event.time[:19]}: {describe(event)}", facts=facts)
    return True


def show_commands(out: Console, commands: Sequence[str]) -> None:
    """Print commands to copy: the first as the next one, the others as what may be done instead."""
    for index, command in enumerate(commands):
        line = f"{'or' if index else 'next'}: {command}"
        out.print(clean(line, limit=MOST_COMMAND), soft_wrap=True)


def read_watch_plan(path: Path) -> WatchPlan:
    """Return the plan in a JSON file, bare or under the key "watch"."""
    value = parse_json(path.read_bytes(), where=str(path))
    return WatchPlan.from_json(value.get("watch", value))
