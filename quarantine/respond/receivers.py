"""The receivers of messages: webhook, PagerDuty, Slack-compatible webhook and GitHub issues.

Secrets come from the environment, without the line end that mounted secrets have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlsplit

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
    """Sends with retries; DeliveryError when no answer came that settles it.

    `reference` is what the receiver called the thing that an earlier message made, and `unsure`
    says that an earlier try of this message may have been taken without an answer.
    """

    environment: Mapping[str, str]
    transport: Transport | None
    pause: Callable[[float], None] | None
    reference: str = ""
    unsure: bool = False

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
    if send.unsure:
        text += "\n(sent again: an earlier try had no answer, so this may be here twice)"
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
    found = _find_issue(value, base, headers, send)
    if isinstance(found, Reply):
        return found
    if found is None:
        content = {"title": value["title"], "body": f"{text}\n", "labels": ["shardward"]}
        return _numbered(send("POST", issues, content, headers))
    update = {"state": "closed" if value["action"] == "resolve" else "open"}
    before, _, rest = str(found.get("body")).partition(begin)
    _, found_end, after = rest.partition(end)
    if found_end:
        update["body"] = before + text + after
    number = int(found["number"])
    done = send("PATCH", f"{issues}/{number}", update, headers)
    return replace(done, reference=str(number)) if done.ok else done


def _find_issue(
    value: Mapping[str, Any], base: str, headers: Mapping[str, str], send: Sender
) -> dict[str, Any] | Reply | None:
    """Return the issue that bears the key, None if there is none, or a reply that refuses.

    The number that was noted when it was made is asked for first, then the issues with the label,
    and then the search for the key in all bodies, since people remove labels.
    """
    mark, repository = f"<!-- {value['key']} -->", f"{base}/repos/{value['repository']}/issues"
    if send.reference:
        noted = send("GET", f"{repository}/{send.reference}", None, headers)
        bearing = [each for each in _issues(noted) if mark in str(each.get("body"))]
        if noted.ok and bearing:
            return bearing[0]
    for page in range(1, MOST_PAGES + 1):
        query = f"?state=all&labels=shardward&per_page={PAGE}&page={page}"
        listed = send("GET", repository + query, None, headers)
        if not listed.ok:
            return listed
        for issue in _issues(listed):
            if mark in str(issue.get("body")):
                return issue
        if len(_issues(listed)) < PAGE:
            break
    wanted = quote(f'repo:{value["repository"]} is:issue in:body "{value["key"]}"')
    searched = send("GET", f"{base}/search/issues?q={wanted}", None, headers)
    if not searched.ok:
        return searched
    return next((issue for issue in _issues(searched) if mark in str(issue.get("body"))), None)


def _numbered(reply: Reply) -> Reply:
    """Return the reply with the number of the issue that it speaks of."""
    known = [issue.get("number") for issue in _issues(reply)] if reply.ok else []
    return replace(reply, reference=str(known[0])) if known and known[0] else reply


def _issues(reply: Reply) -> list[dict[str, Any]]:
    """Return the issues in a reply: a list, one issue, or the items of a search."""
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError) as error:  # also an integer of thousands of digits
        raise DeliveryError(f"the answer about issues is not JSON ({error})") from error
    if isinstance(value, dict):
        value = value.get("items", [value])
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
