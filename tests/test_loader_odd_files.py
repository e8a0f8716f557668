"""Files that are no data: pipes, links to nowhere, names that are not text, columns misnamed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers_loader import arrow_corpus

from shardward.loader import Manifest, Run, build_manifest
from shardward.loader.errors import CorpusError, CorruptBlock, UsageError

LINE = b'{"text": "a line"}\n'


@pytest.mark.parametrize("named", ["directory", "file"])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow", "arrows"])
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path, suffix: str, named: str) -> None:
    pipe = tmp_path / "data" / f"a.{suffix}"
    pipe.parent.mkdir()
    os.mkfifo(pipe)

    with pytest.raises(CorpusError, match=rf"a\.{suffix} is not a regular file"):
        build_manifest([str(pipe if named == "file" else pipe.parent)], tmp_path / "m")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["data"]


def test_a_shard_that_became_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, [["a", "b"]])
    shard = tmp_path / "data" / "part-000.arrow"
    shard.unlink()
    os.mkfifo(shard)

    with pytest.raises(CorruptBlock, match=r"part-000\.arrow .*not a regular file"):
        Manifest.load(manifest.path).open_block(0)


def test_a_link_to_nowhere_names_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "moved" / "b.jsonl")

    with pytest.raises(CorpusError, match=r"a\.jsonl links to .*moved/b\.jsonl, which is missing"):
        build_manifest([str(tmp_path)], tmp_path / "m")


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(LINE)
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "real")

    assert build_manifest([str(tmp_path)], tmp_path / "m").header.documents == 1


def test_a_name_that_is_not_utf8_is_called_that(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.jsonl")).write_bytes(LINE)

    with pytest.raises(CorpusError, match=r"caf\\xe9\.jsonl' is not UTF-8.*rename the file"):
        build_manifest([str(tmp_path)], tmp_path / "m")


@pytest.mark.parametrize("name", ["a::b.jsonl", "zip::c.jsonl", "with [x] and *.jsonl", "漢.jsonl"])
def test_a_name_means_nothing_but_itself(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_bytes(LINE)
    manifest = build_manifest([str(tmp_path / "data")], tmp_path / "m")

    assert manifest.shards[0].uri == name
    assert manifest.block_text(0).to_pylist() == ["a line"]


def test_what_is_there_already_is_named_with_how_to_use_it(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, [["a", "b"]])
    plan = manifest.plan(seed=1, seq_len=8)
    Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)

    with pytest.raises(CorpusError, match=r"use it with Manifest\.load\('.*manifest'\)"):
        build_manifest([str(tmp_path / "data")], manifest.path)
    with pytest.raises(UsageError, match=r"go on with it by Run\.open\('.*run'\)"):
        Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with pytest.raises(CorpusError, match="name one of those with --column"):
        build_manifest([str(tmp_path / "data")], tmp_path / "m", column="body")
