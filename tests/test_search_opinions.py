"""Text detectors, plug-ins, what is usual for a source, and corpora of token ids."""

from __future__ import annotations

import base64
import random
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_search import corpus, prose

from shardward.loader.errors import CorpusError
from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.quarantine.search.corpus_scan import examine_documents, scan_corpus, scan_documents
from shardward.quarantine.search.findings import Opinion
from shardward.quarantine.search.opinions import GROUP, Panel, panel
from shardward.quarantine.search.quality import quality_rules_broken
from shardward.quarantine.search.similar import search
from shardward.quarantine.search.token_repeats import token_findings
from shardward.quarantine.search.triage import triage

RNG = random.Random(8)
TABLE = "\n".join(f"{i}; {RNG.random():.5f}; {RNG.randrange(999)}" for i in range(80))
GOOD = " ".join(f"the {prose(RNG, 4)} of and" for _ in range(40))


class Shouting:
    """A third party's detector."""

    name, version, family = "shouting", 3, "style"

    def examine(self, text: str, source: str) -> Opinion | None:
        if text.isupper():
            return Opinion(score=0.9, reason=f"{source} shouts", spans=((0, 3),), decides=True)
        return None


class Failing(Shouting):
    """Raises on some documents, and points outside others."""

    name = "failing"

    def examine(self, text: str, source: str) -> Opinion | None:
        if "boom" in text:
            raise KeyError("boom")
        return Opinion(score=0.2, reason="beyond", spans=((0, 10**6),))


class Unshown(Exception):
    """An error that cannot be shown either."""

    def __repr__(self) -> str:
        raise ValueError("nor this")


class Panic(BaseException):
    """What Rust raises through Python, and what a cancelled task does, is no Exception."""


class Raising(Shouting):
    """Raises whatever it was given."""

    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def examine(self, text: str, source: str) -> Opinion | None:
        raise self.error


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def test_a_plug_in_is_found_by_its_entry_point_and_a_broken_one_reported() -> None:
    points = [
        point("good", "helpers_search:Loud"),
        point("gone", "no_such_package:X"),
        point("odd", "helpers_search:WORDS"),
    ]
    found = panel(points)

    built_in = ["gopher-quality", "template-residue", "old-code-page", "mixed-scripts"]
    assert [d.name for d in found.detectors] == [*built_in, "loud"]
    assert len(found.problems) == 2
    assert "no_such_package" in found.problems[0]
    assert "odd" in found.problems[1]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Panic("rust"), "Panic('rust')"),
        (GeneratorExit(), "GeneratorExit()"),
        (SystemExit(0), "SystemExit(0)"),
        (Unshown(), "Unshown, which cannot be shown"),
    ],
)
def test_whatever_a_detector_raises_stops_nothing(error: BaseException, said: str) -> None:
    asked = Panel(detectors=(Raising(error), Shouting()))
    findings, failures = asked.examine(7, "LOUD", "test")

    assert [finding.detector for finding in findings] == ["shouting"]
    assert [str(failure) for failure in failures] == [
        f"detector raising failed on document 7: {said}"
    ]


def test_an_interrupt_of_a_person_passes_through_a_detector() -> None:
    with pytest.raises(KeyboardInterrupt):
        Panel(detectors=(Raising(KeyboardInterrupt()),)).examine(7, "LOUD", "test")


def test_a_detector_that_fails_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    manifest = corpus(tmp_path, ["LOUD WORDS", "boom", "quiet"], shards=1)
    report = examine_documents(manifest, [0, 1, 2], panel=Panel(detectors=(Failing(), Shouting())))

    assert [(f.doc, f.detector, f.verdict, f.reason) for f in report.findings] == [
        (0, "shouting", True, "test shouts")
    ]
    assert len(report.problems) == 1
    assert "failing failed on document 0: " in report.problems[0]
    assert report.problems[0].endswith("; and on 2 more")


def test_text_detectors_join_a_scan_of_the_whole_corpus(tmp_path: Path) -> None:
    manifest = corpus(tmp_path, ["LOUD WORDS", GOOD], shards=2)
    report = scan_corpus(manifest, panel=Panel(detectors=(Shouting(),)))

    assert [f.doc for f in report.findings if f.detector == "shouting"] == [0]
    assert [f.doc for f in scan_corpus(manifest).findings if f.detector == "shouting"] == []


def test_good_english_breaks_no_quality_rule() -> None:
    assert quality_rules_broken(GOOD, GOOD.split()) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("too few", "too few words"),
        ("", "too few words"),
        ("a b c d " * 50, "short words"),
        ("incomprehensibilities " * 60, "long words"),
        (GOOD + " # # #" * 40, "hash signs"),
        (GOOD + " wait..." * 40, "ellipses"),
        ("\n".join("- " + prose(RNG, 9) for _ in range(20)), "bullet lines"),
        ("\n".join(prose(RNG, 9) + "..." for _ in range(20)), "lines ending in an ellipsis"),
        (GOOD + " 12 34 56" * 200, "few alphabetic words"),
        (prose(RNG, 100), "few stop words"),
    ],
)
def test_each_quality_rule_is_broken_by_its_text(text: str, rule: str) -> None:
    assert rule in quality_rules_broken(text, text.split())


