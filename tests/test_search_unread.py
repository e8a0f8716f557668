"""A shard that cannot be read: the others are scanned, searched and shown, and it is named."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers_search import corpus, edited, prose
from jsonschema import Draft202012Validator

from shardward.cli.main import cli
from shardward.loader.errors import CorpusError
from shardward.loader.manifest import Manifest
from shardward.quarantine.search.corpus_scan import scan_corpus
from shardward.quarantine.search.similar import search
from shardward.schemas import load_schema

RNG = random.Random(12)
TEXTS = [prose(RNG, 120) for _ in range(60)]
TEXTS[2] = RNG.randbytes(900).decode("latin-1")
TEXTS[50] = RNG.randbytes(900).decode("latin-1")
TEXTS[59] = edited(RNG, TEXTS[3], 0.05)
BAD = "part-001.parquet"


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    found = corpus(tmp_path, TEXTS, shards=3, rows=10)
    raw = bytearray((tmp_path / BAD).read_bytes())
    raw[2000:2400] = bytes(400)
    (tmp_path / BAD).write_bytes(raw)
    return found


def shardward(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_scan_shows_what_the_other_shards_hold(manifest: Manifest, workers: int) -> None:
    result = shardward("scan", "--manifest", manifest.path, "--workers", workers, "--json")
    payload = json.loads(result.stdout)
    Draft202012Validator(load_schema("scan.v1")).validate(payload)

    assert result.exit_code == 1
    assert BAD in result.stderr
    assert [BAD in failure for failure in payload["failures"]] == [True]
    assert {f["doc"] for f in payload["findings"] if f["verdict"]} == {2, 50}
    with pytest.raises(CorpusError, match=BAD):
        scan_corpus(manifest)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_search_for_junk_goes_through_the_other_shards(
    manifest: Manifest, workers: int, tmp_path: Path
) -> None:
    words = ("--docs", "2,3", "--workers", workers, "--work", tmp_path / "work", "--json")
    result = shardward("similar", "--manifest", manifest.path, *words)
    payload = json.loads(result.stdout)
    Draft202012Validator(load_schema("similar.v1")).validate(payload)

    assert result.exit_code == 1
    assert BAD in result.stderr
    assert [(hit["doc"], hit["kind"]) for hit in payload["hits"]] == [(50, "junk"), (59, "near")]
    assert len(list((tmp_path / "work").rglob("*.json"))) == 2
    with pytest.raises(CorpusError, match=f"1 of 3 shards could not be searched.*{BAD}"):
        search(manifest, [2, 3])


def test_a_document_list_beyond_all_numbers_is_refused(manifest: Manifest) -> None:
    for command in ("scan", "similar"):
        assert shardward(command, "--manifest", manifest.path, "--docs", 1 << 63).exit_code == 2
