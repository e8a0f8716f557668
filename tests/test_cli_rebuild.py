"""`shardward rebuild` from the outside."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from helpers_respond import make_corpus, make_run

from shardward.cli.main import cli
from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.revisions import publish_revision
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision


def exclude(run: Run, manifest: Manifest, action: str, *docs: int) -> None:
    DecisionLog(run.path, manifest=manifest.fingerprint).append(
        Decision(action=action, scope=Scope.of_documents(docs), reason="r", actor="kim")
    )


class Desk:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.manifest = make_corpus(home)
        self.run = make_run(home, self.manifest)
        exclude(self.run, self.manifest, "quarantine", 3, 4)
        exclude(self.run, self.manifest, "condemn", 9)
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


def next_words(shown: str) -> list[str]:
    [line] = [line for line in shown.splitlines() if line.startswith("next: ")]
    return shlex.split(line)[2:]


def test_the_next_command_indexes_the_clean_corpus_as_the_old_one_was(desk: Desk) -> None:
    words = next_words(desk.type("--yes").output)

    assert CliRunner().invoke(cli, words).exit_code == 0
    clean, old = Manifest.load(desk.home / "out-manifest").header, desk.manifest.header
    assert (clean.schema, clean.tokenizer) == (old.schema, old.tokenizer)
    assert clean.documents == 57


def test_the_next_command_works_for_token_ids_in_a_place_with_a_space(tmp_path: Path) -> None:
    home = tmp_path / "a b"
    (home / "corpus").mkdir(parents=True)
    ids = pa.array([[doc, 1, 2] for doc in range(20)], pa.list_(pa.int32()))
    pq.write_table(pa.table({"input_ids": ids}), home / "corpus" / "s.parquet")
    manifest = build_manifest(
        [str(home / "corpus")], home / "manifest", column="input_ids", tokenizer="ids:50:none:49"
    )
    plan = manifest.plan(seed=3, seq_len=4, window_blocks=1)
    run = Run.create(home / "run", plan=plan, manifest_path=manifest.path)
    exclude(run, manifest, "quarantine", 3)
    publish_revision(run.path, manifest)
    words = ["rebuild", "--run", str(run.path), "--out", str(home / "out"), "--yes"]

    indexed = CliRunner().invoke(cli, next_words(CliRunner().invoke(cli, words).output))

    assert indexed.exit_code == 0, indexed.output
    assert Manifest.load(home / "out-manifest").header.tokenizer == manifest.header.tokenizer


def test_a_report_that_was_not_attached_is_attached_when_the_rebuild_is_repeated(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = IncidentStore(desk.run.path).open(onset=3, detected=4, actor="kim")
    words = ("--keep-order", str(desk.home / "kept"), "--incident", incident.id, "--yes")

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Incident, "attach", fails)
        assert desk.type(*words).exit_code != 0
    assert incident.attached("rebuild") is None

    assert desk.type(*words).exit_code == 0
    assert incident.attached("rebuild") is not None


@pytest.mark.parametrize("place", ["out", "out/manifest", "."])
def test_a_manifest_in_the_place_of_the_shards_is_refused_before_anything_is_written(
    desk: Desk, place: str
) -> None:
    result = desk.type("--keep-order", str(desk.home / place), "--yes")

    assert (result.exit_code, "cannot lie in each other" in result.output) == (2, True)
    assert not (desk.home / "out").exists()
