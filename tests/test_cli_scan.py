"""`shardward scan` on a real corpus: table, JSON, refusals."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers_search import corpus, prose
from jsonschema import Draft202012Validator

from shardward.cli.scan import scan
from shardward.loader.errors import UsageError
from shardward.schemas import load_schema

RNG = random.Random(4)
TEXTS = [prose(RNG, 150) for _ in range(30)] + [RNG.randbytes(900).decode("latin-1"), "ab " * 900]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("scan"), TEXTS).path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(scan, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_json_validates_and_flags_the_junk(manifest: Path) -> None:
    payload = json.loads(run("--manifest", manifest, "--json"))
    Draft202012Validator(load_schema("scan.v1")).validate(payload)

    assert payload["documents"] == len(TEXTS)
    assert {f["doc"] for f in payload["findings"] if f["verdict"]} == {30, 31}


def test_exact_copies_of_the_whole_corpus_are_told(tmp_path: Path) -> None:
    place = corpus(tmp_path, [*TEXTS[:5], TEXTS[2], *TEXTS[5:9], TEXTS[2]], shards=3).path
    payload = json.loads(run("--manifest", place, "--json"))
    Draft202012Validator(load_schema("scan.v1")).validate(payload)
    found = payload["duplicates"]

    assert (found["count"], found["copies"], found["empty"]) == (1, 2, 0)
    assert [place["doc"] for place in found["groups"][0]["places"]] == [2, 5, 10]
    text = run("--manifest", place)
    assert "2 in part-000.parquet" in text
    assert "1 group, 2 documents beyond the first of each; 0 documents are empty" in " ".join(
        text.split()
    )


def test_one_empty_document_is_told_in_the_singular(tmp_path: Path) -> None:
    text = run("--manifest", corpus(tmp_path, [*TEXTS[:3], TEXTS[0], ""]).path)

    assert "1 group, 1 document beyond the first of each; 1 document is empty" in " ".join(
        text.split()
    )


def test_some_documents_can_be_named(manifest: Path) -> None:
    payload = json.loads(run("--manifest", manifest, "--docs", "0-3,30", "--json"))

    assert payload["documents"] == 5
    assert {f["doc"] for f in payload["findings"] if f["verdict"]} == {30}


def test_a_window_is_ranked_against_its_controls(manifest: Path) -> None:
    payload = json.loads(
        run("--manifest", manifest, "--window", "25-31", "--controls", "0-24", "--json")
    )
    Draft202012Validator(load_schema("scan.v1")).validate(payload)

    assert {s["doc"] for s in payload["suspects"] if s["verdict"]} == {30, 31}


def test_the_table_names_detector_and_reason(manifest: Path) -> None:
    text = run("--manifest", manifest, "--limit", "1")

    assert "binary" in text
    assert "more; raise --limit" in text
    assert text.endswith("2 of 32 documents are flagged\n")
    assert run("--manifest", manifest, "--docs", "30").endswith("1 of 1 document is flagged\n")


def test_the_table_of_a_window_has_verdicts_two_reasons_and_how_many_are_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    foreign = " ".join(f"слово{i}" for i in range(200))
    path = corpus(tmp_path, ["ab " * 900, foreign, *TEXTS[:4]]).path
    lines = run("--manifest", path, "--window", "0-5").splitlines()
    junk, clean = (next(line for line in lines if line[1:].split()[0] == n) for n in "01")

    assert "yes" in junk
    assert re.search(r"; .*; and \d more", junk)
    assert " no " in clean
    assert lines[-1] == "1 of 6 documents are flagged"


@pytest.mark.parametrize("docs", ["x", "3-1", "", "-4", "0-9999999"])
def test_a_list_that_is_no_list_is_refused(manifest: Path, docs: str) -> None:
    result = CliRunner().invoke(scan, ["--manifest", str(manifest), f"--docs={docs}"])

    assert result.exit_code == 2


def test_controls_need_a_window(manifest: Path) -> None:
    with pytest.raises(UsageError, match="--controls needs the --window"):
        run("--manifest", manifest, "--controls", "1")


def test_a_document_in_the_window_and_in_its_controls_is_refused(manifest: Path) -> None:
    with pytest.raises(UsageError, match=r"document 25 is in the window, 25-31, and .*are 0-24"):
        run("--manifest", manifest, "--window", "25-31", "--controls", "0-25")


def test_a_manifest_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARDWARD_MANIFEST", raising=False)

    with pytest.raises(UsageError, match="--manifest"):
        run()


def test_a_thorough_scan_asks_the_text_detectors(manifest: Path) -> None:
    payload = json.loads(run("--manifest", manifest, "--thorough", "--json"))

    assert "gopher-quality" in {finding["detector"] for finding in payload["findings"]}
    assert payload["problems"] == []


def test_two_questions_at_once_are_refused(manifest: Path) -> None:
    with pytest.raises(UsageError, match="give one of"):
        run("--manifest", manifest, "--docs", "1", "--window", "2")
