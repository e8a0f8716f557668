"""Outlets against a real HTTP server on the loopback that fails, times out and answers twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from helpers_outlets import Receiver, message, quiet, secrets
from jsonschema import Draft202012Validator

from shardward.loader.errors import UsageError
from shardward.quarantine.respond import sending
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.outlets import deliver, post
from shardward.schemas import load_schema


@pytest.fixture
def incident(tmp_path: Path) -> Incident:
    return IncidentStore(tmp_path).open(onset=10, detected=12, actor="kim")


@pytest.fixture
def environment(receiver: Receiver) -> dict[str, str]:
    return secrets(receiver)


def tell(incident: Incident, environment: dict[str, str], *outlets: str, **more: Any) -> list[str]:
    sent = post(
        incident, more.pop("message", message()), outlets, environment=environment, pause=quiet,
        **more,
    )  # fmt: skip
    return [each.state for each in sent]


def test_a_webhook_gets_the_message_and_its_key(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    assert tell(incident, environment, "webhook") == ["delivered"]

    [(method, path, body, headers)] = receiver.requests
    assert (method, path) == ("POST", "/hook?token=s3cret")
    assert (body["schema_version"], body["key"]) == (1, "shardward-r1-INC-0001")
    assert headers["Idempotency-Key"].startswith("shardward-r1-INC-0001-trigger-")


def test_pagerduty_gets_an_events_v2_body_with_a_dedup_key(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    tell(incident, environment, "pagerduty")
    tell(incident, environment, "pagerduty", message=message("resolve"))

    assert [b["event_action"] for b in receiver.bodies] == ["trigger", "resolve"]
    assert {b["dedup_key"] for b in receiver.bodies} == {"shardward-r1-INC-0001"}
    first = receiver.bodies[0]
    assert first["routing_key"] == "s3cret"
    assert set(first["payload"]) >= {"summary", "source", "severity"}


def test_slack_text_cannot_mention_the_channel(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    tell(incident, environment, "slack")

    text = receiver.bodies[0]["text"]
    assert "&lt;!channel&gt; &amp; more" in text
    assert "<" not in text


def test_a_github_issue_is_created_once_and_updated_after(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [(200, []), (200, {"items": []}), (201, {"number": 7})]
    tell(incident, environment, "github", repository="o/r")
    created = receiver.bodies[2]
    receiver.answers = [(200, {"number": 7, "body": created["body"]}), (200, {})]
    tell(incident, environment, "github", repository="o/r", message=message("resolve"))

    assert [(m, p.partition("?")[0]) for m, p, _, _ in receiver.requests] == [
        ("GET", "/repos/o/r/issues"),
        ("GET", "/search/issues"),
        ("POST", "/repos/o/r/issues"),
        ("GET", "/repos/o/r/issues/7"),
        ("PATCH", "/repos/o/r/issues/7"),
    ]
    assert receiver.bodies[4]["state"] == "closed"
    assert receiver.requests[0][3]["Authorization"] == "Bearer s3cret"


def test_a_refused_search_makes_no_second_issue_and_is_asked_again(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [(200, []), (403, {"message": "rate limit"})]
    assert tell(incident, environment, "github", repository="o/r") == ["failed"]
    assert "POST" not in [method for method, _, _, _ in receiver.requests]

    receiver.answers = [(200, []), (200, {"items": []}), (201, {"number": 7})]
    sent = deliver(incident, environment=environment, pause=quiet)

    assert [each.state for each in sent] == ["delivered"]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_retried_with_growing_pauses(
    incident: Incident, receiver: Receiver, environment: dict[str, str], status: int
) -> None:
    pauses: list[float] = []
    receiver.answers = [(status, {}), (status, {}), (200, {})]

    sent = post(incident, message(), ["webhook"], environment=environment, pause=pauses.append)

    assert [(each.state, each.tries) for each in sent] == [("delivered", 3)]
    assert len(receiver.requests) == 3
    assert pauses[0] < pauses[1]


def test_a_refusal_is_not_repeated(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [(403, {})]

    assert tell(incident, environment, "webhook") == ["failed"]
    assert len(receiver.requests) == 1


def test_nothing_is_lost_while_the_receiver_is_down(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [(503, {})]
    assert tell(incident, environment, "webhook", "pagerduty") == ["pending", "pending"]

    receiver.answers = [(200, {})]
    receiver.requests.clear()
    sent = deliver(incident, environment=environment, pause=quiet)

    assert [each.state for each in sent] == ["delivered", "delivered"]
    assert len(receiver.requests) == 2


def test_what_was_delivered_is_never_sent_again(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    tell(incident, environment, "webhook")
    tell(incident, environment, "webhook")
    deliver(incident, environment=environment, pause=quiet)

    assert len(receiver.requests) == 1


def test_a_closed_port_leaves_the_message_pending(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.close()

    assert tell(incident, environment, "webhook") == ["pending"]


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 2")
    handler.close_connection = True


def answer_twice(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" * 2)


def answer_late(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(0.4)
    handler.close_connection = True


def test_an_answer_cut_short_is_tried_again(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [hang_up, (200, {})]

    assert tell(incident, environment, "webhook") == ["delivered"]


def test_a_receiver_that_answers_twice_gets_the_message_once(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [answer_twice]

    assert tell(incident, environment, "webhook") == ["delivered"]
    assert len(receiver.requests) == 1


def test_a_receiver_that_times_out_gets_the_same_key_again(
    incident: Incident,
    receiver: Receiver,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "TIMEOUT", 0.1)
    receiver.answers = [answer_late, (200, {})]

    assert tell(incident, environment, "pagerduty") == ["delivered"]
    assert [b["dedup_key"] for b in receiver.bodies] == ["shardward-r1-INC-0001"] * 2


def answer_garbage(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\x1b[31m" + b"\xffg" * 5000 + b"\r\n\r\n")
    handler.close_connection = True


def test_of_an_answer_that_is_no_http_only_a_little_is_kept_and_none_of_it_acts(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [answer_garbage]

    [sent] = post(incident, message(), ["webhook"], environment=environment, pause=quiet)

    assert (sent.state, len(sent.reply), sent.reply.isprintable()) == ("pending", 200, True)
    [receipt] = (incident.path / "outbox").glob("*.receipt.json")
    assert json.loads(receipt.read_text())["reply"] == sent.reply


@pytest.mark.parametrize("body", ["9" * 5000, "[" * 100_000, "no JSON"])
def test_an_answer_about_issues_that_nobody_can_read_leaves_the_message_pending(
    incident: Incident, environment: dict[str, str], body: str
) -> None:
    def unreadable(*_: object) -> sending.Reply:
        return sending.Reply(status=200, body=body.encode(), words="status 200")

    assert tell(incident, environment, "github", repository="o/r", transport=unreadable) == [
        "pending"
    ]


def drip(status: int, head: bytes, end: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return a whole answer whose middle, 300 blanks, comes a byte at a time."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        with suppress(OSError):
            handler.wfile.write(f"HTTP/1.1 {status} X\r\n".encode() + head)
            for _ in range(300):
                handler.wfile.write(b" ")
                time.sleep(0.01)
            handler.wfile.write(end)

    return answer


@pytest.mark.parametrize("status", [200, 400, 302])
@pytest.mark.parametrize(
    ("head", "end"),
    [
        (b"Content-Length: 300\r\n\r\n", b""),
        (b"Content-Length: 0\r\nX-Slow: ", b"\r\n\r\n"),
    ],
    ids=["body", "header"],
)
def test_an_answer_that_drips_is_given_up_at_the_deadline_and_asked_for_again(
    incident: Incident,
    receiver: Receiver,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    head: bytes,
    end: bytes,
) -> None:
    monkeypatch.setattr(sending, "TIMEOUT", 0.2)
    receiver.answers = [drip(status, head, end), (200, {})]

    assert tell(incident, environment, "webhook") == ["delivered"]
    assert len(receiver.requests) == 2


def test_a_redirect_is_not_followed_so_the_secret_stays_here(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [(302, {})]

    assert tell(incident, environment, "slack") == ["failed"]
    assert [p for _, p, _, _ in receiver.requests] == ["/services/s3cret"]


def test_secrets_are_never_written_down(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    receiver.answers = [(503, {})]
    tell(incident, environment, "webhook", "pagerduty", "slack", "github", repository="o/r")

    written = [p.read_text() for p in incident.path.rglob("*") if p.is_file()]
    assert not [text for text in written if "s3cret" in text]
    validator = Draft202012Validator(load_schema("message.v1"))
    for path in (incident.path / "outbox").glob("*.message.json"):
        validator.validate(json.loads(path.read_text()))


@pytest.mark.parametrize("outlet", ["webhook", "pagerduty", "slack", "github"])
def test_a_missing_secret_is_named_before_anything_is_kept(incident: Incident, outlet: str) -> None:
    with pytest.raises(UsageError, match="SHARDWARD_"):
        post(incident, message(), [outlet], repository="o/r", environment={})
    assert not (incident.path / "outbox").exists()


def test_an_address_that_is_no_url_stays_pending_with_the_reason(incident: Incident) -> None:
    sent = post(
        incident, message(), ["webhook"], environment={"SHARDWARD_WEBHOOK_URL": "file:///etc/x"}
    )

    assert (sent[0].state, "no http or https URL" in sent[0].reply) == ("pending", True)


def test_a_crash_after_the_answer_and_before_the_receipt_sends_the_same_key(
    incident: Incident, receiver: Receiver, environment: dict[str, str]
) -> None:
    tell(incident, environment, "pagerduty")
    for receipt in (incident.path / "outbox").glob("*.receipt.json"):
        receipt.unlink()

    deliver(incident, environment=environment, pause=quiet)

    assert len({b["dedup_key"] for b in receiver.bodies}) == 1
