"""The outbox keeps order and secrets; receivers keep what people wrote."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from helpers_outlets import Receiver, message, quiet, secrets

from shardward.loader.errors import UsageError
from shardward.quarantine.respond import response, sending
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.outlets import Delivery, deliver, outbox, page_message, post
from shardward.quarantine.respond.sending import Reply
from shardward.quarantine.respond.side_by_side import side_by_side


@pytest.fixture
def incident(tmp_path: Path) -> Incident:
    return IncidentStore(tmp_path).open(onset=10, detected=12, actor="kim")


def tell(
    incident: Incident, environment: dict[str, str], outlet: str, *messages: Any
) -> list[Delivery]:
    for each in messages:
        sent = post(
            incident, each, [outlet], environment=environment, pause=quiet, repository="o/r"
        )
    return sent


@pytest.mark.parametrize("outlet", ["webhook", "pagerduty", "slack", "github"])
def test_the_line_end_of_a_mounted_secret_is_stripped(
    incident: Incident, receiver: Receiver, outlet: str
) -> None:
    receiver.answers = [(200, [])]
    environment = {name: f"{value}\r\n" for name, value in secrets(receiver).items()}

    [sent] = tell(incident, environment, outlet, message())

    assert sent.state == "delivered"
    assert "\n" not in str(receiver.requests)


@pytest.mark.parametrize("secret", ["ghp_SECRET\nx", "ghp_SECRETé", "ghp SECRET"])
def test_a_secret_that_no_header_carries_is_refused_and_not_shown(
    incident: Incident, secret: str
) -> None:
    with pytest.raises(UsageError, match="SHARDWARD_GITHUB_TOKEN holds") as refused:
        tell(incident, {"SHARDWARD_GITHUB_TOKEN": secret}, "github", message())

    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("value", ["Bearer SECRET\n", "Bearer SECRET\u20ac"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_text(
    receiver: Receiver, value: str
) -> None:
    with pytest.raises(UsageError) as refused:
        sending.send("POST", receiver.url, b"{}", {"Authorization": value})

    assert "SECRET" not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("path", ["/SECRET\x01", "/SECRET x"])
def test_an_address_that_cannot_be_sent_is_refused_without_its_text(
    receiver: Receiver, path: str
) -> None:
    with pytest.raises(UsageError) as refused:
        sending.send("POST", receiver.url + path, b"{}", {})

    assert "SECRET" not in str(refused.value)


def test_an_answer_that_quotes_the_secret_is_redacted(incident: Incident) -> None:
    def echo(*_: object) -> Reply:
        return Reply(status=401, body=b"", words="bad key s3cret")

    [sent] = post(
        incident,
        message(),
        ["pagerduty"],
        environment={"SHARDWARD_PAGERDUTY_KEY": "s3cret"},
        transport=echo,
    )

    assert sent.reply == "bad key ***"


def test_a_token_is_not_sent_over_plain_http_to_another_host(incident: Incident) -> None:
    environment = {"SHARDWARD_GITHUB_TOKEN": "s3cret", "SHARDWARD_GITHUB_URL": "http://git.example"}

    [sent] = tell(incident, environment, "github", message())

    assert (sent.state, "use https" in sent.reply) == ("pending", True)


def test_messages_are_delivered_in_the_order_in_which_they_were_made(
    incident: Incident, receiver: Receiver
) -> None:
    rounds = [message(a, round=n) for n in range(1, 9) for a in ("trigger", "resolve")]
    receiver.answers = [(503, {})]
    tell(incident, secrets(receiver), "pagerduty", *rounds)
    receiver.answers = [(200, {})]
    receiver.requests.clear()

    sent = deliver(incident, environment=secrets(receiver), pause=quiet)

    assert {each.state for each in sent} == {"delivered"}
    assert [body["event_action"] for body in receiver.bodies] == ["trigger", "resolve"] * 8


def test_nothing_overtakes_a_message_that_is_pending(
    incident: Incident, receiver: Receiver
) -> None:
    receiver.answers = [*[(503, {})] * 5, (200, {})]
    tell(incident, secrets(receiver), "pagerduty", message())

    receiver.answers = [(503, {})]
    sent = tell(incident, secrets(receiver), "pagerduty", message("resolve"))

    assert [each.state for each in sent] == ["pending", "pending"]
    assert {body["event_action"] for body in receiver.bodies} == {"trigger"}


def test_a_refused_trigger_is_not_sent_after_the_resolve_that_was_taken(
    incident: Incident, receiver: Receiver
) -> None:
    receiver.answers = [(403, {}), (403, {}), (200, {})]
    tell(incident, secrets(receiver), "pagerduty", message(), message("resolve"))
    receiver.requests.clear()

    sent = deliver(incident, environment=secrets(receiver), pause=quiet)

    assert [each.state for each in sent] == ["superseded", "delivered"]
    assert [each.state for each in outbox(incident)] == ["superseded", "delivered"]
    assert "status 403; a later message was taken" in sent[0].reply
    assert not receiver.requests


def test_each_filing_has_an_idempotency_key_of_its_own_and_each_try_the_same(
    incident: Incident, receiver: Receiver
) -> None:
    receiver.answers = [(503, {}), (200, {})]
    filings = (message("resolve", round=1), message("resolve", round=2))
    tell(incident, secrets(receiver), "webhook", *filings)

    keys = [headers["Idempotency-Key"] for _, _, _, headers in receiver.requests]
    assert len(keys) == 3
    assert keys[0] == keys[1] != keys[2]


def test_an_issue_keeps_the_title_labels_and_words_of_people(
    incident: Incident, receiver: Receiver
) -> None:
    receiver.answers = [(200, []), (200, {"items": []}), (201, {})]
    tell(incident, secrets(receiver), "github", message())
    created = receiver.bodies[2]
    edited = f"Our notes.\n\n{created['body']}\nSee also #3."
    receiver.answers = [(200, [{"number": 7, "body": edited}]), (200, {})]

    tell(incident, secrets(receiver), "github", message("resolve", summary="all is well"))

    update = receiver.bodies[-1]
    assert set(update) == {"state", "body"}
    assert update["state"] == "closed"
    assert update["body"].startswith("Our notes.\n\n<!--")
    assert update["body"].endswith("See also #3.")
    assert "all is well" in update["body"]
    assert "A spike" not in update["body"]


def test_an_issue_whose_end_mark_was_removed_keeps_its_whole_body(
    incident: Incident, receiver: Receiver
) -> None:
    receiver.answers = [(200, [{"number": 7, "body": "<!-- shardward-r1-INC-0001 --> ours"}])]

    tell(incident, secrets(receiver), "github", message("resolve"))

    assert receiver.bodies[-1] == {"state": "closed"}


def test_a_page_calls_a_person_when_the_incident_opens_and_when_it_is_confirmed(
    incident: Incident, receiver: Receiver
) -> None:
    opened = page_message(incident, "r1")
    response.confirm(incident, verdict="confirmed", checklist={}, panels={}, actor="kim")
    confirmed = page_message(incident, "r1")
    tell(incident, secrets(receiver), "pagerduty", opened, confirmed)

    assert [body["event_action"] for body in receiver.bodies] == ["trigger", "trigger"]
    assert {body["dedup_key"] for body in receiver.bodies} == {opened.key}
    assert "step 10, detected at step 12" in opened.title
    assert "confirmed" in confirmed.title


def test_a_receiver_that_does_not_answer_holds_up_no_other(
    incident: Incident, receiver: Receiver
) -> None:
    reached = threading.Event()

    def transport(_: str, url: str, __: object, ___: object) -> Reply:
        if url.endswith("/v2/enqueue"):
            reached.set()
            return Reply(status=202, body=b"", words="status 202")
        # Answers once PagerDuty was called, and is given up where that waits for this.
        return Reply(status=200 if reached.wait(20) else 500, body=b"", words="")

    sent = post(
        incident, message(), ["webhook", "pagerduty"], environment=secrets(receiver),
        transport=transport, pause=quiet,
    )  # fmt: skip

    assert {each.outlet: each.state for each in sent} == {
        "webhook": "delivered",
        "pagerduty": "delivered",
    }
    assert all(each.tries == 1 for each in sent)


def test_an_error_in_one_lane_is_raised_when_the_others_are_done() -> None:
    done: list[int] = []

    def fail() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        side_by_side([fail, lambda: done.append(1)])
    assert done == [1]
