"""Decisions about a rebuilt corpus: what is gone from it keeps its hash and cannot come back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from helpers_respond import make_corpus
from helpers_scene import Scene

from shardward.cli.main import cli
from shardward.loader.errors import DecisionError, NotFound
from shardward.loader.manifest import Manifest
from shardward.loader.rebuilt import rebuilt_manifest
from shardward.quarantine.respond import response
from shardward.quarantine.respond.corpus import UNREAD, content_hashes, content_scope
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.export import export_rows
from shardward.quarantine.respond.rebuild import rebuild
from shardward.quarantine.respond.revisions import publish_revision

GONE = 13


class Desk(Scene):
    """A run whose document 13 was quarantined, published and rebuilt away."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.home = home
        self.quarantine("add", "--doc", str(GONE), "--reason", "junk", "--yes")
        revision = publish_revision(self.run.path, self.manifest)
        rebuild(self.manifest, revision, home / "clean")
        self.clean = rebuilt_manifest(
            self.manifest, home / "clean", home / "kept", gone=revision.documents
        )

    def quarantine(self, *words: str, manifest: Manifest | None = None) -> Result:
        place = (manifest or self.manifest).path
        words = (*words, "--run", str(self.run.path), "--manifest", str(place))
        return CliRunner().invoke(cli, ["quarantine", *words])

    def decisions(self) -> int:
        return len(DecisionLog(self.run.path).entries())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_tombstone_has_no_hash_and_no_copies(desk: Desk) -> None:
    docs = np.array([12, GONE], np.int64)
    empty = "99aa06d3014798d86001c324468d497f"  # xxh3-128 of nothing

    known, gone = content_hashes(desk.clean, docs)

    assert (known, gone) == (content_hashes(desk.manifest, docs)[0], UNREAD)
    with pytest.raises(NotFound, match="no document of the corpus has the content"):
        content_scope(desk.clean, empty)
    rows = list(export_rows(DecisionLog(desk.run.path).entries(), desk.clean))
    assert [(row["doc"], row["content_xxh3_128"]) for row in rows] == [(GONE, None)]


def test_what_comes_back_in_the_parent_and_goes_again_in_the_clean_corpus_can_be_rebuilt(
    desk: Desk,
) -> None:
    release = ("release", "--doc", str(GONE), "--reason", "oops", "--yes")
    assert desk.quarantine(*release).exit_code == 0
    assert publish_revision(desk.run.path, desk.manifest).documents.size == 0
    desk.quarantine("add", "--doc", str(GONE), "--reason", "no", "--yes", manifest=desk.clean)

    again = publish_revision(desk.run.path, desk.clean)

    assert again.hashes == UNREAD
    assert rebuild(desk.manifest, again, desk.home / "third").removed == 1


@pytest.mark.parametrize(
    "words",
    [
        ("release", "--doc", str(GONE)),
        ("undo", "1"),
        ("bulk", "--source", "en", "--as", "release", "--expect", "40"),
    ],
)
@pytest.mark.parametrize("act", ["--dry-run", "--yes"])
def test_what_is_gone_is_not_given_back(desk: Desk, words: tuple[str, ...], act: str) -> None:
    before = desk.decisions()
    if words[0] == "bulk":
        desk.quarantine("undo", "1", "--reason", "r", "--yes")
        scope = ("--source", "en", "--as", "quarantine", "--expect", "40")
        desk.quarantine("bulk", *scope, "--reason", "r", "--yes")
        before += 2
    assert desk.decisions() == before

    result = desk.quarantine(*words, "--reason", "r", act, manifest=desk.clean)

    assert result.exit_code == 1
    assert f"document {GONE} was removed when the corpus of {desk.clean.path}" in result.stderr
    assert "give the manifest that the corpus was rebuilt from" in result.stderr
    assert desk.decisions() == before


def test_a_release_of_another_document_of_the_rebuilt_corpus_is_made(desk: Desk) -> None:
    desk.quarantine("add", "--doc", "30", "--reason", "junk", "--yes", manifest=desk.clean)

    words = ("release", "--doc", "30", "--reason", "r", "--yes")
    assert desk.quarantine(*words, manifest=desk.clean).exit_code == 0


@pytest.mark.parametrize("no_skip", [None, "the rate was raised"])
def test_no_orders_let_in_what_is_gone(desk: Desk, no_skip: str | None) -> None:
    desk.quarantine("release", "--doc", str(GONE), "--reason", "oops", "--yes")
    if no_skip:
        publish_revision(desk.run.path, desk.manifest)
    incident = desk.open()
    desk.go(incident, "rewind")
    desk.decide(incident, 40)

    with pytest.raises(DecisionError, match=f"document {GONE} was removed"):
        response.skip(incident, desk.run, desk.clean, actor="kim", no_skip=no_skip)
    assert incident.case().state == "rewound"

    desk.decide(incident, GONE)
    response.skip(incident, desk.run, desk.clean, actor="kim")
    assert incident.case().state == "skipped"


@pytest.mark.parametrize("act", ["--dry-run", "--yes"])
def test_a_revision_that_lets_in_what_is_gone_is_not_published(desk: Desk, act: str) -> None:
    desk.quarantine("release", "--doc", str(GONE), "--reason", "oops", "--yes")

    result = desk.quarantine("publish", act, manifest=desk.clean)

    assert result.exit_code == 1
    assert "quarantine it, or give the manifest" in result.stderr
    assert json.loads(desk.quarantine("publish", act, "--json").stdout)["released"] == 1


def test_a_block_that_was_damaged_since_it_was_left_out_stops_no_skip(tmp_path: Path) -> None:
    scene = Scene(tmp_path, make_corpus(tmp_path, group=5))
    incident = scene.open()
    scene.go(incident, "rewind")
    scene.decide(incident, 2)
    old = publish_revision(scene.run.path, scene.manifest)
    shard = tmp_path / "corpus" / "s0.parquet"
    data = bytearray(shard.read_bytes())
    data[4:200] = bytes(196)
    shard.write_bytes(data)
    scene.decide(incident, 45)

    revision = response.skip(incident, scene.run, Manifest.load(scene.manifest.path), actor="kim")

    assert revision.documents.tolist() == [2, 45]
    assert revision.hashes.startswith(old.hashes)
