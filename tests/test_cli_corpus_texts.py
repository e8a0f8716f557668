"""`shardward corpus show --docs`: the texts behind a number."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers_loader import revision_of
from helpers_search import corpus
from helpers_tokens import token_corpus

from shardward.cli.main import cli
from shardward.loader.rebuilt import rebuilt_manifest
from shardward.quarantine.respond.rebuild import rebuild

HOSTILE = "one\ntwo\x1b[2J \u202eback\u200b 語"
TEXTS = ["plain", HOSTILE, "", "é" * 30]


def show(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["corpus", "show", "--manifest", str(path), *arguments])


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("texts"), TEXTS).path


def test_a_hostile_text_stands_on_one_line_with_its_place(manifest: Path) -> None:
    lines = show(manifest, "--docs", "1").stdout.splitlines()

    assert lines[0].startswith("document 1: row 1 of part-000.parquet, source test, ")
    assert lines[1:] == [r"  one\ntwo\x1b[2J \u202eback\u200b 語"]


def test_texts_are_cut_between_characters_and_the_json_has_them_all(manifest: Path) -> None:
    asked = ("--docs", "3,0-2", "--bytes", "5", "--limit", "1")
    printed, payload = show(manifest, *asked).stdout, show(manifest, *asked, "--json").stdout
    found = json.loads(payload)["documents"]

    assert "  éé…\n" in printed
    assert "3 more; raise --limit" in printed
    assert [(each["doc"], each["text"], each["cut"]) for each in found] == [
        (3, "éé", True),
        (0, "plain", False),
        (1, "one\nt", True),
        (2, "", False),
    ]
    assert (found[0]["bytes"], found[0]["row"], found[0]["gone"]) == (60, 1, False)


def test_a_document_that_is_not_there_is_refused_and_so_is_a_list_of_shards(
    manifest: Path,
) -> None:
    outside, both = show(manifest, "--docs", "0,9"), show(manifest, "--docs", "0", "--shards")

    assert (outside.exit_code, both.exit_code) == (1, 2)
    assert "document 9 does not exist; this corpus has documents 0 to 3" in outside.stderr
    assert outside.stdout == ""


@pytest.mark.parametrize(
    ("tokenizer", "text"), [("bytes", "  abc"), ("ids:258:256:257", "  97 98 99")]
)
def test_ids_are_decoded_where_they_can_be_and_what_is_gone_says_so(
    tokenizer: str, text: str, tmp_path: Path
) -> None:
    whole = token_corpus(tmp_path, [list(b"abc")] * 20, tokenizer)
    left = revision_of(whole, (3,))
    rebuild(whole, left, tmp_path / "clean")
    kept = rebuilt_manifest(whole, tmp_path / "clean", tmp_path / "kept", gone=left.documents)
    lines = show(kept.path, "--docs", "2-3").stdout.splitlines()

    assert [lines[1], lines[3]] == [text, "  taken out by a rebuild"]


def test_similar_names_the_command_that_shows_both_texts(tmp_path: Path) -> None:
    path = corpus(tmp_path, ["some words of a page that was copied"] * 2 + ["other"]).path
    words = ["similar", "--manifest", str(path), "--docs", "0", "--kind", "exact"]
    found = CliRunner().invoke(cli, words).stdout
    (line,) = [line for line in found.splitlines() if line.startswith("next: shardward ")]
    shown = CliRunner().invoke(cli, shlex.split(line)[2:])

    assert shown.exit_code == 0
    assert [line[:11] for line in shown.stdout.splitlines()[::2]] == ["document 1:", "document 0:"]
