"""L10 to its end: a block that a loader held is proposed, decided, and stepped around."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from helpers_respond import make_corpus, make_plan

from shardward.cli.main import cli
from shardward.loader import Manifest, Run, ShardLoader
from shardward.loader.errors import CorruptBlock
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.revisions import publish_revision
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision


class Desk:
    """A run whose loader held the second of twelve blocks, documents 5 to 9."""

    def __init__(self, home: Path) -> None:
        self.manifest = make_corpus(home)
        self.shard = home / "corpus" / "s0.parquet"
        shutil.copy(self.shard, home / "whole.parquet")
        groups = [pq.ParquetFile(self.shard).metadata.row_group(group) for group in (1, 2)]
        first, last = (group.column(0).dictionary_page_offset for group in groups)
        data = self.shard.read_bytes()
        self.shard.write_bytes(data[:first] + bytes(last - first) + data[last:])
        self.run = Run.create(
            home / "run", plan=make_plan(self.manifest), manifest_path=self.manifest.path
        )
        with self.loader(on_corrupt="hold") as loader:
            for batch in loader:
                loader.observe(batch.step)

    def loader(self, **more: Any) -> ShardLoader:
        manifest = Manifest.load(self.manifest.path)
        return ShardLoader(manifest, self.run.plan(), batch=4, run=self.run, **more)

    def type(self, *words: str) -> Result:
        return CliRunner().invoke(cli, ["quarantine", *words, "--run", str(self.run.path)])

    def json(self, *words: str) -> Any:
        result = self.type(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_L10_a_held_block_is_proposed_published_and_no_longer_read(desk: Desk) -> None:
    shown = desk.json("held")
    (block,) = shown["blocks"]
    assert (shown["done"], shown["proposed_documents"]) == (False, 5)
    assert (block["block"], block["shard"], block["state"]) == (1, "s0.parquet", "damaged")
    assert not (desk.run.path / "decisions.log").exists()

    taken = desk.json("held", "--yes")
    assert [d["scope"]["documents"] for d in taken["decisions"]] == [[5, 6, 7, 8, 9]]
    assert "damaged and was masked from step" in taken["decisions"][0]["reason"]
    assert desk.json("publish", "--yes")["documents"] == 5

    with desk.loader(revision=1) as loader:  # on_corrupt is stop: what is left can be read
        documents = {d for batch in loader for d in batch.segments.doc.tolist()}
    assert documents == set(range(60)) - {5, 6, 7, 8, 9}
    again = desk.json("held", "--yes")
    assert (again["done"], again["blocks"][0]["state"]) == (False, "out")


def test_lists_and_exports_name_documents_that_nobody_can_read(desk: Desk) -> None:
    desk.json("held", "--yes")

    listed = desk.json("list")["documents"]
    exported = [json.loads(line) for line in desk.type("export").stdout.splitlines()]

    assert [row["doc"] for row in listed] == [row["doc"] for row in exported] == [5, 6, 7, 8, 9]
    assert {row["content_xxh3_128"] for row in exported} == {None}


def test_a_shard_that_was_restored_is_not_proposed(desk: Desk, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "whole.parquet", desk.shard)

    shown = desk.json("held", "--yes")

    assert (shown["blocks"][0]["state"], shown["decisions"]) == ("readable", [])
    assert "readable" in desk.type("held").output


def test_other_documents_are_never_left_out_with_their_content_unknown(desk: Desk) -> None:
    scope = Scope.of_documents((7,))
    log = DecisionLog(desk.run.path, manifest=desk.manifest.fingerprint)
    log.append(Decision(action="quarantine", scope=scope, reason="junk", actor="ann"))

    with pytest.raises(CorruptBlock, match=r"s0\.parquet"):
        publish_revision(desk.run.path, Manifest.load(desk.manifest.path))


def test_the_loader_says_what_proposes_a_revision(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        desk.loader(on_corrupt="hold") as loader,
    ):
        list(loader)

    assert any("shardward quarantine held" in record.message for record in caplog.records)