def sources_corpus(path: Path, texts: list[tuple[str, str]]) -> Manifest:
    path.mkdir(exist_ok=True)
    table = pa.table({"text": [t for t, _ in texts], "source": [s for _, s in texts]})
    pq.write_table(table, path / "part.parquet", row_group_size=50)
    return build_manifest([str(path / "*.parquet")], path / "manifest", source_column="source")


def test_a_source_of_tables_is_not_a_source_of_junk(tmp_path: Path) -> None:
    tables = [
        "\n".join(f"{i}; {RNG.random():.5f}; {RNG.randrange(999)}" for i in range(40))
        for _ in range(60)
    ]
    manifest = sources_corpus(
        tmp_path, [*((t, "statistics") for t in tables), *((GOOD, "books"),) * 59, (TABLE, "books")]
    )
    findings = list(scan_corpus(manifest).findings)
    decisive = {finding.doc for finding in findings if finding.verdict}

    assert decisive == {119}
    assert "usual for its source" in findings[0].reason


def test_a_source_that_is_wholly_degenerate_stays_flagged(tmp_path: Path) -> None:
    loops = [f"{prose(RNG, 5)} " * 100 for _ in range(60)]
    manifest = sources_corpus(tmp_path, [(text, "web") for text in loops])

    assert {f.doc for f in scan_corpus(manifest).findings if f.verdict} == set(range(60))


def test_a_source_of_nothing_but_base64_stays_flagged(tmp_path: Path) -> None:
    blobs = [base64.encodebytes(RNG.randbytes(900)).decode() for _ in range(60)]
    manifest = sources_corpus(tmp_path, [(text, "web") for text in blobs])

    assert {f.doc for f in scan_corpus(manifest).findings if f.verdict} == set(range(60))


def test_a_source_of_texts_that_are_part_base64_is_not_excused(tmp_path: Path) -> None:
    parts = [
        f"{prose(RNG, 60)}\n{base64.encodebytes(RNG.randbytes(900)).decode()}" for _ in range(60)
    ]
    manifest = sources_corpus(tmp_path, [(text, "mail") for text in parts])

    assert {f.doc for f in scan_corpus(manifest).findings if f.verdict} == set(range(60))


def tokens_corpus(path: Path, documents: list[list[int]]) -> Manifest:
    table = pa.table({"ids": pa.array(documents, pa.list_(pa.int32()))})
    pq.write_table(table, path / "tokens.parquet", row_group_size=8)
    return build_manifest(
        [str(path / "*.parquet")], path / "manifest", column="ids", tokenizer="ids:1000:0:1"
    )


def test_token_corpora_are_searched_and_their_repeats_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    plain = [rng.integers(2, 1000, 200).tolist() for _ in range(20)]
    copy = [*plain[3][:100], 7, *plain[3][101:]]
    loop = [*plain[0][:20], *([5, 6, 7] * 40), *plain[0][20:50]]
    almost = [5, 6, 7] * 31
    manifest = tokens_corpus(tmp_path, [*plain, copy, plain[4], loop, almost])

    hits = search(manifest, [3, 4], threshold=0.5)
    assert [(hit.doc, hit.kind) for hit in hits] == [(20, "near"), (21, "exact")]
    findings = scan_corpus(manifest).findings
    assert [(f.doc, f.detector, f.values["value"]) for f in findings] == [
        (22, "token-period", 40.0)
    ]
    assert scan_documents(manifest, [22, 1]) == findings
    assert [s.doc for s in triage(manifest, [1, 2, 22], range(5, 15)) if s.verdict] == [22]


@pytest.mark.parametrize(("period", "times"), [(1, 32.0), (13, 32.0), (14, None), (40, None)])
def test_only_units_of_1_to_13_tokens_count_as_token_repeats(
    period: int, times: float | None
) -> None:
    document = np.tile(np.arange(period), 32)
    found = list(token_findings(document, np.array([0, document.size]), np.array([7])))

    assert [finding.values["value"] for finding in found] == ([] if times is None else [times])
    assert all(finding.version == 2 for finding in found)


def test_shards_that_cannot_be_read_are_all_named(tmp_path: Path) -> None:
    manifest = corpus(tmp_path, [GOOD] * 12, shards=3)
    for name in ("part-000.parquet", "part-002.parquet"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-40])

    with pytest.raises(CorpusError, match=r"2 of 3 shards.*part-000.*part-002"):
        search(manifest, [5])
    with pytest.raises(CorpusError, match=r"2 parts .*part-000.*part-002"):
        scan_corpus(manifest)
