"""`shardward similar` on a real corpus: table and JSON."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers_search import corpus, edited, prose
from helpers_tokens import token_corpus
from jsonschema import Draft202012Validator

from shardward.cli import similar as similar_module
from shardward.cli.similar import similar
from shardward.loader.errors import UsageError
from shardward.quarantine.search import similar as searching
from shardward.quarantine.search.band_scan import agreeing_rows
from shardward.quarantine.search.index_job import build_signatures
from shardward.quarantine.search.query import build_query
from shardward.quarantine.search.sidecar import sidecar_path
from shardward.quarantine.search.similar import run_query, search
from shardward.schemas import load_schema

RNG = random.Random(6)
TOXIC = prose(RNG, 200)
TEXTS = [*(prose(RNG, 100) for _ in range(20)), TOXIC, edited(RNG, TOXIC, 0.03), TOXIC]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("similar-cli"), TEXTS).path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(similar, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_json_validates_and_names_every_relative(manifest: Path) -> None:
    payload = json.loads(run("--manifest", manifest, "--docs", "20", "--json"))
    Draft202012Validator(load_schema("similar.v1")).validate(payload)

    assert payload["cut"] == []
    assert [(hit["doc"], hit["kind"]) for hit in payload["hits"]] == [(21, "near"), (22, "exact")]


def test_what_was_cut_is_told_and_in_the_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = corpus(tmp_path, [TOXIC, *(edited(RNG, TOXIC, 0.02) for _ in range(4))], shards=1).path
    monkeypatch.setattr(searching, "agreeing_rows", partial(agreeing_rows, most=1))
    result = CliRunner().invoke(similar, ["--manifest", str(path), "--docs", "0", "--json"])
    payload = json.loads(result.stdout)
    Draft202012Validator(load_schema("similar.v1")).validate(payload)

    (cut,) = payload["cut"]
    assert cut["candidates"] == 3
    assert f"{cut['shard']}: 3 candidates for near copies" in result.stderr


def test_the_table_says_why(manifest: Path) -> None:
    text = run("--manifest", manifest, "--docs", "20", "--limit", "1")

    assert "the same bytes as document 20" in text
    assert "1 more; raise --limit" in text


def test_one_kind_can_be_asked_for(manifest: Path) -> None:
    payload = json.loads(run("--manifest", manifest, "--docs", "20", "--kind", "exact", "--json"))

    assert [hit["doc"] for hit in payload["hits"]] == [22]


def test_the_chance_of_near_copies_is_told_and_in_the_json_where_they_are_asked_for(
    manifest: Path,
) -> None:
    said = "chance that a near copy"
    for kind, jaccards in (("near", [0.75, 0.8, 0.9]), ("exact", []), ("junk", [])):
        only = ["--manifest", str(manifest), "--docs", "20", "--threshold", "0.75", "--kind", kind]
        result = CliRunner().invoke(similar, [*only, "--json"], catch_exceptions=False)
        payload = json.loads(result.stdout)
        Draft202012Validator(load_schema("similar.v1")).validate(payload)

        assert [each["jaccard"] for each in payload["candidates"]] == jaccards
        assert all(0.9 < each["chance"] <= 1 for each in payload["candidates"])
        assert (said in result.stderr) == (kind == "near")


def test_sidecars_that_cannot_be_used_are_told_of_once_with_the_remedy(tmp_path: Path) -> None:
    built = corpus(tmp_path, TEXTS, shards=3)
    build_signatures(built)
    for shard in (0, 2):
        sidecar_path(built, shard).write_bytes(b"torn")
    result = CliRunner().invoke(similar, ["--manifest", str(built.path), "--docs", "20", "--json"])

    assert [hit["doc"] for hit in json.loads(result.stdout)["hits"]] == [21, 22]
    assert result.stderr.count("the signatures of 2 of 3 shards are damaged") == 1
    assert f"corpus index --out {built.path} --signatures" in result.stderr
    with pytest.warns(RuntimeWarning, match="signatures of 2 of 3 shards"):
        search(built, [20])
    build_signatures(built)
    assert not list(run_query(built, build_query(built, [20])).notes(built))


def test_a_search_without_sidecars_says_nothing_of_them(manifest: Path) -> None:
    result = CliRunner().invoke(similar, ["--manifest", str(manifest), "--docs", "20"])

    assert "signatures" not in result.stderr


def test_passages_and_recall_are_shown_on_request(manifest: Path, tmp_path: Path) -> None:
    arguments = ("--manifest", manifest, "--docs", "20", "--passages", "--work", tmp_path / "w")
    payload = json.loads(run(*arguments, "--json"))
    Draft202012Validator(load_schema("similar.v1")).validate(payload)
    (near,) = [hit for hit in payload["hits"] if hit["kind"] == "near"]

    assert near["passages"][0]["words"] >= 5
    assert payload["recall"][0]["hits"] == 1
    assert 0.9 < payload["recall"][0]["recall"] <= 1.0
    assert "shared passages" in run(*arguments)


def test_the_passages_are_those_of_the_hits_shown(tmp_path: Path) -> None:
    texts = [edited(RNG, TOXIC, 0.08), *TEXTS[:10], TOXIC, edited(RNG, TOXIC, 0.01)]
    path = corpus(tmp_path, texts).path
    only = ("--docs", "11", "--kind", "near", "--limit", "1", "--passages")
    hits = json.loads(run("--manifest", path, *only, "--json"))["hits"]

    assert [(hit["doc"], "passages" in hit) for hit in hits] == [(0, False), (12, True)]


def test_documents_or_an_incident_are_needed(manifest: Path) -> None:
    with pytest.raises(UsageError, match="--docs, or an incident"):
        run("--manifest", manifest)


def test_passages_of_ids_that_nothing_decodes_are_refused_before_the_search(
    tmp_path: Path,
) -> None:
    ids = [[RNG.randrange(256) for _ in range(60)] for _ in range(4)]
    path = token_corpus(tmp_path, ids, "ids:258:256:257").path
    with pytest.raises(UsageError, match="--passages shows text, and the tokenizer"):
        run("--manifest", path, "--docs", "0", "--passages")

    assert "relatives" in run("--manifest", path, "--docs", "0")


def test_passages_are_looked_for_in_the_head_of_a_giant_text(
    manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similar_module, "MOST_READ", 300)
    payload = json.loads(run("--manifest", manifest, "--docs", "20", "--passages", "--json"))
    (near,) = [hit for hit in payload["hits"] if hit["kind"] == "near"]

    assert near["passages"]
    assert all(passage["there"][1] <= 300 for passage in near["passages"])
