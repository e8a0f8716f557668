"""`shardward incident` continued: the legal exits, and reopening."""

from __future__ import annotations

from pathlib import Path

import click

from ..quarantine.respond import response
from .incident_options import act_options, find, said
from .output import acts

REASON = click.option("--reason", required=True, help="Why; kept for ever.")


def _leave(
    act: str,
    *,
    incident_id: str,
    run: Path,
    reason: str,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    opened, incident = find(run, incident_id)
    incident.check(act)
    done = acts(yes=yes, dry_run=dry_run)
    if done:
        response.leave(incident, act, actor=actor, reason=reason)
    said(incident, opened, done=done, as_json=as_json, what=f"{act}: {reason}", facts={})


@click.command()
@act_options
@REASON
@click.option(
    "--as",
    "kind",
    type=click.Choice(["logging-glitch", "eval-drift", "duplicate", "expected"]),
    default="logging-glitch",
    show_default=True,
    help="What it was.",
)
def dismiss(
    *,
    incident_id: str,
    run: Path,
    kind: str,
    reason: str,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Close an incident that was none: a glitch of logging or dashboard, a drifting eval harness.

    \b
    Examples:
      shardward incident dismiss INC-0001 --reason "the logger restarted" --yes
      shardward incident dismiss INC-0001 --as eval-drift --reason "new harness" --yes
    """
    _leave(
        "dismiss",
        incident_id=incident_id,
        run=run,
        reason=f"{kind.replace('-', ' ')}: {reason}",
        actor=actor,
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
    )


@click.command()
@act_options
@REASON
def recover(
    *,
    incident_id: str,
    run: Path,
    reason: str,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Close an incident that went away by itself.

    \b
    Examples:
      shardward incident recover INC-0001 --reason "back on the trend after 12 steps" --yes
    """
    _leave(
        "recover",
        incident_id=incident_id,
        run=run,
        reason=reason,
        actor=actor,
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
    )


@click.command("not-data")
@act_options
@REASON
def not_data(
    *,
    incident_id: str,
    run: Path,
    reason: str,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Close an incident whose cause is not the data; nothing is skipped.

    \b
    Examples:
      shardward incident not-data INC-0001 --reason "a node with ECC errors" --yes
    """
    _leave(
        "not-data",
        incident_id=incident_id,
        run=run,
        reason=reason,
        actor=actor,
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
    )


@click.command()
@act_options
@REASON
def escalate(
    *,
    incident_id: str,
    run: Path,
    reason: str,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Hand an incident over; reopen takes it up again from the start.

    \b
    Examples:
      shardward incident escalate INC-0001 --reason "needs the architecture team" --yes
    """
    _leave(
        "escalate",
        incident_id=incident_id,
        run=run,
        reason=reason,
        actor=actor,
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
    )


@click.command()
@act_options
@REASON
def reopen(
    *,
    incident_id: str,
    run: Path,
    reason: str,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start another round of a closed or resumed incident.

    \b
    Examples:
      shardward incident reopen INC-0001 --reason "the spike came back" --yes
    """
    _leave(
        "reopen",
        incident_id=incident_id,
        run=run,
        reason=reason,
        actor=actor,
        yes=yes,
        dry_run=dry_run,
        as_json=as_json,
    )


EXITS = (dismiss, recover, not_data, escalate, reopen)
