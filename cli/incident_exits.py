"""`shardward incident` continued: the legal exits, and reopening."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..loader.errors import UsageError
from ..quarantine.respond import exits
from ..quarantine.respond.drift import drift_evidence
from ..quarantine.respond.orders import Factors
from .incident_options import act_options, find, said, signals
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
    factors: Factors | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> None:
    opened, incident = find(run, incident_id)
    incident.check(act)
    done, pending = acts(yes=yes, dry_run=dry_run), exits.pending_orders(incident, opened)
    if done:
        exits.leave(
            incident,
            opened,
            act,
            actor=actor,
            reason=reason,
            factors=factors,
            evidence=evidence,
        )
    what = f"{act}: {reason}"
    if pending is not None:
        what += f"\n  the trainer's next start goes on from step {pending.checkpoint.step}"
        if incident.last("skip") is None:
            what += " and meets the same batches again"
        if factors is not None:
            what += f", with its learning rate times {factors.learning_rate:g}"
    said(incident, opened, done=done, as_json=as_json, what=what, facts={})


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

    --as eval-drift needs the evidence of confirm --eval: the healthy checkpoint gives other numbers
    today than the run logged at its time, or the scene is no worse than it. It is stored.

    \b
    Examples:
      shardward incident dismiss INC-0001 --reason "the logger restarted" --yes
      shardward incident dismiss INC-0001 --as eval-drift --reason "new harness" --yes
    """
    evidence = None
    if kind == "eval-drift":
        opened, incident = find(run, incident_id)
        incident.check("dismiss")
        evidence = drift_evidence(incident, signals(opened, None, incident=incident))
    _leave(
        "dismiss",
        evidence=evidence,
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
@click.option("--lr-factor", type=float, help="After a rewind: multiplies the learning rate.")
def not_data(
    *,
    incident_id: str,
    run: Path,
    reason: str,
    lr_factor: float | None,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Close an incident whose cause is not the data; nothing is skipped.

    \b
    Examples:
      shardward incident not-data INC-0001 --reason "a node with ECC errors" --yes
      shardward incident not-data INC-0001 --reason "rate raised 10x" --lr-factor 0.1 --yes
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
        factors=None if lr_factor is None else Factors(learning_rate=lr_factor),
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
@click.option("--onset", type=int, help="First bad step, where it is not the one from before.")
@click.option("--detected", type=int, help="Step at which it was noticed; the onset by default.")
def reopen(
    *,
    incident_id: str,
    run: Path,
    reason: str,
    onset: int | None,
    detected: int | None,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start another round of a closed, rewound or resumed incident.

    The round is about the same spike, or about the one that --onset names on the run's branch.

    \b
    Examples:
      shardward incident reopen INC-0001 --reason "the skip was too short" --yes
      shardward incident reopen INC-0001 --onset 41290 --reason "the spike came back" --yes
    """
    opened, incident = find(run, incident_id)
    incident.check("reopen")
    if onset is None and detected is not None:
        raise UsageError("--detected goes with --onset; name both, or neither")
    done = acts(yes=yes, dry_run=dry_run)
    if done:
        exits.reopen(incident, actor=actor, reason=reason, onset=onset, detected=detected)
    what = f"reopen: {reason}"
    said(incident, opened, done=done, as_json=as_json, what=what, facts={})


EXITS = (dismiss, recover, not_data, escalate, reopen)
