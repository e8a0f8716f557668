"""What a search found is decided from its output, and each document keeps why it was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers_respond import make_corpus, make_run

from shardward.cli.main import cli
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.findings import evidence_of, ground_of
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def run(tmp_path: Path, manifest: Manifest) -> Run:
    return make_run(tmp_path, manifest)


def quarantine(run: Run, *words: str) -> Result:
    return CliRunner().invoke(cli, ["quarantine", *words, "--run", str(run.path)])


def answer(run: Run, *words: str) -> Any:
    result = quarantine(run, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def similar(manifest: Manifest, doc: int) -> str:
    words = ["similar", "--manifest", str(manifest.path), "--docs", str(doc), "--json"]
    return CliRunner().invoke(cli, words).stdout


def test_why_gives_the_reason_of_the_document_that_similar_found(
    run: Run, manifest: Manifest, tmp_path: Path
) -> None:
    printed = similar(manifest, 7)
    hit = json.loads(printed)["hits"][0]
    (tmp_path / "hits.json").write_text(printed)
    count = len({each["doc"] for each in json.loads(printed)["hits"]})
    words = ("add", "--from", str(tmp_path / "hits.json"), "--reason", "relatives of 7")

    shown = answer(run, *words)
    answer(run, *words, "--expect", str(count), "--yes")
    told = answer(run, "why", str(hit["doc"]))

    assert (shown["done"], shown["documents"]) == (False, count)
    assert told["state"] == "quarantined"
    [ground] = told["grounds"]
    assert {n: ground[n] for n in ("reason", "kind", "score", "query_doc")} == {
        n: hit[n] for n in ("reason", "kind", "score", "query_doc")
    }
    assert ground["decision"] == 1
    assert "Why it was found" in quarantine(run, "why", str(hit["doc"])).stdout
    assert {row["found"] for row in answer(run, "list")["documents"]} >= {hit["reason"]}


def test_reasons_of_several_findings_are_joined_and_the_surest_leads(
    run: Run, tmp_path: Path
) -> None:
    rows = [
        {"doc": 3, "reason": "odd", "score": 0.4, "evidence": {"ticket": "T-1"}},
        {"doc": 3, "reason": "binary", "score": 0.9, "detector": "binary", "verdict": True},
        {"doc": 4, "reason": "fine", "score": 0.9, "verdict": False},
        {"doc": 5, "reasons": ["repeats", "odd"]},
    ]
    (tmp_path / "f.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    done = answer(
        run, "add", "--from", str(tmp_path / "f.jsonl"), "--reason", "x", "--expect", "2", "--yes"
    )

    assert done["decision"]["scope"]["documents"] == [3, 5]
    assert done["decision"]["evidence"]["documents"] == {
        "3": {"reason": "binary; odd", "score": 0.9, "detector": "binary"},
        "5": {"reason": "repeats; odd"},
    }


def test_a_bulk_decision_keeps_the_ground_of_each_document_it_names(
    run: Run, tmp_path: Path
) -> None:
    rows = [{"doc": doc, "reason": f"junk {doc}", "score": doc / 10} for doc in (3, 9)]
    (tmp_path / "f.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ("--findings", str(tmp_path / "f.jsonl"), "--min-score", "0.5", "--reason", "junk")

    answer(run, "bulk", *words, "--expect", "1", "--yes")

    assert [g["reason"] for g in answer(run, "why", "9")["grounds"]] == ["junk 9"]
    assert answer(run, "why", "3")["grounds"] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "names no document that was found"),
        ('{"doc": 3, "score": NaN}', "line 1: score is nan, no number"),
        ('{"doc": 3, "score": "high"}', "score is 'high', no number"),
        ('{"doc": 99999}', "there is no document 99999"),
        ('{"doc": 3, "reason": 7}', "line 1: the reason is no text"),
        ('{"schema_version": 1, "hits": [{"doc": "3"}]}', "hits 1: doc is '3', no ordinal"),
        ('{"schema_version": 1, "hits": 3}', "hits is no list"),
        ('{"schema_version": 1, "manifest": "abc", "hits": [{"doc": 3}]}', "is about corpus abc"),
        ("[" * 100_000, "line 1 is no finding"),
        ('{"doc": 3, "score": 1' + "0" * 400 + "}", "line 1: score is 1000"),
        ('{"doc": 1' + "0" * 5000 + "}", "is no finding (a number has too many digits)"),
        ('{"doc": 3, "verdict": "no"}', "verdict is 'no', not true or false"),
        ('{"doc": 3, "manifest": "abc"}', "line 1 is about corpus abc"),
        ('{"schema_version": 9, "hits": [{"doc": 3}]}', "schema_version 9, this release reads 1"),
        ('{"doc": 3, "evidence": ' + "[" * 480 + "]" * 480 + "}", "evidence is nested over 16"),
        ('{"doc": 3, "spans": ' + "[" * 900 + "]" * 900 + "}", "spans is nested over 16"),
        ('{"doc": 3}', "names 1 document and nothing was confirmed"),
    ],
)
def test_a_file_that_nobody_can_mean_is_refused_and_nothing_is_written(
    run: Run, tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "f.json").write_text(content)

    result = quarantine(run, "add", "--from", str(tmp_path / "f.json"), "--reason", "x", "--yes")

    assert result.exit_code != 0
    assert said in result.stderr
    assert DecisionLog(run.path).entries() == []


def test_hostile_reasons_are_kept_as_they_are_and_printed_without_their_controls(
    run: Run, tmp_path: Path
) -> None:
    nasty = "\x1b[2J\u202e</script>" + "x" * 9000
    (tmp_path / "f.jsonl").write_text(json.dumps({"doc": 3, "reason": nasty}))

    answer(
        run, "add", "--from", str(tmp_path / "f.jsonl"), "--reason", nasty, "--expect", "1", "--yes"
    )

    assert answer(run, "why", "3")["grounds"][0]["reason"] == nasty[:400]
    told = quarantine(run, "why", "3").stdout
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_evidence_of_plain_words_is_read_too() -> None:
    decision = Decision(
        action="quarantine",
        scope=Scope.of_documents([3]),
        reason="junk",
        actor="kim",
        evidence=evidence_of({3: "binary"}),
    )

    assert ground_of(decision, 3) == {"reason": "binary"}
    assert ground_of(decision, 4) is None


def test_the_first_document_and_a_score_of_nothing_are_shown_as_numbers(
    run: Run, tmp_path: Path
) -> None:
    hit = {"doc": 3, "query_doc": 0, "score": 0.0, "reason": "copy", "kind": "copy"}
    (tmp_path / "f.jsonl").write_text(json.dumps(hit))
    words = ("--reason", "x", "--expect", "1", "--yes")
    answer(run, "add", "--from", str(tmp_path / "f.jsonl"), *words)

    row = quarantine(run, "why", "3").stdout.splitlines()[-2]

    cells = [cell.strip() for cell in row.split("│")[1:-1]]
    assert cells == ["1", "copy", "0", "copy", "0"]


def test_a_ground_that_fills_the_decision_log_is_refused(run: Run, tmp_path: Path) -> None:
    found = tmp_path / "f.jsonl"
    words = ("add", "--from", str(found), "--reason", "x", "--expect", "1", "--yes")
    found.write_text(json.dumps({"doc": 3, "evidence": "x" * (64 << 10)}))

    refused = quarantine(run, *words)
    found.write_text(json.dumps({"doc": 3, "evidence": "x" * (63 << 10)}))
    taken = quarantine(run, *words)

    assert refused.exit_code == 1
    assert "what document 3 was found by has 655" in refused.stderr
    assert taken.exit_code == 0
