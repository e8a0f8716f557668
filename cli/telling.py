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
    if undelivered(sent):
        click.echo(
            f"warning: {said_of(sent)}, so nobody may know of this; the act itself is done; send "
            f"again: incident deliver {incident.id} --yes",
            err=True,
        )
    return sent, "".join(
        f"\n  {each.outlet} {each.action}: {each.state}, {each.reply}" for each in sent
    )


def undelivered(sent: Sequence[Delivery]) -> list[str]:
    """Return the outlets to which something is left to send, for JSON answers."""
    return sorted({each.outlet for each in _left(sent)})


def said_of(sent: Sequence[Delivery]) -> str:
    """Return in words which messages were refused, and which did not get through."""
    words = {"failed": "refused", "pending": "did not take"}
    return "; ".join(
        f"{each.outlet} {words[each.state]} the {each.action} ({each.reply})"
        for each in _left(sent)
    )


def _left(sent: Sequence[Delivery]) -> list[Delivery]:
    return [each for each in sent if each.state in ("pending", "failed")]
