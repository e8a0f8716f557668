"""Telling others what an act did: the options `--to` and `--repository`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ..quarantine.respond.incident import Incident
from ..quarantine.respond.outlets import OUTLETS, Delivery, Message, post

Command = TypeVar("Command", bound=Callable[..., Any])


def tell_options(command: Command) -> Command:
    """Add `--to OUTLET`, repeatable, as `outlets` and `--repository` as `repository`."""
    command = click.option("--repository", metavar="OWNER/NAME", help="For --to github.")(command)
    return click.option(
        "--to", "outlets", multiple=True, type=click.Choice(OUTLETS), help="Tell; repeat."
    )(command)


def tell(
    incident: Incident, message: Message, outlets: Sequence[str], repository: str | None
) -> tuple[list[Delivery], str]:
    """Send `message`; return what became of it, also in words, one indented line a message.

    What is not delivered is warned of on standard error: the act is done, and nobody was called.
    """
    sent = post(incident, message, outlets, repository=repository) if outlets else []
    left = undelivered(sent)
    if left:
        click.echo(
            f"warning: {', '.join(left)} did not take a message, so nobody may know of this; "
            f"the act itself is done; send again: incident deliver {incident.id} --yes",
            err=True,
        )
    return sent, "".join(f"\n  {each.outlet}: {each.state}, {each.reply}" for each in sent)


def undelivered(sent: Sequence[Delivery]) -> list[str]:
    """Return the outlets that did not take all their messages, for JSON answers."""
    return sorted({each.outlet for each in sent if each.state != "delivered"})
