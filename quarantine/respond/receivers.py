"""The receivers of messages: webhook, PagerDuty, Slack-compatible webhook and GitHub issues.

Secrets come from the environment, without the line end that mounted secrets have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ...loader.errors import ShardwardError, UsageError
from ...loader.formats import canonical_json, sha256_hex
from .safe_text import markdown_text
from .sending import Reply, Transport, send_with_retries

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


def secret_of(outlet: str, environment: Mapping[str, str]) -> str:
    """Return an outlet's secret, stripped; it is in no message of an error.

    Raises:
        UsageError: the outlet is unknown, its variable is not set, or holds characters that no
            header or address can carry.
    """
    if outlet not in SECRETS:
        raise UsageError(f"unknown outlet {outlet!r}; choose among {', '.join(OUTLETS)}")
    value = environment.get(SECRETS[outlet], "").strip()
    if not value:
        raise UsageError(f"the outlet {outlet} needs {SECRETS[outlet]} in the environment")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise UsageError(
            f"{SECRETS[outlet]} holds spaces, line ends or characters outside ASCII, which cannot "
            "be sent; set it to the bare secret"
        )
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sends with retries; DeliveryError when no answer came that settles it."""

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


def _webhook(value: Mapping[str, Any], secret: str, send: Sender) -> Reply:
    body = {"schema_version": 1, **{k: value[k] for k in ("key", "action", "title", "severity")}}
    return send(
        "POST", secret, {**body, "facts": value["facts"]}, {"Idempotency-Key": _once(value)}
    )


def _pagerduty(value: Mapping[str, Any], secret: str, send: Sender) -> Reply:
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
    return send("POST", _api(send, "SHARDWARD_PAGERDUTY_URL", PAGERDUTY), body)


def _slack(value: Mapping[str, Any], secret: str, send: Sender) -> Reply:
    # Slack reads only these three characters as markup.
    text = f"{value['title']}\n{value['facts']['summary']}\n{_once(value)}"
    for plain, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, safe)
    return send("POST", secret, {"text": text})


def _github(value: Mapping[str, Any], secret: str, send: Sender) -> Reply:
    """Create the issue of this incident, or update the one that bears its key.

    Of an issue that is there, only the state and the text between this program's two marks
    change: title, labels and whatever people wrote around it are theirs.
    """
    base = _api(send, "SHARDWARD_GITHUB_URL", GITHUB)
    issues = f"{base}/repos/{value['repository']}/issues"
    headers = {"Authorization": f"Bearer {secret}", "Accept": "application/vnd.github+json"}
    begin, end = f"<!-- {value['key']} -->", f"<!-- /{value['key']} -->"
    text = f"{begin}\n{markdown_text(value['facts']['summary'], 1000)}\n{end}"
    content = {"title": value["title"], "body": f"{text}\n", "labels": ["shardward"]}
    for page in range(1, MOST_PAGES + 1):
        query = f"?state=all&labels=shardward&per_page={PAGE}&page={page}"
        found = send("GET", issues + query, None, headers)
        if not found.ok:
            return found
        listed = _issues(found)
        for issue in listed:
            body = str(issue.get("body"))
            if begin in body:
                update = {"state": "closed" if value["action"] == "resolve" else "open"}
                before, _, rest = body.partition(begin)
                _, found_end, after = rest.partition(end)
                if found_end:
                    update["body"] = before + text + after
                return send("PATCH", f"{issues}/{int(issue['number'])}", update, headers)
        if len(listed) < PAGE:
            break
    return send("POST", issues, content, headers)


def _issues(reply: Reply) -> list[dict[str, Any]]:
    try:
        value = json.loads(reply.body)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DeliveryError(f"the list of issues is not JSON ({error})") from error
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _api(send: Sender, variable: str, default: str) -> str:
    """Return the address of a service that gets a token; plain http is for this machine only."""
    address = send.environment.get(variable, default).strip().rstrip("/")
    parts = urlsplit(address)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise UsageError(
            f"{variable} is a plain http address, which would show the token; use https"
        )
    return address


def _once(value: Mapping[str, Any]) -> str:
    """Return a key that is the same for every try of a message, and another for every message."""
    return f"{value['key']}-{value['action']}-{sha256_hex(canonical_json(value))[:12]}"


RECEIVERS: Mapping[str, Callable[[Mapping[str, Any], str, Sender], Reply]] = {
    "webhook": _webhook,
    "pagerduty": _pagerduty,
    "slack": _slack,
    "github": _github,
}
