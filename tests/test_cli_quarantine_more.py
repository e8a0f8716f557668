"""`shardward quarantine`: revisions, impact, audits, bulk decisions and the export."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers_respond import make_corpus, make_run, text_of

from shardward.cli.main import cli
from shardward.loader.order import EpochOrder, Layout
from shardward.quarantine.respond.incident import IncidentStore


class Desk:
    def __init__(self, home: Path) -> None:
        self.manifest = make_corpus(home)
        self.run = make_run(home, self.manifest)

    def type(self, *words: str) -> Result:
        return CliRunner().invoke(cli, ["quarantine", *words, "--run", str(self.run.path)])

    def json(self, *words: str) -> Any:
        result = self.type(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def add(self, *docs: int) -> None:
        named = [word for doc in docs for word in ("--doc", str(doc))]
        self.json("add", *named, "--reason", "junk", "--yes")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_the_impact_is_shown_before_publishing(desk: Desk) -> None:
    desk.add(0, 1, 2)

    shown = desk.json("impact", "--batch", "4", "--by", "lang")

    assert shown["documents"] == 3
    assert shown["tokens"] == sum(len(text_of(d)) for d in range(3))
    assert {s["name"]: s["documents"] for s in shown["sources"]} == {"de": 1, "en": 2}
    assert {s["name"]: s["documents"] for s in shown["groups"]} == {"de": 1, "en": 2}
    assert shown["steps"] >= 1
    assert 0 < shown["blanked_share"] < 0.2
    assert "blanked share" in desk.type("impact").output
    assert not (desk.run.path / "revisions").exists()


def test_publishing_needs_yes_and_gives_the_next_number(desk: Desk) -> None:
    desk.add(3)

    assert desk.json("publish") == {
        **desk.json("publish"),
        "done": False,
        "revision": 1,
        "added": 1,
    }
    assert not (desk.run.path / "revisions").exists()
    assert desk.json("publish", "--yes")["revision"] == 1
    assert desk.json("show", "1")["excluded"][0]["doc"] == 3


def test_the_difference_of_two_revisions_is_shown(desk: Desk) -> None:
    desk.add(3)
    desk.json("publish", "--yes")
    desk.json("release", "--doc", "3", "--reason", "fine", "--yes")
    desk.add(4, 5)
    desk.json("publish", "--yes")

    shown = desk.json("diff", "1", "2")

    assert (shown["added"], shown["released"]) == ([4, 5], [3])
    assert "2 documents more, 1 let in again" in desk.type("diff", "1", "2").output
    assert desk.type("diff", "1", "9").exit_code == 1


def test_a_shard_is_audited_from_hold_to_release(desk: Desk) -> None:
    desk.json("audit-start", "s1.parquet", "--sample", "3", "--reason", "near it", "--yes")
    assert desk.json("list")["total"] == 20
    sample = desk.json("audit", "s1.parquet")["audits"][0]["open"]

    refused = desk.type("audit-finish", "s1.parquet", "--reason", "r", "--yes")
    assert "3 of 3 sampled documents" in refused.stderr
    for index, doc in enumerate(sample):
        verdict = "bad" if index == 0 else "ok"
        desk.json("audit-review", "s1.parquet", str(doc), verdict, "--reason", "read", "--yes")
    desk.json("audit-finish", "s1.parquet", "--reason", "mostly fine", "--yes")

    assert [d["doc"] for d in desk.json("list")["documents"]] == [sample[0]]
    assert "s1.parquet" in desk.type("audit").output


def test_an_audit_lets_in_what_an_incident_left_out_only_where_the_number_is_confirmed(
    desk: Desk,
) -> None:
    IncidentStore(desk.run.path).open(onset=3, detected=4, actor="kim")
    ours = ("--reason", "junk", "--incident", "INC-0001", "--yes")
    desk.json("add", "--shard", "s1.parquet", *ours)
    desk.json("audit-start", "s1.parquet", "--sample", "2", "--reason", "near it", "--yes")
    first, second = desk.json("audit", "s1.parquet")["audits"][0]["open"]
    desk.json("add", "--doc", str(first), *ours)
    desk.add(second)
    ok = ("ok", "--reason", "read", "--yes")

    refused = desk.type("audit-review", "s1.parquet", str(first), *ok)

    assert refused.exit_code == 2
    assert "this lets in 1 document left out by decision 3 of INC-0001" in refused.stderr
    assert "say --expect 1 --yes" in refused.stderr
    assert len(desk.json("log")["decisions"]) == 4
    shown = desk.json("audit-review", "s1.parquet", str(second), *ok, "--dry-run")
    assert shown["lets_in"] == [{"decision": 4, "incident": None, "documents": 1}]
    for doc in (first, second):
        done = desk.type("audit-review", "s1.parquet", str(doc), *ok, "--expect", "1")
        assert "warning: this lets in 1 document" in done.stderr
    finish = ("audit-finish", "s1.parquet", "--reason", "all fine", "--yes")
    assert "lets in 18 documents left out by decision 1 of INC-0001" in desk.type(*finish).stderr
    assert desk.json(*finish, "--expect", "18")["lets_in"][0]["documents"] == 18
    other = desk.type("audit-review", "s1.parquet", str(first), "bad", *ok[1:], "--expect", "1")
    assert "0 documents left out by earlier decisions and 1 were confirmed" in other.stderr
    assert desk.json("list")["total"] == 0
    assert "says so already" in desk.type(*finish, "--expect", "18").stdout
    assert len(desk.json("log")["decisions"]) == 7


def test_a_review_says_that_a_condemned_document_stays_out_and_what_lets_it_in(desk: Desk) -> None:
    desk.json("audit-start", "s1.parquet", "--sample", "2", "--reason", "near it", "--yes")
    doc = str(desk.json("audit", "s1.parquet")["audits"][0]["open"][0])
    words = ("--reason", "read", "--yes")
    desk.json("audit-review", "s1.parquet", doc, "bad", *words)
    ok = desk.type("audit-review", "s1.parquet", doc, "ok", *words).stderr

    assert f"document {doc} stays out, since decision 2 condemned it" in ok
    assert "shardward quarantine undo 2 --reason WHY --yes" in ok
    desk.json("undo", "2", *words)
    assert "stays out" not in desk.type("audit-review", "s1.parquet", doc, "ok", *words).stderr
    assert doc not in [str(each["doc"]) for each in desk.json("list")["documents"]]


def test_a_bulk_decision_is_counted_and_confirmed(desk: Desk) -> None:
    words = ("bulk", "--source", "de", "--reason", "another language")
    assert desk.json(*words)["documents"] == 20

    unconfirmed = desk.type(*words, "--yes")
    assert unconfirmed.exit_code == 2
    assert "say --expect 20 --yes" in unconfirmed.stderr

    desk.json(*words, "--expect", "20", "--yes")
    assert desk.json("list")["total"] == 20


def test_the_export_is_json_lines_without_text(desk: Desk) -> None:
    desk.add(7)

    rows = [json.loads(line) for line in desk.type("export").stdout.splitlines()]

    assert [row["doc"] for row in rows] == [7]
    assert rows[0]["schema_version"] == 1
    assert "reason" not in rows[0]
    assert "junk" in desk.type("export", "--reasons").stdout


def test_another_corpus_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.add(3)
    desk.json("publish", "--yes")
    other = make_corpus(tmp_path / "other", documents=30)

    result = desk.type("publish", "--manifest", str(other.path), "--yes")

    assert result.exit_code == 1
    assert "give the manifest that the run was made with" in result.stderr


COMMANDS = (
    ("list",),
    ("why", "0"),
    ("add", "--doc", "5", "--reason", "junk", "--yes"),
    ("release", "--doc", "0", "--reason", "fine", "--yes"),
    ("undo", "1", "--reason", "wrong", "--yes"),
    ("log",),
    ("publish", "--yes"),
)


def cut(log: Path, size: int | None) -> None:
    """Leave the first `size` bytes of the log, or no file."""
    if size is None:
        log.unlink()
    else:
        log.write_bytes(log.read_bytes()[:size])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("size", [None, 0, -20], ids=["gone", "empty", "torn"])
def test_a_log_that_is_not_the_one_a_revision_saw_answers_nobody_and_takes_nothing(
    desk: Desk, command: tuple[str, ...], size: int | None
) -> None:
    desk.add(0, 1)
    desk.json("publish", "--yes")
    log = desk.run.path / "decisions.log"
    cut(log, size)
    before = log.read_bytes() if log.exists() else None

    result = desk.type(*command)

    assert result.exit_code == 5, result.output
    assert "revision 1 was made when the log held 1 decisions" in result.stderr
    assert "restore decisions.log from a copy" in result.stderr
    assert (log.read_bytes() if log.exists() else None) == before
    assert not list(log.parent.glob("*.torn-*"))


def test_a_torn_line_that_no_revision_saw_is_set_aside(desk: Desk) -> None:
    desk.add(0, 1)
    desk.json("publish", "--yes")
    desk.add(2)
    log = desk.run.path / "decisions.log"
    cut(log, -20)

    assert desk.json("list")["total"] == 2
    assert "a crash tore" in desk.json("log", "--verify")["verified"]["remarks"][0]
    desk.add(3)
    assert desk.json("list")["total"] == 3
    assert len(list(log.parent.glob("*.torn-*"))) == 1


def test_an_incident_anchors_the_log_too(desk: Desk) -> None:
    desk.add(0)
    IncidentStore(desk.run.path).open(onset=3, detected=4, actor="kim")
    cut(desk.run.path / "decisions.log", None)

    result = desk.type("list")

    assert result.exit_code == 5
    assert "INC-0001 open was made when the log held 1 decisions, it now holds none" in (
        result.stderr
    )


def test_a_bulk_decision_is_shown_with_its_count_before_it_is_made(desk: Desk) -> None:
    shown = desk.type("bulk", "--source", "de", "--reason", "stubs", "--dry-run")

    assert "20 documents; say --yes" in shown.output


def test_positions_beyond_the_end_of_the_epoch_are_refused(desk: Desk) -> None:
    order = EpochOrder(Layout(desk.run.plan(), desk.manifest.geometry(), desk.manifest.lengths), 0)
    last = order.positions
    words = ("--reason", "spike", "--yes")

    for act in ("add", "release"):
        refused = desk.type(act, "--positions", f"0:{last - 1}-{last + 1}", *words)

        assert refused.exit_code == 1
        assert f"epoch 0 has {last} positions, so {last - 1}-{last + 1} go" in refused.stderr
        assert desk.type(act, "--positions", f"0:{last - 1}-{last}", *words).exit_code == 0


def test_publishing_elsewhere_names_the_command_that_fetches_it(desk: Desk, tmp_path: Path) -> None:
    desk.add(3)
    (tmp_path / "b").mkdir()
    other = make_run(tmp_path / "b", desk.manifest)

    shown = desk.type("publish", "--to", str(tmp_path / "a store"), "--yes").stdout.splitlines()

    known = desk.json("publish", "--to", str(tmp_path / "a store"), "--yes")
    assert f"it is at {known['address']}" in shown
    [line] = [each for each in shown if each.startswith("fetch it by: ")]
    words = shlex.split(line.partition(": ")[2])
    assert words[-2:] == ["--digest", known["digest"]]
    pulled = CliRunner().invoke(cli, [*words[1:], "--run", str(other.path)])
    assert pulled.exit_code == 0, pulled.output
    assert [path.suffix for path in (other.path / "revisions").iterdir()].count(".json") == 1
