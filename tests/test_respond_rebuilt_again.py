"""A rebuilt corpus is rebuilt once more, and what goes anyway need not be readable."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from test_loader_rebuilt import FORMATS, SIZE, exclude, fed, plan_of, write

from shardward.cli.main import cli
from shardward.loader.errors import CorpusError, DecisionError, IntegrityError
from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.loader.manifest_verify import verify
from shardward.loader.rebuilt import rebuilt_manifest
from shardward.loader.revision import Revision
from shardward.loader.run import Run
from shardward.loader.sources import jsonl
from shardward.quarantine.respond.rebuild import rebuild
from shardward.quarantine.respond.revisions import load_revision, publish_revision

# A whole block and one of the next, nothing of the second shard, and all of the third.
FIRST = (0, 1, 2, 3, 4, 7, *range(40, 60))
# Another of a block that lost one, the rest of a block, one of the second shard.
SECOND = (9, 15, 16, 17, 18, 19, 27)


class Scene:
    """A run over three shards of one format, whose documents FIRST are left out."""

    def __init__(self, home: Path, kind: str) -> None:
        self.home, self.kind = home, kind
        self.corpus = home / "corpus"
        for shard in range(3):
            docs = range(shard * SIZE, (shard + 1) * SIZE)
            write(self.corpus / f"s{shard}.{kind}", docs, kind)
        self.parent = build_manifest(
            [str(self.corpus)], home / "parent", id_column="id", tokenizer="bytes"
        )
        self.run = Run.create(
            home / "run", plan=plan_of(self.parent), manifest_path=self.parent.path
        )
        exclude(self.run, self.parent, *FIRST)
        self.revision = publish_revision(self.run.path, self.parent)

    def rebuilt(self, name: str, manifest: Manifest | None = None) -> Manifest:
        """Rebuild by the command, under the newest revision, and return the manifest made."""
        words = ["rebuild", "--run", str(self.run.path), "--yes", "--json"]
        words += ["--manifest", str((manifest or self.parent).path)]
        words += ["--out", str(self.home / name), "--keep-order", str(self.home / f"m-{name}")]
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
        return Manifest.load(self.home / f"m-{name}")

    def leave_out(self, manifest: Manifest, *docs: int) -> Revision:
        exclude(self.run, manifest, *docs)
        return publish_revision(self.run.path, manifest)


@pytest.fixture(params=FORMATS)
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(jsonl, "BLOCK_LINES", 5)
    return Scene(tmp_path, request.param)


def test_a_rebuilt_corpus_is_rebuilt_again_and_again_and_feeds_what_the_parent_does(
    scene: Scene,
) -> None:
    once = scene.rebuilt("once")
    second = scene.leave_out(once, *SECOND)

    twice = scene.rebuilt("twice", once)

    assert twice.tombstones.tolist() == sorted((*FIRST, *SECOND))
    assert (twice.fingerprint, twice.header.parent) == (scene.parent.fingerprint,) * 2
    for mode in ("compact", "hold"):
        assert fed(twice, second, mode) == fed(scene.parent, second, mode)
    assert verify(twice) == []
    report = json.loads((scene.home / "twice" / "rebuild.json").read_text())
    rows = (report["rows_in"], report["rows_out"], report["removed"])
    assert rows == (60 - len(FIRST), 60 - len(FIRST) - len(SECOND), len(SECOND))
    assert [r["doc"] for s in report["shards"] for r in s["removed"]] == list(SECOND)

    third = scene.leave_out(twice, *range(20, 40))
    thrice = scene.rebuilt("thrice", twice)
    assert fed(thrice, third, "hold") == fed(scene.parent, third, "hold")
    assert not list((scene.home / "thrice").rglob(f"s1.{scene.kind}"))


def test_the_files_of_a_second_rebuild_are_those_of_one_rebuild_of_the_parent(
    scene: Scene,
) -> None:
    once = scene.rebuilt("once")
    scene.leave_out(once, *SECOND)
    scene.rebuilt("twice", once)
    scene.rebuilt("whole")

    for shard in ("s0", "s1"):
        found = [scene.home / place / f"{shard}.{scene.kind}" for place in ("twice", "whole")]
        if scene.kind == "parquet":
            first, second = (pq.read_table(path) for path in found)
            assert first.equals(second)
            keys = list(pq.ParquetFile(found[0]).metadata.metadata)
            assert len(keys) == len(set(keys))
        else:
            assert found[0].read_bytes() == found[1].read_bytes()


def test_a_revision_that_lets_in_what_is_gone_rebuilds_nothing(scene: Scene) -> None:
    once = scene.rebuilt("once")
    none = load_revision(scene.run.path, 0, manifest=scene.parent.fingerprint)

    with pytest.raises(DecisionError, match="document 0 was removed when the corpus of"):
        rebuild(once, none, scene.home / "again")
    with pytest.raises(CorpusError, match="document 0 is gone from the corpus of"):
        rebuilt_manifest(once, scene.home / "once", scene.home / "m", gone=np.array([9]))


def damage(scene: Scene, doc: int) -> None:
    """Make the block of `doc` unreadable, and the line ends of it where it is text."""
    path = scene.corpus / f"s0.{scene.kind}"
    data = bytearray(path.read_bytes())
    if scene.kind == "parquet":
        column = pq.ParquetFile(path).metadata.row_group(doc // 5).column(1)
        start = column.dictionary_page_offset + 24
        data[start : start + 40] = bytes(40)
    else:
        start = data.index(f"document {doc} ".encode())
        data[start : start + 90] = bytes(90)
    path.write_bytes(bytes(data))


def test_a_damaged_block_of_which_nothing_stays_stops_no_rebuild(scene: Scene) -> None:
    damage(scene, 1)
    told: list[str] = []

    report = rebuild(scene.parent, scene.revision, scene.home / "out", tell=told.append)
    gone = np.array(report.removed_documents, np.int64)
    clean = rebuilt_manifest(scene.parent, scene.home / "out", scene.home / "m", gone=gone)

    assert report.removed_documents == list(FIRST)
    assert [row["id"] for row in report.shards[0].removed][-1] == "d7"
    assert verify(clean) == []
    [words] = told
    assert f"shard s0.{scene.kind} is damaged in block 0" in words


def test_a_damaged_block_of_which_something_stays_is_named_with_its_documents(
    scene: Scene,
) -> None:
    damage(scene, 7)

    with pytest.raises(IntegrityError, match="block 1 with document 5, 6, 8 and 1 more") as error:
        rebuild(scene.parent, scene.revision, scene.home / "out")

    assert f"shard s0.{scene.kind} is damaged" in str(error.value)
    assert "restore the shard from a copy, or leave them out" in str(error.value)
    assert not (scene.home / "out" / f"s0.{scene.kind}").exists()


def test_a_shard_that_was_cut_stops_no_rebuild_where_all_of_it_goes(scene: Scene) -> None:
    (scene.corpus / f"s2.{scene.kind}").write_bytes(b"")

    assert scene.rebuilt("clean").tombstones.tolist() == list(FIRST)


def test_a_shard_that_is_not_there_may_be_elsewhere_and_stops_the_rebuild(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "parquet")
    (scene.corpus / "s2.parquet").unlink()

    with pytest.raises(CorpusError, match="give the corpus root it moved to"):
        rebuild(scene.parent, scene.revision, scene.home / "out")


def test_a_file_whose_blocks_are_whole_and_that_is_another_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "jsonl")
    with (scene.corpus / "s1.jsonl").open("ab") as shard:
        shard.write(b"\n")

    with pytest.raises(IntegrityError, match=r"shard s1\.jsonl has digest"):
        rebuild(scene.parent, scene.revision, scene.home / "out")
