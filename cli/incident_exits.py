"""`shardward incident` continued: the legal exits, and reopening."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..loader.errors import UsageError
from ..quarantine.respond import exits
from ..quarantine.respond.drift import drift_evidence
from ..quarantine.respond.orders import Factors
from .incident_options import Asked, act_options, said, signals
from .numbers import COUNT, FACTOR

REASON = click.option("--reason", required=True, help="Why; kept for ever.")


def _leave(
    asked: Asked,
    act: str,
    *,
    reason: str,
    factors: Factors | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> None:
    opened, incident = asked.run, asked.incident
    exits.check_exit(incident, opened, act, reason=reason, factors=factors)
    done, pending = asked.does, exits.pending_orders(incident, opened)
    if done:
        exits.leave(
            incident,
            opened,
            act,
            actor=asked.actor,
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
    said(asked, done=done, what=what, facts={})


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
def dismiss(asked: Asked, *, kind: str, reason: str) -> None:
    """Close an incident that was none: a glitch of logging or dashboard, a drifting eval harness.

    --as eval-drift needs the evidence of confirm --eval, which is stored: the healthy checkpoint is
    worse today than the evaluation (eval/…, heldout/…) that was logged at its step. It is refused
    where the scene is worse or not finite, or the training loss diverged.

    \b
    Examples:
      shardward incident dismiss INC-0001 --reason "the logger restarted" --yes
      shardward incident dismiss INC-0001 --as eval-drift --reason "new harness" --yes
    """
    evidence = None
    if kind == "eval-drift":
        opened, incident = asked.run, asked.incident
        incident.check("dismiss")
        evidence = drift_evidence(incident, signals(opened, None, incident=incident))
    _leave(
        asked,
        "dismiss",
        evidence=evidence,
        reason=f"{kind.replace('-', ' ')}: {reason}",
    )


@click.command()
@act_options
@REASON
def recover(asked: Asked, *, reason: str) -> None:
    """Close an incident that went away by itself.

    \b
    Examples:
      shardward incident recover INC-0001 --reason "back on the trend after 12 steps" --yes
    """
    _leave(asked, "recover", reason=reason)


@click.command("not-data")
@act_options
@REASON
@click.option("--lr-factor", type=FACTOR, help="After a rewind: multiplies the learning rate.")
def not_data(
    asked: Asked,
    *,
    reason: str,
    lr_factor: float | None,
) -> None:
    """Close an incident whose cause is not the data; nothing is skipped.

    \b
    Examples:
      shardward incident not-data INC-0001 --reason "a node with ECC errors" --yes
      shardward incident not-data INC-0001 --reason "rate raised 10x" --lr-factor 0.1 --yes
    """
    _leave(
        asked,
        "not-data",
        reason=reason,
        factors=None if lr_factor is None else Factors(learning_rate=lr_factor),
    )


@click.command()
@act_options
@REASON
def escalate(asked: Asked, *, reason: str) -> None:
    """Hand an incident over; reopen takes it up again from the start.

    \b
    Examples:
      shardward incident escalate INC-0001 --reason "needs the architecture team" --yes
    """
    _leave(asked, "escalate", reason=reason)


@click.command()
@act_options
@REASON
@click.option("--onset", type=COUNT, help="First bad step, where it is not the one from before.")
@click.option("--detected", type=COUNT, help="Step at which it was noticed; the onset by default.")
def reopen(
    asked: Asked,
    *,
    reason: str,
    onset: int | None,
    detected: int | None,
) -> None:
    """Start another round of a closed, rewound or resumed incident.

    The round is about the same spike, or about the one that --onset names on the run's branch.

    \b
    Examples:
      shardward incident reopen INC-0001 --reason "the skip was too short" --yes
      shardward incident reopen INC-0001 --onset 41290 --reason "the spike came back" --yes
    """
    incident = asked.incident
    incident.check("reopen")
    if onset is None and detected is not None:
        raise UsageError("--detected goes with --onset; name both, or neither")
    done = asked.does
    if done:
        exits.reopen(incident, actor=asked.actor, reason=reason, onset=onset, detected=detected)
    what = f"reopen: {reason}"
    said(asked, done=done, what=what, facts={})


EXITS = (dismiss, recover, not_data, escalate, reopen)
