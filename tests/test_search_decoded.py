"""Corpora of token ids searched, scanned and shown by the text that their tokenizer gives."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from helpers_search import SCRIPTS, corpus, edited, prose
from helpers_tokens import byte_level_bpe, encoded, token_corpus

from shardward.cli.main import cli
from shardward.loader import Manifest, ShardLoader, build_manifest
from shardward.loader.run import Run
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.ledger.names import Excerpt, excerpts
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.suspects import find_suspects
from shardward.quarantine.search.corpus_scan import scan_corpus, scan_documents
from shardward.quarantine.search.incident_window import IncidentWindow
from shardward.quarantine.search.index_job import build_signatures, read_shard
from shardward.quarantine.search.sidecar import read_sidecar, usable_sidecar
from shardward.quarantine.search.similar import search
from shardward.quarantine.search.triage import triage

RNG = random.Random(6)
PLAIN = [prose(RNG, 80) for _ in range(20)]
COPY = edited(RNG, PLAIN[3], 0.05)
CONTROLS = "\x01\x02\x03 junk " * 40
MOJIBAKE = SCRIPTS[1].encode().decode("latin-1") * 8
TEXTS = [*PLAIN, COPY, PLAIN[4], CONTROLS, MOJIBAKE, *SCRIPTS, ""]
JUNK = [22, 23]


def shardward(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def answer_of(*arguments: str | int | Path) -> dict[str, Any]:
    result = shardward(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def definition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return byte_level_bpe(tmp_path_factory.mktemp("bpe") / "made.json", TEXTS, 600)


@pytest.fixture(scope="module", params=["bytes", "hf"])
def manifest(
    request: pytest.FixtureRequest, definition: Path, tmp_path_factory: pytest.TempPathFactory
) -> Manifest:
    home = tmp_path_factory.mktemp("tokens")
    if request.param == "bytes":
        return token_corpus(home, encoded(None, TEXTS), "bytes")
    return token_corpus(home, encoded(definition, TEXTS), f"hf:{definition}")


@pytest.fixture(scope="module")
def as_text(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return corpus(tmp_path_factory.mktemp("text"), TEXTS, rows=8)


def test_signatures_and_features_are_those_of_the_text(
    manifest: Manifest, as_text: Manifest
) -> None:
    for shard in range(2):
        decoded, stored = read_shard(manifest, shard), read_shard(as_text, shard)
        for name in ("hashes", "counts", "low", "vectors", "flags"):
            assert getattr(decoded, name).tolist() == getattr(stored, name).tolist()


def test_search_and_scan_find_what_they_find_in_the_text(
    manifest: Manifest, as_text: Manifest
) -> None:
    hits = search(manifest, [3, 4, *JUNK], threshold=0.5)

    assert [(hit.doc, hit.kind) for hit in hits if hit.kind != "junk"] == [
        (20, "near"),
        (21, "exact"),
    ]
    assert hits == search(as_text, [3, 4, *JUNK], threshold=0.5)
    assert hits == search(manifest, [3, 4, *JUNK], threshold=0.5, workers=2)
    findings = scan_corpus(manifest).findings
    kept = [finding for finding in findings if finding.detector != "token-period"]
    assert kept == scan_corpus(as_text).findings
    assert {finding.doc for finding in kept if finding.verdict} == set(JUNK)
    assert scan_documents(manifest, range(len(TEXTS))) == findings
    suspects = [s.doc for s in triage(manifest, [1, 2, 22], range(5, 15)) if s.verdict]
    assert suspects == [22]


def test_periods_are_still_looked_for_in_the_ids(definition: Path, tmp_path: Path) -> None:
    # Half characters: nothing that the text would show repeats 40 times.
    loop = [200, 150, 7] * 40
    documents = [*encoded(definition, PLAIN), loop]

    found = token_corpus(tmp_path, documents, f"hf:{definition}")

    periods = [f for f in scan_corpus(found).findings if f.detector == "token-period"]
    assert [(f.doc, f.values["value"]) for f in periods] == [(20, 40.0)]
    assert [f for f in scan_documents(found, [20, 1]) if f.detector == "token-period"] == periods
    suspects = triage(found, [1, 20], range(5, 15))
    assert "token-period" in {f.detector for s in suspects for f in s.findings}


def test_a_sidecar_of_another_tokenizer_is_not_used(definition: Path, tmp_path: Path) -> None:
    ids = encoded(None, PLAIN)
    first = token_corpus(tmp_path, ids, "bytes")
    other = build_manifest(
        [str(tmp_path / "data")], tmp_path / "other", column="ids", tokenizer=f"hf:{definition}"
    )
    build_signatures(first)
    (first.path / "signatures").rename(other.path / "signatures")

    assert usable_sidecar(other, 0) is None
    with pytest.raises(Exception, match="was made for manifest"):
        read_sidecar(other, 0)


def test_scan_and_similar_by_command(manifest: Manifest) -> None:
    scanned = answer_of("scan", "--manifest", manifest.path)
    alike = answer_of(
        "similar", "--manifest", manifest.path, "--docs", 3, "--threshold", "0.5", "--passages"
    )

    assert {f["doc"] for f in scanned["findings"] if f["verdict"]} == set(JUNK)
    (hit,) = alike["hits"]
    assert (hit["doc"], hit["kind"]) == (20, "near")
    assert hit["passages"][0]["text"] in COPY


@pytest.fixture(scope="module")
def run(manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    plan = manifest.plan(seed=3, seq_len=48, window_blocks=2)
    home = tmp_path_factory.mktemp("run") / "run"
    made = Run.create(home, plan=plan, manifest_path=manifest.path)
    with ShardLoader(manifest, plan, run=made, batch=12) as loader:
        for step in range(1, 6):
            next(loader)
            loader.observe(step, loss=1.0)
    return made


def test_ids_of_an_unknown_tokenizer_have_suspects_too(tmp_path: Path) -> None:
    documents = [RNG.choices(range(90), k=40) for _ in range(24)]
    documents[2] = [5, 6, 7] * 40
    found = token_corpus(tmp_path, documents, "ids:100:98:99")
    plan = found.plan(seed=1, seq_len=None)
    made = Run.create(tmp_path / "run", plan=plan, manifest_path=found.path)
    with ShardLoader(found, plan, run=made, batch=8) as loader:
        for step in range(1, 4):
            next(loader)
            loader.observe(step, loss=1.0, sample_loss=[float(step)] * 8)
    incident = IncidentStore(made.path).open(onset=3, detected=3, actor="kim")
    with Ledger.open(made) as ledger:
        docs = tuple(sorted({*ledger.step_documents(3)["doc"].to_pylist(), 2}))
        window = IncidentWindow(first=3, last=3, docs=docs, controls=())
        suspects, free = find_suspects(incident, ledger, found, window, branch=None)
        # A document that healthy steps ate as well is a control alone; nothing is refused.
        both = replace(window, controls=(2,))
        assert find_suspects(incident, ledger, found, both, branch=None) == ([], [])

    assert [(suspect.doc, suspect.verdict) for suspect in suspects] == [(2, True)]
    assert free == []
    told = shardward("scan", "--manifest", found.path)
    assert "the tokenizer of these ids is not known" in told.stderr


def test_shown_spans_are_the_text_of_the_document(run: Run) -> None:
    steps = [
        answer_of("ledger", "step", step, "--run", run.path, "--show")["rows"]
        for step in range(1, 6)
    ]
    rows = [row for step in steps for row in step]

    for row in rows:
        shown = "".join(row["text"][part] for part in ("before", "span", "after"))
        assert shown.strip("\N{REPLACEMENT CHARACTER}") in TEXTS[row["doc"]]
    pieces = sorted(rows, key=lambda row: (row["doc"], row["token_start"]))
    neighbours = [
        (left, right)
        for left, right in pairwise(pieces)
        if left["doc"] == right["doc"] and left["token_end"] == right["token_start"]
    ]
    assert len(neighbours) > 10
    for left, right in neighbours:
        assert left["text"]["span"] + right["text"]["span"] in TEXTS[left["doc"]]


def test_shown_texts_name_the_extra_where_nothing_can_decode(
    run: Run, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardward.loader.tokenizer_hf.find_spec", lambda name: None)
    result = shardward("ledger", "step", 1, "--run", run.path, "--show")

    needs_package = manifest.header.tokenizer.name == "hf"
    assert (result.exit_code != 0) == needs_package
    assert ("shardward[hf]" in result.output) == needs_package


def test_a_character_that_two_spans_share_stands_whole_in_the_second(tmp_path: Path) -> None:
    found = token_corpus(tmp_path, encoded(None, ["a😀b", "c"]), "bytes")
    rows = pa.table({"doc": [0, 0], "token_start": [0, 3], "token_end": [3, 7]})

    assert excerpts(found, rows) == [
        Excerpt(before="", span="a", after="😀b"),
        Excerpt(before="a", span="😀b", after=""),
    ]


def test_text_that_is_encoded_on_the_fly_shows_text_too(
    definition: Path, as_text: Manifest, tmp_path: Path
) -> None:
    found = build_manifest([as_text.root], tmp_path / "m", tokenizer=f"hf:{definition}")
    edge = len(encoded(definition, [TEXTS[3][:40]])[0]) - 1
    rows = pa.table({"doc": [3], "token_start": [0], "token_end": [edge]})

    (excerpt,) = excerpts(found, rows)

    assert excerpt is not None
    assert len(excerpt.span) > 20
    assert TEXTS[3].startswith(excerpt.span + excerpt.after)
