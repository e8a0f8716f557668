"""What was told once is not told twice: issues without their label, answers that were lost."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from helpers_outlets import Receiver, message, quiet, secrets

from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.outlets import deliver, post


@pytest.fixture
def incident(tmp_path: Path) -> Incident:
    return IncidentStore(tmp_path).open(onset=10, detected=12, actor="kim")


class GitHub:
    """Issues that can be listed by label, read, searched, made and changed."""

    def __init__(self, receiver: Receiver) -> None:
        self.issues: list[dict[str, Any]] = []
        self.receiver = receiver
        receiver.answers = [self.answer]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        method, path, body, _ = self.receiver.requests[-1]
        data = json.dumps(self.of(method, path.partition("?")[0], unquote(path), body)).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def of(self, method: str, path: str, whole: str, body: dict[str, Any]) -> object:
        if method == "POST":
            self.issues.append({**body, "number": len(self.issues) + 1})
            return self.issues[-1]
        if path.startswith("/search"):
            wanted = whole.split('"')[1]
            return {"items": [issue for issue in self.issues if wanted in issue["body"]]}
        number = path.rpartition("/")[2]
        if number.isdigit():
            issue = self.issues[int(number) - 1]
            issue.update(body)
            return issue
        return [issue for issue in self.issues if "shardward" in issue["labels"]]


def tell(incident: Incident, receiver: Receiver, outlet: str, action: str = "trigger") -> Any:
    return post(
        incident,
        message(action),
        [outlet],
        repository="o/r",
        environment=secrets(receiver),
        pause=quiet,
    )[-1]


@pytest.mark.parametrize("noted", [True, False], ids=["by its number", "by a search"])
def test_an_issue_whose_label_was_removed_is_changed_and_not_made_again(
    incident: Incident, receiver: Receiver, noted: bool
) -> None:
    github = GitHub(receiver)
    tell(incident, receiver, "github")
    github.issues[0]["labels"] = []
    if not noted:
        for receipt in (incident.path / "outbox").glob("*.receipt.json"):
            known = json.loads(receipt.read_bytes())
            receipt.write_text(json.dumps({**known, "reference": ""}))

    assert tell(incident, receiver, "github", "resolve").state == "delivered"

    assert [issue["state"] for issue in github.issues] == ["closed"]


def test_a_noted_issue_that_is_about_something_else_is_left_alone(
    incident: Incident, receiver: Receiver
) -> None:
    github = GitHub(receiver)
    tell(incident, receiver, "github")
    github.issues[0]["body"] = "someone wrote this anew"

    tell(incident, receiver, "github", "resolve")

    assert github.issues[0]["body"] == "someone wrote this anew"
    assert len(github.issues) == 2


def lose_the_answer(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.close()


def test_a_slack_message_that_may_be_there_twice_says_so_and_the_tries_are_kept(
    incident: Incident, receiver: Receiver
) -> None:
    receiver.answers = [lose_the_answer]
    assert tell(incident, receiver, "slack").state == "pending"
    assert "sent again" not in receiver.bodies[0]["text"]
    receiver.answers = [(200, {})]

    [sent] = deliver(incident, environment=secrets(receiver), pause=quiet)

    assert (sent.state, sent.tries) == ("delivered", len(receiver.requests))
    assert "sent again" in receiver.bodies[-1]["text"]
    key = receiver.bodies[0]["text"].splitlines()[2]
    assert key in receiver.bodies[-1]["text"]


def test_a_crash_while_a_message_is_sent_leaves_it_marked_as_perhaps_taken(
    incident: Incident, receiver: Receiver
) -> None:
    def crash(*_: object) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        post(incident, message(), ["slack"], environment=secrets(receiver), transport=crash)

    deliver(incident, environment=secrets(receiver), pause=quiet)

    assert "sent again" in receiver.bodies[-1]["text"]
