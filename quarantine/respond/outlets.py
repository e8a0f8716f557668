"""Telling the world: webhook, PagerDuty, Slack-compatible webhook and GitHub issues.

Every message is first kept in the incident's outbox, so that nothing is lost while a receiver is
down; delivery is tried with growing pauses and may be repeated later. Messages carry the incident
as their key, so a receiver that got one twice can tell. Secrets come from the environment only
and are never written down.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...loader.errors import ShardwardError, UsageError
from ...loader.files import exclusive_lock, publish_new, write_atomic
from ...loader.formats import canonical_json, check_format, parse_json, sha256_hex
from .safe_text import markdown_text, visible
from .sending import Reply, Transport, send_with_retries

if TYPE_CHECKING:
    from .incident import Incident

FORMAT = "shardward.message"
OUTBOX = "outbox"
PAGE, MOST_PAGES = 100, 20
GITHUB = "https://api.github.com"
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
SECRETS = {
    "webhook": "SHARDWARD_WEBHOOK_URL",
    "pagerduty": "SHARDWARD_PAGERDUTY_KEY",
    "slack": "SHARDWARD_SLACK_URL",
    "github": "SHARDWARD_GITHUB_TOKEN",
}
OUTLETS = tuple(SECRETS)


class DeliveryError(ShardwardError):
    """A receiver did not take a message; it stays in the outbox."""


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
    """One message to one outlet: `state` is pending, delivered or failed; `reply` its last."""

    outlet: str
    name: str
    state: str
    reply: str


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
            "outcome": report["outcome"],
            "summary": visible(report["summary"], 1000),
            "onset": report["detection"]["onset"],
            "detected": report["detection"]["detected"],
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
    for outlet in outlets:
        secret_of(outlet, environment)
        if outlet == "github" and not repository:
            raise UsageError("the github outlet needs a repository; give OWNER/NAME")
        _keep(incident, outlet, message, repository)
    return deliver(incident, environment=environment, transport=transport, pause=pause)


def deliver(
    incident: Incident,
    *,
    environment: Mapping[str, str] | None = None,
    transport: Transport | None = None,
    pause: Callable[[float], None] | None = None,
) -> list[Delivery]:
    """Try everything in the outbox that was not delivered; delivered messages are never resent."""
    environment = os.environ if environment is None else environment
    with exclusive_lock(incident.path / OUTBOX / "lock"):
        return [
            _deliver_one(path, environment, transport, pause)
            for path in sorted((incident.path / OUTBOX).glob("*.message.json"))
        ]


def secret_of(outlet: str, environment: Mapping[str, str]) -> str:
    """Return an outlet's secret; UsageError names the variable that is not set."""
    if outlet not in SECRETS:
        raise UsageError(f"unknown outlet {outlet!r}; choose among {', '.join(OUTLETS)}")
    value = environment.get(SECRETS[outlet], "")
    if not value:
        raise UsageError(f"the outlet {outlet} needs {SECRETS[outlet]} in the environment")
    return value


def _keep(incident: Incident, outlet: str, message: Message, repository: str | None) -> None:
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
    publish_new(incident.path / OUTBOX / f"{outlet}-{sha256_hex(data)[:12]}.message.json", data)


def _deliver_one(
    path: Path,
    environment: Mapping[str, str],
    transport: Transport | None,
    pause: Callable[[float], None] | None,
) -> Delivery:
    receipt = path.with_name(path.name.replace(".message.", ".receipt."))
    value = parse_json(path.read_bytes(), where=str(path))
    check_format(value, name=FORMAT, version=1, where=str(path))
    outlet = value["outlet"]
    if receipt.exists():
        said = parse_json(receipt.read_bytes(), where=str(receipt))
        if said["state"] == "delivered":
            return Delivery(outlet=outlet, name=path.name, state="delivered", reply=said["reply"])
    try:
        secret = secret_of(outlet, environment)
        reply = _SENDERS[outlet](value, secret, _Sender(environment, transport, pause))
        state, words = ("delivered" if reply.ok else "failed"), reply.words
    except (DeliveryError, UsageError) as error:
        state, words = "pending", str(error)
    write_atomic(receipt, canonical_json({"state": state, "reply": words}))
    return Delivery(outlet=outlet, name=path.name, state=state, reply=words)


@dataclass(frozen=True, slots=True)
class _Sender:
    environment: Mapping[str, str]
    transport: Transport | None
    pause: Callable[[float], None] | None

    def __call__(
        self, method: str, url: str, body: object, headers: Mapping[str, str] | None = None
    ) -> Reply:
        reply = send_with_retries(
            method, url, body, headers or {}, transport=self.transport, pause=self.pause
        )
        if reply.retryable:
            raise DeliveryError(f"not delivered yet: {reply.words}")
        return reply


def _webhook(value: Mapping[str, Any], secret: str, send: _Sender) -> Reply:
    body = {"schema_version": 1, **{k: value[k] for k in ("key", "action", "title", "severity")}}
    return send(
        "POST", secret, {**body, "facts": value["facts"]}, {"Idempotency-Key": _once(value)}
    )


def _pagerduty(value: Mapping[str, Any], secret: str, send: _Sender) -> Reply:
    body = {
        "routing_key": secret,
        "event_action": value["action"],
        "dedup_key": value["key"],
        "payload": {
            "summary": value["title"],
            "source": f"shardward run {value['facts']['run']}",
            "severity": value["severity"],
            "custom_details": value["facts"],
        },
    }
    return send("POST", send.environment.get("SHARDWARD_PAGERDUTY_URL", PAGERDUTY), body)


def _slack(value: Mapping[str, Any], secret: str, send: _Sender) -> Reply:
    # Slack reads only these three characters as markup.
    text = f"{value['title']}\n{value['facts']['summary']}\n{_once(value)}"
    for plain, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, safe)
    return send("POST", secret, {"text": text})


def _github(value: Mapping[str, Any], secret: str, send: _Sender) -> Reply:
    """Create the issue of this incident, or update the one that bears its key."""
    base = send.environment.get("SHARDWARD_GITHUB_URL", GITHUB).rstrip("/")
    issues = f"{base}/repos/{value['repository']}/issues"
    headers = {"Authorization": f"Bearer {secret}", "Accept": "application/vnd.github+json"}
    marker = f"<!-- {value['key']} -->"
    body = f"{markdown_text(value['facts']['summary'], 1000)}\n\n{marker}\n"
    content = {"title": value["title"], "body": body, "labels": ["shardward"]}
    for page in range(1, MOST_PAGES + 1):
        query = f"?state=all&labels=shardward&per_page={PAGE}&page={page}"
        found = send("GET", issues + query, None, headers)
        if not found.ok:
            return found
        listed = _issues(found)
        for issue in listed:
            if marker in str(issue.get("body")):
                state = "closed" if value["action"] == "resolve" else "open"
                place = f"{issues}/{int(issue['number'])}"
                return send("PATCH", place, {**content, "state": state}, headers)
        if len(listed) < PAGE:
            break
    return send("POST", issues, content, headers)


def _issues(reply: Reply) -> list[dict[str, Any]]:
    try:
        value = json.loads(reply.body)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DeliveryError(f"the list of issues is not JSON ({error})") from error
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _once(value: Mapping[str, Any]) -> str:
    return f"{value['key']}-{value['action']}"


_SENDERS: Mapping[str, Callable[[Mapping[str, Any], str, _Sender], Reply]] = {
    "webhook": _webhook,
    "pagerduty": _pagerduty,
    "slack": _slack,
    "github": _github,
}
