"""`shardward incident`: the response to a spike, in its order."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ..loader.run import Run
from ..quarantine.respond.filing import write_report
from ..quarantine.respond.incident import Incident, IncidentStore
from ..quarantine.respond.report import describe, outcome
from .output import emit, json_option, run_option, table


@click.group()
def incident() -> None:
    """List, show and report incidents.

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
    rows = [_row(each) for each in IncidentStore(Run.open(run).path).all()]

    def render(out: Console) -> None:
        names = ("id", "state", "outcome", "onset", "detected", "opened", "next")
        out.print(table("Incidents", names, [[row[n] for n in names] for row in rows]))

    emit(as_json, {"incidents": rows}, render)


def _row(each: Incident) -> dict[str, object]:
    events, case = each.events(), each.case()
    return {
        "id": each.id,
        "state": case.state,
        "round": case.round,
        "outcome": outcome(each),
        "onset": events[0].summary["onset"],
        "detected": events[0].summary["detected"],
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
    found = IncidentStore(Run.open(run).path).get(incident_id)
    row, events = _row(found), found.events()

    def render(out: Console) -> None:
        rows = [[e.time[:19], e.actor, describe(e)] for e in events]
        out.print(table(f"{found.id}: {row['state']}", ("time", "who", "what"), rows))
        if row["next"]:
            out.print(f"next: shardward incident {row['next']} {found.id} --run {run}")

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
    opened = Run.open(run)
    filed = write_report(IncidentStore(opened.path).get(incident_id), opened, out=out)

    def render(console: Console) -> None:
        for path in filed.paths:
            console.print(str(path))
        if filed.missing:
            console.print(filed.missing)

    emit(as_json, {"report": filed.report, "paths": filed.paths}, render)
