"""Telling the world: webhook, PagerDuty, Slack-compatible webhook and GitHub issues.

Every message is first kept in the incident's outbox under the next number, so that nothing is
lost while a receiver is down; delivery is tried with growing pauses and may be repeated later.
Each receiver gets its messages in the order in which they were made: none overtakes one that is
still pending. Messages carry the incident as their key, so a receiver that got one twice can tell.
Secrets come from the environment only and are never written down.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...loader.errors import UsageError
from ...loader.files import exclusive_lock, publish_new, write_atomic
from ...loader.formats import canonical_json, check_format, parse_json, sha256_hex
from .receivers import OUTLETS, RECEIVERS, DeliveryError, Sender, secret_of
from .safe_text import visible
from .sending import Reply, Transport
from .sending import send as send_request
from .side_by_side import side_by_side

if TYPE_CHECKING:
    from .incident import Incident

FORMAT = "shardward.message"
OUTBOX = "outbox"
MOST_REPLY = 200
"""Characters that are kept of what a receiver, or a library about it, said."""
__all__ = [
    "OUTLETS",
    "Delivery",
    "Message",
    "check_outlets",
    "deliver",
    "incident_message",
    "outbox",
    "page_message",
    "post",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is told: the incident's key, a headline, a severity and the facts."""

    key: str
    action: str
    title: str
    severity: str
    facts: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.action not in ("trigger", "resolve"):
            raise UsageError(f"a message triggers or resolves, it does not {self.action!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message to one outlet: `action` triggers or resolves, `reply` is the receiver's last.

    `state` is pending, delivered, failed where it was refused, or superseded where it was refused
    and the receiver has taken a later one, so that it is not sent again. `tries` counts the
    requests that were sent for it, retries and searches among them.
    """

    outlet: str
    action: str
    name: str
    state: str
    reply: str
    tries: int = 0


def incident_message(incident: Incident, run_id: str, report: Mapping[str, Any]) -> Message:
    """Return the message about a report: resolved when it is closed, triggered otherwise."""
    closed = incident.case().closed
    return Message(
        key=f"shardward-{run_id}-{incident.id}",
        action="resolve" if closed else "trigger",
        title=visible(f"{incident.id} of run {run_id}: {report['outcome']}", 200),
        severity="info" if closed else "critical",
        facts={
            "incident": incident.id,
            "run": run_id,
            "state": incident.case().state,
            "round": incident.case().round,
            "outcome": report["outcome"],
            "summary": visible(report["summary"], 1000),
            "onset": report["detection"]["onset"],
            "detected": report["detection"]["detected"],
        },
    )


def page_message(incident: Incident, run_id: str) -> Message:
    """Return the message that calls a person to an incident which is under way."""
    events, case = incident.events(), incident.case()
    opening = [e.summary for e in events if "onset" in e.summary][-1]
    onset, detected = opening["onset"], opening["detected"]
    confirmed = incident.last("confirm")
    sure = f", {confirmed.summary['verdict']}" if confirmed is not None else ""
    kind = opening.get("kind") or "spike"
    what = f"a {kind} from step {onset}, detected at step {detected}{sure}"
    return Message(
        key=f"shardward-{run_id}-{incident.id}",
        action="trigger",
        title=visible(f"{incident.id} of run {run_id}: {what}", 200),
        severity="critical",
        facts={
            "incident": incident.id,
            "run": run_id,
            "state": case.state,
            "round": case.round,
            "summary": visible(f"{what}; see: shardward incident page {incident.id}", 1000),
            "onset": onset,
            "detected": detected,
        },
    )


def post(
    incident: Incident,
    message: Message,
    outlets: Sequence[str],
    *,
    repository: str | None = None,
    environment: Mapping[str, str] | None = None,
    transport: Transport | None = None,
    pause: Callable[[float], None] | None = None,
) -> list[Delivery]:
    """Keep `message` in the outbox for each outlet, then try to deliver all that is pending.

    Args:
        outlets: names among `OUTLETS`.
        repository: OWNER/NAME for the github outlet.
        environment: where secrets are looked up, by default the process's.
        transport, pause: how to send and to wait, for tests.

    Raises:
        UsageError: an unknown outlet, or one whose secret is not set.
    """
    environment = os.environ if environment is None else environment
    check_outlets(outlets, repository, environment)
    for outlet in outlets:
        _keep(incident, outlet, message, repository)
    return deliver(incident, environment=environment, transport=transport, pause=pause)


def check_outlets(
    outlets: Sequence[str],
    repository: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Refuse what could not be told, before anything is done that should be told.

    Raises:
        UsageError: an unknown outlet, one whose secret is not set or cannot be sent, or github
            without a repository.
    """
    for outlet in outlets:
        secret_of(outlet, os.environ if environment is None else environment)
        if outlet == "github" and not repository:
            raise UsageError("the github outlet needs a repository; give OWNER/NAME")


def deliver(
    incident: Incident,
    *,
    environment: Mapping[str, str] | None = None,
    transport: Transport | None = None,
    pause: Callable[[float], None] | None = None,
) -> list[Delivery]:
    """Try everything in the outbox that was not delivered; delivered messages are never resent.

    Receivers are called side by side, so that one that hangs holds up no other; `transport` and
    `pause` are called from several threads then.
    """
    known = os.environ if environment is None else environment
    with exclusive_lock(incident.path / OUTBOX / "lock"):
        lanes = _lanes(incident)
        sent = side_by_side(
            [partial(_deliver_lane, each, known, transport, pause) for each in lanes]
        )
    return sorted(chain.from_iterable(sent), key=lambda delivery: delivery.name)


def outbox(incident: Incident) -> list[Delivery]:
    """Return every message kept for the incident and what is known of it; nothing is sent."""
    known = [each for lane in _lanes(incident) for each in _known(lane)]
    return sorted(known, key=lambda delivery: delivery.name)


@dataclass(slots=True)
class _Counted:
    """A transport that counts its requests."""

    transport: Transport
    requests: int = 0

    def __call__(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        self.requests += 1
        return self.transport(method, url, data, headers)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A message and its receipt; `unsure` when a try of it may have been taken unanswered."""

    path: Path
    value: Mapping[str, Any]
    state: str = "pending"
    reply: str = ""
    tries: int = 0
    unsure: bool = False
    reference: str = ""

    @property
    def receipt(self) -> Path:
        return self.path.with_name(self.path.name.replace(".message.", ".receipt."))

    def delivery(self, state: str, reply: str) -> Delivery:
        return Delivery(
            outlet=self.value["outlet"],
            action=self.value["action"],
            name=self.path.name,
            state=state,
            reply=reply,
            tries=self.tries,
        )


def _read(path: Path) -> _Kept:
    value = parse_json(path.read_bytes(), where=str(path))
    check_format(value, name=FORMAT, version=1, where=str(path))
    kept = _Kept(path, value)
    if not kept.receipt.exists():
        return kept
    said = parse_json(kept.receipt.read_bytes(), where=str(kept.receipt))
    return replace(
        kept,
        state=said["state"],
        reply=said["reply"],
        tries=said.get("tries", 1),
        unsure=said.get("unsure", False),
        reference=said.get("reference", ""),
    )


def _lanes(incident: Incident) -> list[list[_Kept]]:
    """Return the messages of each receiver, in the order in which they were made."""
    lanes: dict[tuple[str, str | None], list[_Kept]] = {}
    for path in sorted((incident.path / OUTBOX).glob("*.message.json")):
        kept = _read(path)
        lanes.setdefault((kept.value["outlet"], kept.value["repository"]), []).append(kept)
    return list(lanes.values())


def _known(lane: Sequence[_Kept]) -> list[Delivery]:
    """Return what is known of the messages up to the last that was taken, and of those after it."""
    taken = max((i for i, kept in enumerate(lane) if kept.state == "delivered"), default=-1)
    return [
        kept.delivery("superseded", f"{kept.reply}; a later message was taken")
        if index < taken and kept.state == "failed"
        else kept.delivery(kept.state, kept.reply)
        for index, kept in enumerate(lane)
    ]


def _deliver_lane(
    lane: Sequence[_Kept],
    environment: Mapping[str, str],
    transport: Transport | None,
    pause: Callable[[float], None] | None,
) -> list[Delivery]:
    """Deliver one receiver's messages in order, up to the first that stays pending.

    What was refused does not hold up the next, and comes no more once a later one was taken: an
    old "trigger" after a "resolve" would open the incident for ever.
    """
    taken = max((i for i, kept in enumerate(lane) if kept.state == "delivered"), default=-1)
    sent = _known(lane)[: taken + 1]
    reference = next((kept.reference for kept in reversed(lane) if kept.reference), "")
    for kept in lane[taken + 1 :]:
        if sent and sent[-1].state == "pending":
            sent.append(kept.delivery("pending", "waits for an earlier message"))
        else:
            done = _deliver_one(kept, reference, environment, transport, pause)
            sent.append(done.delivery(done.state, done.reply))
            reference = done.reference or reference
    return sent


def _keep(incident: Incident, outlet: str, message: Message, repository: str | None) -> None:
    """Put a message into the outbox under the next number, unless it is there already."""
    value = {
        "format": FORMAT,
        "version": 1,
        "outlet": outlet,
        "repository": repository,
        "key": message.key,
        "action": message.action,
        "title": message.title,
        "severity": message.severity,
        "facts": dict(message.facts),
    }
    data = canonical_json(value)
    name = f"{outlet}-{sha256_hex(data)[:12]}.message.json"
    home = incident.path / OUTBOX
    # Not the lock of delivery, which may be held while a receiver does not answer.
    with exclusive_lock(home / "keep.lock"):
        known = sorted(path.name for path in home.glob("*.message.json"))
        if not any(each.partition("-")[2] == name for each in known):
            number = 1 + max((int(each.partition("-")[0]) for each in known), default=0)
            publish_new(home / f"{number:06d}-{name}", data)


def _deliver_one(
    kept: _Kept,
    reference: str,
    environment: Mapping[str, str],
    transport: Transport | None,
    pause: Callable[[float], None] | None,
) -> _Kept:
    """Send one message and return it with what became of it; `reference` as in `Sender`."""
    outlet, secret, made, unsure = kept.value["outlet"], "", "", kept.unsure
    counted = _Counted(transport or send_request)
    try:
        secret = secret_of(outlet, environment)
        sender = Sender(
            environment=environment,
            transport=counted,
            pause=pause,
            reference=reference,
            unsure=unsure,
        )
        # Written first: a crash from here on leaves a message that may have been taken.
        _receipt(replace(kept, reply="being sent", unsure=True))
        reply = RECEIVERS[outlet](kept.value, secret, sender)
        state, words, made = ("delivered" if reply.ok else "failed"), reply.words, reply.reference
        unsure = False
    except DeliveryError as error:
        state, words, unsure = "pending", str(error), True
    except UsageError as error:
        state, words = "pending", str(error)
    if secret:
        # Whatever a library put into its words, they go to the terminal and into a file.
        words = words.replace(secret, "***")
    done = replace(
        kept,
        state=state,
        # Cut last: a part of a secret would not be known again.
        reply=visible(words, MOST_REPLY)[:MOST_REPLY],
        tries=kept.tries + counted.requests,
        unsure=unsure,
        reference=made,
    )
    _receipt(done)
    return done


def _receipt(kept: _Kept) -> None:
    """Note beside a message what is known about its delivery."""
    known = {"state": kept.state, "reply": kept.reply, "tries": kept.tries, "unsure": kept.unsure}
    if kept.reference:
        known["reference"] = kept.reference
    write_atomic(kept.receipt, canonical_json(known))
