"""`shardward quarantine` from the outside: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers_respond import make_corpus, make_run

from shardward.cli.main import cli
from shardward.quarantine.respond.decisions import DecisionLog


class Desk:
    """A run and a person who types commands."""

    def __init__(self, home: Path) -> None:
        self.manifest = make_corpus(home)
        self.run = make_run(home, self.manifest)

    def type(self, *words: str) -> Result:
        return CliRunner().invoke(
            cli, ["quarantine", *words, "--run", str(self.run.path)], env={"SHARDWARD_ACTOR": "kim"}
        )

    def json(self, *words: str) -> Any:
        result = self.type(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    @property
    def log(self) -> DecisionLog:
        return DecisionLog(self.run.path)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_nothing_is_written_without_yes(desk: Desk) -> None:
    result = desk.type("add", "--doc", "3", "--reason", "junk")

    assert result.exit_code == 0
    assert "would quarantine document 3; say --yes" in result.output
    assert desk.log.entries() == []


def test_a_dry_run_wins_over_yes(desk: Desk) -> None:
    assert desk.json("add", "--doc", "3", "--reason", "r", "--yes", "--dry-run")["done"] is False
    assert desk.log.entries() == []


def test_added_documents_are_listed_with_reason_and_actor(desk: Desk) -> None:
    desk.json("add", "--doc", "3", "--doc", "5", "--reason", "binary junk", "--yes")

    shown = desk.json("list")

    assert shown["schema_version"] == 1
    assert shown["total"] == 2
    assert [d["doc"] for d in shown["documents"]] == [3, 5]
    assert shown["documents"][0]["id"] == "d3"
    assert shown["documents"][0]["reason"] == "binary junk"
    assert shown["documents"][0]["actor"] == "kim"


def test_a_released_document_is_listed_no_more(desk: Desk) -> None:
    desk.json("add", "--shard", "s1.parquet", "--reason", "audit", "--yes")
    desk.json("release", "--doc", "25", "--reason", "harmless", "--yes")

    assert desk.json("list")["total"] == 19


def test_undo_takes_a_decision_back(desk: Desk) -> None:
    desk.json("add", "--doc", "3", "--as", "condemn", "--reason", "toxic", "--yes")
    desk.json("release", "--doc", "3", "--reason", "no", "--yes")
    assert desk.json("list")["total"] == 1

    desk.json("undo", "1", "--reason", "wrong document", "--yes")

    assert desk.json("list")["total"] == 0


def test_all_exact_copies_are_found_from_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    added = desk.json("add", "--copies-of", "7", "--reason", "toxic", "--yes")

    assert added["decision"]["scope"]["documents"] == [7]
    assert len(added["decision"]["scope"]["value"]) == 32


def test_why_a_document_is_out_is_explained_with_its_whole_trail(desk: Desk) -> None:
    desk.json("add", "--shard", "s1.parquet", "--reason", "audit", "--yes")
    desk.json("release", "--doc", "25", "--reason", "harmless", "--yes")

    shown = desk.json("why", "25")

    assert (shown["state"], shown["decision"]) == ("released", 2)
    assert [e["action"] for e in shown["trail"]] == ["quarantine", "release"]
    assert desk.json("why", "26")["state"] == "quarantined"
    assert desk.json("why", "3")["state"] == "clear"
    assert "is released by decision 2" in desk.type("why", "25").output


def test_a_release_that_a_condemnation_outweighs_says_that_nothing_changes(desk: Desk) -> None:
    desk.json("add", "--doc", "25", "--as", "condemn", "--reason", "toxic", "--yes")

    told = desk.type("release", "--doc", "25", "--reason", "harmless").output

    assert "it would change nothing" in told
    assert "it would change nothing" not in desk.type("undo", "1", "--reason", "fine").output


def test_why_names_what_was_taken_back_and_what_brought_it_back(desk: Desk) -> None:
    desk.json("add", "--doc", "25", "--reason", "junk", "--yes")
    desk.json("undo", "1", "--reason", "was fine", "--yes")
    taken_back = desk.json("why", "25")
    desk.json("undo", "2", "--reason", "was not", "--yes")
    desk.json("add", "--doc", "3", "--reason", "another", "--yes")
    desk.json("undo", "4", "--reason", "another", "--yes")

    brought_back = desk.json("why", "25")

    assert taken_back["state"] == "clear"
    assert [e["action"] for e in taken_back["trail"]] == ["quarantine", "undo"]
    assert (brought_back["state"], brought_back["decision"]) == ("quarantined", 1)
    assert [e["sequence"] for e in brought_back["trail"]] == [1, 2, 3]


@pytest.mark.parametrize("how", [(), ("--as", "skip")])
def test_skipped_positions_are_listed(desk: Desk, how: tuple[str, ...]) -> None:
    desk.json("add", "--positions", "0:40-50", *how, "--reason", "spike", "--yes")

    assert [(s["start"], s["end"]) for s in desk.json("list")["skips"]] == [(40, 50)]


@pytest.mark.parametrize("action", ["quarantine", "condemn", "suspect"])
def test_what_is_about_documents_is_not_done_to_positions(desk: Desk, action: str) -> None:
    result = desk.type(
        "add", "--positions", "0:40-50", "--as", action, "--reason", "spike", "--yes"
    )

    assert (result.exit_code, "say --as skip" in result.stderr) == (2, True), result.stderr
    assert desk.log.entries() == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--doc", "999"), 1, "no document 999; the corpus holds 0 to 59"),
        (("--shard", "nope"), 1, "no shard 'nope'"),
        (("--source", "fr"), 1, "no source 'fr'; it has"),
        (("--content", "zz"), 1, "no content hash"),
        (("--content", "0" * 32), 1, "no document of the corpus has the content"),
        (("--positions", "many"), 2, "write EPOCH:START-END"),
        (("--doc", "1", "--source", "en"), 2, "name exactly one"),
        ((), 2, "name exactly one"),
    ],
)
def test_what_does_not_exist_is_refused(
    desk: Desk, words: tuple[str, ...], code: int, message: str
) -> None:
    result = desk.type("add", *words, "--reason", "r", "--yes")

    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert desk.log.entries() == []


def test_an_edited_log_ends_with_exit_code_5(desk: Desk) -> None:
    desk.json("add", "--doc", "3", "--reason", "junk", "--yes")
    desk.json("add", "--doc", "4", "--reason", "junk", "--yes")
    desk.log.path.write_text(desk.log.path.read_text().replace('"actor":"kim"', '"actor":"bob"'))

    result = desk.type("log", "--verify")

    assert result.exit_code == 5
    assert "was edited" in result.stderr


def test_a_clean_log_is_verified(desk: Desk) -> None:
    desk.json("add", "--doc", "3", "--reason", "junk", "--yes")

    shown = desk.json("log", "--verify")

    assert shown["verified"]["count"] == 1
    assert shown["decisions"][0]["action"] == "quarantine"
    assert "1 decisions follow one another" in desk.type("log", "--verify").output


def test_a_directory_without_a_run_is_said(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["quarantine", "list", "--run", str(tmp_path)])

    assert result.exit_code == 1
    assert "holds no run" in result.stderr


def test_hostile_reasons_cannot_forge_the_table(desk: Desk) -> None:
    desk.json("add", "--doc", "3", "--reason", "a\x1b[2Jb\nc\u202e", "--yes")

    shown = desk.type("log").output

    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_the_table_of_the_log_ends_with_the_newest_and_the_json_has_all(desk: Desk) -> None:
    for doc in range(5):
        desk.json("add", "--doc", str(doc), "--reason", "junk", "--yes")

    shown = desk.type("log", "--limit", "2").stdout

    assert "3 earlier decisions; --json or --limit shows all" in shown
    assert "document 2" not in shown
    assert "document 4" in shown
    assert "earlier" not in desk.type("log", "--limit", "5").stdout
    assert len(desk.json("log", "--limit", "2")["decisions"]) == 5
