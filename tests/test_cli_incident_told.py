"""`shardward incident … --to`: a person is called at once, and told when it is over."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from helpers_incident import Desk
from helpers_outlets import Receiver, secrets
from helpers_respond import make_corpus

from shardward.quarantine.respond import sending
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision, active_skips


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, make_corpus(tmp_path, documents=300, group=10))


def test_a_person_is_called_when_it_opens_and_is_confirmed_and_told_when_it_is_filed(
    desk: Desk, receiver: Receiver
) -> None:
    env = secrets(receiver)
    for words in (
        ("open", "--onset", "60", "--detected", "62"),
        ("confirm", "INC-0001"),
    ):
        result = desk.type(*words, "--to", "pagerduty", "--yes", env=env)
        assert "trigger: delivered" in result.output, result.output
    desk.json("not-data", "INC-0001", "--reason", "the learning rate", "--yes")
    result = desk.type("file", "INC-0001", "--to", "pagerduty", "--yes", env=env)

    assert "resolve: delivered" in result.output, result.output
    assert [b["event_action"] for b in receiver.bodies] == ["trigger", "trigger", "resolve"]
    assert len({b["dedup_key"] for b in receiver.bodies}) == 1


@pytest.mark.parametrize("words", [("open", "--onset", "60"), ("confirm", "INC-0001")])
def test_a_missing_secret_is_said_before_anything_is_done(
    desk: Desk, words: tuple[str, ...]
) -> None:
    if words[0] == "confirm":
        desk.json("open", "--onset", "60", "--yes")
    before = [len(each.events()) for each in IncidentStore(desk.run.path).all()]

    result = desk.type(*words, "--to", "slack", "--yes", env={"SHARDWARD_SLACK_URL": ""})

    assert (result.exit_code, "SHARDWARD_SLACK_URL" in result.stderr) == (2, True)
    assert [len(each.events()) for each in IncidentStore(desk.run.path).all()] == before


def test_an_evaluation_that_hangs_is_stopped(desk: Desk, tmp_path: Path) -> None:
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    (tmp_path / "eval.py").write_text("import time; time.sleep(60)")
    command = f"{sys.executable} {tmp_path / 'eval.py'} {{spec}}"

    result = desk.type("confirm", "INC-0001", "--eval", command, "--timeout", "0.5", "--yes")

    assert (result.exit_code, "ran past 0.5 s" in result.stderr) == (1, True), result.output


def test_a_skip_that_was_undone_can_be_made_again(desk: Desk) -> None:
    desk.go("rewind")
    log = DecisionLog(desk.run.path, manifest=desk.run.fingerprint)
    skip = ("skip", "INC-0001", "--window", "60-65", "--yes")
    desk.json(*skip)
    log.append(Decision(action="undo", scope=Scope.of_entry(1), reason="wrong", actor="kim"))
    desk.json("reopen", "INC-0001", "--reason", "once more", "--yes")
    for words in (("confirm",), ("identify",), ("rewind",)):
        desk.json(words[0], "INC-0001", *words[1:], "--yes")
    desk.type(*skip)

    assert len(active_skips(log.entries())) == 1


def test_a_page_while_the_receiver_is_down_is_kept_and_delivered_first(
    desk: Desk, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "PAUSES", (0.0, 0.0))
    env = secrets(receiver)
    receiver.answers = [(503, {})]
    opened = desk.type("open", "--onset", "60", "--to", "pagerduty", "--yes", env=env)
    assert (opened.exit_code, "pagerduty trigger: pending" in opened.output) == (0, True)
    assert desk.json("show", "INC-0001")["state"] == "opened"

    waiting = desk.type("deliver", "INC-0001", env=env)
    left = desk.type("deliver", "INC-0001", "--yes", env=env)
    assert "say --yes to send what is left" in waiting.output
    assert (waiting.exit_code, left.exit_code) == (0, 1)
    receiver.answers = [(200, {})]
    receiver.requests.clear()
    desk.json("dismiss", "INC-0001", "--reason", "the logger restarted", "--yes")
    desk.type("file", "INC-0001", "--to", "pagerduty", "--yes", env=env)
    done = desk.type("deliver", "INC-0001", "--yes", env=env)

    assert done.exit_code == 0
    assert [b["event_action"] for b in receiver.bodies] == ["trigger", "resolve"]


def test_an_act_whose_message_was_refused_is_done_and_says_that_nobody_was_called(
    desk: Desk, receiver: Receiver
) -> None:
    env = secrets(receiver)
    receiver.answers = [(400, {})]
    for words in (
        ("open", "--onset", "60", "--detected", "62"),
        ("confirm", "INC-0001"),
    ):
        result = desk.type(*words, "--to", "webhook", "--yes", "--json", env=env)
        assert (result.exit_code, json.loads(result.stdout)["undelivered"]) == (0, ["webhook"])
        assert "warning: webhook refused the trigger (status 400)" in result.stderr
    desk.json("not-data", "INC-0001", "--reason", "the learning rate", "--yes")
    receiver.answers = [(200, {})]

    result = desk.type("file", "INC-0001", "--to", "slack", "--yes", "--json", env=env)

    assert json.loads(result.stdout)["undelivered"] == []
    assert "warning" not in result.stderr


def test_a_refused_trigger_is_named_once_and_holds_up_neither_the_rest_nor_the_exit_code(
    desk: Desk, receiver: Receiver
) -> None:
    env = secrets(receiver)
    receiver.answers = [(403, {})]
    desk.type("open", "--onset", "60", "--to", "pagerduty", "--yes", env=env)
    desk.json("dismiss", "INC-0001", "--reason", "the logger restarted", "--yes")
    receiver.answers = [(403, {}), (503, {})]
    desk.type("file", "INC-0001", "--to", "pagerduty", "--to", "slack", "--yes", env=env)
    refusals = [403]

    def refuse_the_first_page(handler: BaseHTTPRequestHandler) -> None:
        # By address: receivers are called side by side.
        paged = handler.path == "/v2/enqueue"
        handler.send_response(refusals.pop() if paged and refusals else 200)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    receiver.answers = [refuse_the_first_page]

    first = desk.type("deliver", "INC-0001", "--yes", env=env)
    receiver.requests.clear()
    second = desk.type("deliver", "INC-0001", "--yes", "--json", env=env)

    assert first.exit_code == 1
    assert "pagerduty refused the trigger (status 403)" in first.stderr
    assert "slack" not in first.stderr
    sent = json.loads(second.stdout)["sent"]
    assert [(each["outlet"], each["action"], each["state"]) for each in sent] == [
        ("pagerduty", "trigger", "superseded"),
        ("pagerduty", "resolve", "delivered"),
        ("slack", "resolve", "delivered"),
    ]
    assert (second.exit_code, receiver.requests) == (0, [])
