"""A receiver that asks to be left alone is: shortly within one delivery, else until the next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from helpers_outlets import Receiver, message, secrets

from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.outlets import deliver, post


@pytest.fixture
def incident(tmp_path: Path) -> Incident:
    return IncidentStore(tmp_path).open(onset=10, detected=12, actor="kim")


def asks(status: int, after: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Retry-After", after)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("after", ["7", in_seconds(3600)], ids=["seconds", "date"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_short_pause_is_kept_and_a_long_one_ends_the_tries(
    incident: Incident, receiver: Receiver, status: int, after: str
) -> None:
    pauses: list[float] = []
    receiver.answers = [asks(status, after), (200, {})]

    [sent] = post(
        incident, message(), ["webhook"], environment=secrets(receiver), pause=pauses.append
    )

    if after == "7":
        assert (sent.state, pauses) == ("delivered", [7.0])
    else:
        assert (sent.state, sent.tries, pauses) == ("pending", 1, [])
        assert "asks to wait 3" in sent.reply
        [sent] = deliver(incident, environment=secrets(receiver), pause=pauses.append)
        assert sent.state == "delivered"


@pytest.mark.parametrize(
    "after",
    [
        "soon",
        "-5",
        "",
        "9e9",
        "Thu, 99 Foo 2020 25:61:61 GMT",
        "Mon, 30 Nov 2020 01:31:07 GMT",
        "\uff11",
    ],
)
def test_a_wish_that_means_nothing_changes_no_pause(
    incident: Incident, receiver: Receiver, after: str
) -> None:
    pauses: list[float] = []
    receiver.answers = [asks(429, after.encode().decode("latin-1")), (200, {})]

    [sent] = post(
        incident, message(), ["webhook"], environment=secrets(receiver), pause=pauses.append
    )

    assert sent.state == "delivered"
    assert 0.4 <= pauses[0] <= 0.6


def test_a_huge_wish_is_no_overflow(incident: Incident, receiver: Receiver) -> None:
    receiver.answers = [asks(429, "9" * 400)]

    [sent] = post(incident, message(), ["slack"], environment=secrets(receiver))

    assert (sent.state, sent.reply) == (
        "pending",
        "not delivered yet: status 429, asks to wait 1000000000 s",
    )


def test_a_limit_that_github_says_with_403_is_no_refusal(
    incident: Incident, receiver: Receiver
) -> None:
    receiver.answers = [asks(403, "60")]

    [sent] = post(incident, message(), ["github"], repository="o/r", environment=secrets(receiver))

    assert sent.state == "pending"
    assert "POST" not in [method for method, _, _, _ in receiver.requests]
