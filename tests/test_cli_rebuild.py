"""`shardward rebuild` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers_respond import make_corpus, make_run

from shardward.cli.main import cli
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.revisions import publish_revision
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision


class Desk:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.manifest = make_corpus(home)
        self.run = make_run(home, self.manifest)
        log = DecisionLog(self.run.path, manifest=self.manifest.fingerprint)
        for action, docs in (("quarantine", (3, 4)), ("condemn", (9,))):
            log.append(
                Decision(action=action, scope=Scope.of_documents(docs), reason="r", actor="kim")
            )
        publish_revision(self.run.path, self.manifest)

    def type(self, *words: str) -> Result:
        run, out = str(self.run.path), str(self.home / "out")
        return CliRunner().invoke(cli, ["rebuild", "--run", run, "--out", out, *words])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_without_yes_it_says_what_it_would_do(desk: Desk) -> None:
    result = desk.type()

    assert "would write 57 of 60 documents" in result.output
    assert not (desk.home / "out").exists()


def test_rows_in_are_rows_out_and_removed(desk: Desk) -> None:
    result = desk.type("--yes", "--json")

    shown = json.loads(result.stdout)
    assert (shown["rows_in"], shown["rows_out"], shown["removed"]) == (60, 57, 3)


def test_only_condemned_documents_can_be_removed(desk: Desk) -> None:
    shown = json.loads(desk.type("--only-condemned", "--yes", "--json").stdout)

    assert [row["doc"] for s in shown["shards"] for row in s["removed"]] == [9]


def test_a_revision_that_does_not_exist_is_refused(desk: Desk) -> None:
    result = desk.type("--revision", "7", "--yes")

    assert result.exit_code == 1
    assert "revision 7 is not in" in result.stderr


def test_the_next_command_is_told(desk: Desk) -> None:
    assert "next: shardward corpus index" in desk.type("--yes").output
