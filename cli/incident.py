"""`shardward incident`: the response to a spike, in its order."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ..loader.run import Run
from ..quarantine.respond.checkpoints import ledger_checkpoints
from ..quarantine.respond.decisions import log_trouble
from ..quarantine.respond.filing import write_report
from ..quarantine.respond.incident import Incident, IncidentStore
from ..quarantine.respond.operations import branch_of_spike
from ..quarantine.respond.outlets import deliver as deliver_outbox
from ..quarantine.respond.outlets import outbox
from ..quarantine.respond.report import describe, outcome
from ..quarantine.respond.situation import pace_of, situation
from ..quarantine.respond.stability import SHORT, as_csv, as_markdown
from ..quarantine.respond.stability import as_json as json_rows
from ..quarantine.respond.stability import stability_log as log_of
from ..quarantine.respond.ways import ways_on
from .incident_acts import ACTS
from .incident_causes import causes
from .incident_end import END
from .incident_exits import EXITS
from .incident_look import LOOK
from .incident_options import find, show_commands
from .incident_trial import trial
from .ledger_options import opened as opened_ledger
from .output import acts, emit, json_option, mutation_options, run_option, say, table
from .telling import said_of, undelivered


@click.group()
def incident() -> None:
    """Lead a spike from the page to the postmortem.

    \b
    Examples:
      shardward incident list --run runs/7b
      shardward incident show INC-0001
      shardward incident report INC-0001 --out report
    """


@incident.command("list")
@run_option
@json_option
def list_(*, run: Path, as_json: bool) -> None:
    """Show all incidents of a run.

    \b
    Examples:
      shardward incident list --run runs/7b
      shardward incident list --json
    """
    opened = Run.open(run)
    rows = [_row(each) for each in IncidentStore(opened.path).all()]

    def render(out: Console) -> None:
        names = ("id", "state", "outcome", "onset", "detected", "opened", "next")
        out.print(table("Incidents", names, [[row[n] for n in names] for row in rows]))

    emit(as_json, {"incidents": rows, "trouble": _trouble(opened)}, render)


def _row(each: Incident) -> dict[str, object]:
    events, case, opened = each.events(), each.case(), each.opening().summary
    return {
        "id": each.id,
        "state": case.state,
        "round": case.round,
        "outcome": outcome(each),
        "onset": opened["onset"],
        "detected": opened["detected"],
        "opened": events[0].time,
        "next": case.next_step,
    }


@incident.command()
@click.argument("incident_id", metavar="ID")
@run_option
@json_option
def show(*, incident_id: str, run: Path, as_json: bool) -> None:
    """Show one incident: where it stands, what was done, and the next step.

    \b
    Examples:
      shardward incident show INC-0001 --run runs/7b
    """
    opened, found = find(run, incident_id)
    row, events = _row(found), found.events()

    def render(out: Console) -> None:
        rows = [[e.time[:19], e.actor, describe(e)] for e in events]
        out.print(table(f"{found.id}: {row['state']}", ("time", "who", "what"), rows))
        if row["next"]:
            show_commands(out, ways_on(found, opened))

    emit(as_json, {**row, "events": events}, render)


@incident.command()
@click.argument("incident_id", metavar="ID")
@run_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory; that of the incident by default.",
)
@json_option
def report(*, incident_id: str, run: Path, out: Path | None, as_json: bool) -> None:
    """Write the postmortem as it stands: JSON, Markdown, HTML and a picture.

    \b
    Examples:
      shardward incident report INC-0001 --run runs/7b
      shardward incident report INC-0001 --out report --json
    """
    opened, found = find(run, incident_id)
    filed = write_report(found, opened, out=out)

    def render(console: Console) -> None:
        for path in filed.paths:
            console.print(str(path))
        if filed.missing:
            console.print(filed.missing)

    emit(as_json, {"report": filed.report, "paths": filed.paths}, render)


@incident.command()
@click.argument("incident_id", metavar="ID")
@run_option
@json_option
def page(*, incident_id: str, run: Path, as_json: bool) -> None:
    """Show the one screen for 3 a.m.: what happened, how sure, what it ate, what waiting costs.

    \b
    Examples:
      shardward incident page INC-0001 --run runs/7b
    """
    opened, found = find(run, incident_id)
    with opened_ledger(opened) as ledger:
        shown = situation(
            found,
            opened,
            pace_of(ledger),
            ledger_checkpoints(ledger),
            spiked_to=ledger.last_step(branch_of_spike(found, opened)),
        )

    def render(out: Console) -> None:
        names = ("happened", "sure", "ate", "waiting", "rewinding")
        rows = [[name, getattr(shown, name)] for name in names]
        out.print(table(f"{shown.id}: {shown.state}", ("", ""), rows))
        # Not in the table, which would break them: they are for copying.
        show_commands(out, (shown.next, *shown.otherwise))

    emit(as_json, {**shown.to_json(), "trouble": _trouble(opened)}, render)


def _trouble(run: Run) -> str | None:
    """Return what is wrong with the decision log, after saying it on stderr."""
    trouble = log_trouble(run.path)
    if trouble is not None:
        say(f"warning: {trouble}")
    return trouble


@incident.command("stability-log")
@run_option
@click.option(
    "--as", "form", type=click.Choice(["table", "markdown", "csv"]), default="table", help="Form."
)
@json_option
def stability_log(*, run: Path, form: str, as_json: bool) -> None:
    """Show every spike, skip, rewind and outcome of a run, ready to publish.

    The table has the main columns; --as markdown, --as csv and --json have all.

    \b
    Examples:
      shardward incident stability-log --run runs/7b
      shardward incident stability-log --as markdown
    """
    spikes = log_of(Run.open(run).path)

    def render(out: Console) -> None:
        if form == "table":
            rows = [[getattr(spike, name) for name in SHORT] for spike in spikes]
            names = [name.replace("_", " ") for name in SHORT]
            out.print(table("Stability log", names, rows))
        else:
            click.echo(as_markdown(spikes) if form == "markdown" else as_csv(spikes), nl=False)

    emit(as_json, {"spikes": json_rows(spikes)}, render)


@incident.command()
@click.argument("incident_id", metavar="ID")
@run_option
@mutation_options
@json_option
@click.pass_context
def deliver(
    ctx: click.Context, *, incident_id: str, run: Path, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Send again what receivers did not take; exit 1 while something is left.

    Without --yes the messages and what became of them are shown. A message that was refused holds
    up none; it is sent again until its receiver takes a later one, which supersedes it.

    \b
    Examples:
      shardward incident deliver INC-0001 --run runs/7b
      shardward incident deliver INC-0001 --run runs/7b --yes
    """
    _, found = find(run, incident_id)
    act = acts(yes=yes, dry_run=dry_run)
    sent = deliver_outbox(found) if act else outbox(found)
    left = undelivered(sent)

    def render(out: Console) -> None:
        names = ("outlet", "action", "state", "tries", "reply")
        out.print(table("Outbox", names, [[getattr(each, n) for n in names] for each in sent]))
        if left and not act:
            out.print("say --yes to send what is left")

    emit(as_json, {"done": act, "sent": sent, "undelivered": left}, render)
    if act and left:
        say(said_of(sent))
        ctx.exit(1)


for _command in (*LOOK, causes, trial, *ACTS, *END, *EXITS):
    incident.add_command(_command)
