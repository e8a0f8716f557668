"""`shardward incident` continued: watch and file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click

from ..loader.run import Run
from ..quarantine.respond import response
from ..quarantine.respond.filing import file as file_incident
from ..quarantine.respond.gather import attach_findings
from ..quarantine.respond.incident import Incident
from ..quarantine.respond.outlets import check_outlets, incident_message
from ..quarantine.respond.resume import trains
from ..quarantine.respond.selection import parse_steps
from ..quarantine.respond.telemetry import by_step
from ..quarantine.respond.watched import of_resumed_run, opened_since
from ..quarantine.respond.watchplan import Series, WatchPlan, evaluate_watch
from .incident_options import Asked, act_options, log_option, said, signals
from .ledger_options import opened as opened_ledger
from .numbers import YEAR, Finite
from .output import manifest_option, say
from .respond_options import corpus_of
from .telling import tell, tell_options, undelivered


@click.command()
@act_options
@log_option
@click.option("--window", metavar="FIRST-LAST", help="Watch these steps, not those of the plan.")
@click.option(
    "--follow",
    type=Finite(min=0.1, max=YEAR),
    metavar="SECONDS",
    help="Look again every so often until the watch is over or no trainer runs any more.",
)
@click.option("--final", is_flag=True, help="The run is over: judge what was seen.")
@click.pass_context
def watch(
    ctx: click.Context,
    asked: Asked,
    *,
    log: Path | None,
    window: str | None,
    follow: float | None,
    final: bool,
) -> None:
    """Judge the resumed run by its watch plan; a recurrence reopens the incident (exit 3).

    \b
    Examples:
      shardward incident watch INC-0001 --yes
      shardward incident watch INC-0001 --window 41100-41300 --yes
      shardward incident watch INC-0001 --follow 60 --yes
      shardward incident watch INC-0001 --final --yes
    """
    opened, incident = asked.run, asked.incident
    incident.check("watch")
    plan = response.watch_plan(incident)
    if window:
        first, last = parse_steps(window)
        plan = WatchPlan.from_json({**plan.to_json(), "first": first, "last": last})
    if follow and not final:
        _follow(opened, incident, plan, log, follow)
    series = _seen(opened, incident, log)
    act = asked.does
    if act:
        result = response.watch(incident, series, actor=asked.actor, plan=plan, final=final)
    else:
        result = evaluate_watch(plan, series, final=final)
    what = f"record the watch as {result.verdict}: {result.reason}"
    if result.verdict == "running" and not trains(opened):
        what += "; no trainer is running: say --final if the run is over"
    said(asked, done=act, what=what, facts=result.to_json())
    if result.verdict == "recurrence":
        ctx.exit(3)


def _seen(run: Run, incident: Incident, log: Path | None) -> Mapping[str, Series]:
    """Return the signals by step, without those of the branch that was left."""
    series = by_step(signals(run, log))
    return series if log is None else of_resumed_run(series, log, incident, run)


def _follow(run: Run, incident: Incident, plan: WatchPlan, log: Path | None, pause: float) -> None:
    """Look again every `pause` seconds until the watch or the run is over."""
    # A trainer that took its orders and still loads its weights is yet to come.
    seen = trains(run) or opened_since(incident, run) is not None
    while True:
        # Asked before the signals: what a trainer wrote before it ended is looked at.
        now = trains(run)
        result = evaluate_watch(plan, _seen(run, incident, log))
        if result.verdict != "running" or (seen and not now):
            return
        seen = seen or now
        say(f"{incident.id}: {result.reason}")
        time.sleep(pause)


@click.command("file")
@act_options
@manifest_option
@tell_options
def file_(
    asked: Asked,
    *,
    outlets: tuple[str, ...],
    repository: str | None,
    manifest: Path | None,
) -> None:
    """Write the postmortem and close the incident; tell others if asked to.

    \b
    Examples:
      shardward incident file INC-0001 --yes
      shardward incident file INC-0001 --to pagerduty --to slack --yes
    """
    opened, incident = asked.run, asked.incident
    incident.check("file")
    check_outlets(outlets, repository)
    if not asked.does:
        said(asked, done=False, what="file the incident", facts={})
        return
    with opened_ledger(opened) as ledger:
        attach_findings(incident, opened, corpus_of(opened, manifest), ledger, actor=asked.actor)
    filed = file_incident(incident, opened, actor=asked.actor)
    message = incident_message(incident, opened.run_id, filed.report)
    sent, told = tell(incident, message, outlets, repository)
    what = "filed as " + filed.report["outcome"] + "".join(f"\n  {path}" for path in filed.paths)
    what += told
    facts = {
        "paths": filed.paths,
        "sent": sent,
        "undelivered": undelivered(sent),
        "missing": filed.missing,
    }
    said(asked, done=True, what=what, facts=facts)


END = (watch, file_)
