"""Copies that the run ate before without harm are not to blame; the real commands say so."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from helpers_incident import Desk

from shardward.cli.main import cli
from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.respond.acquittal import (
    COPIES,
    Acquittal,
    acquit_hits,
    acquit_suspects,
    harmed_steps,
)
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.suspects import acquit_relatives, families_of
from shardward.quarantine.search import similar
from shardward.quarantine.search.band_scan import agreeing_rows
from shardward.quarantine.search.findings import Finding, Suspect
from shardward.quarantine.search.hits import Hit
from shardward.quarantine.search.incident_window import IncidentWindow
from shardward.quarantine.search.similar import search

DOCUMENTS = 400
LENGTH = 31
"""With its separator a document is one sample of the run, so no step has a piece of another's."""
LICENCE = "u m a y u s e i t a s u w "
FLOOD = "n o o x i s a t m y z o o "


def words(seed: int) -> str:
    """Text of its own: no two documents share five words in a row."""
    letters = np.random.default_rng(seed).integers(97, 123, LENGTH)
    return " ".join(chr(letter) for letter in letters)[:LENGTH]


def build(home: Path, texts: dict[int, str]) -> Manifest:
    """A corpus in which the order does not depend on `texts`, since all lengths are equal."""
    data = home / "corpus"
    data.mkdir(parents=True)
    content = [texts.get(doc, words(doc)) for doc in range(DOCUMENTS)]
    table = pa.table({"id": [f"d{doc}" for doc in range(DOCUMENTS)], "text": content})
    pq.write_table(table, data / "s.parquet", row_group_size=20)
    return build_manifest([str(data)], home / "manifest", id_column="id", tokenizer="bytes")


def copy_of(text: str, number: int) -> str:
    """A near copy: the same text with one word of its own at the end."""
    return f"{text[: LENGTH - 5]} {number:04d}"


def fed(desk: Desk) -> dict[int, list[int]]:
    """Return the documents of each step."""
    with Ledger.open(desk.run) as ledger:
        return {step: ledger.step_documents(step)["doc"].to_pylist() for step in range(1, 71)}


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[int]]:
    home = tmp_path_factory.mktemp("plain")
    return fed(Desk(home, build(home, {})))


@pytest.fixture
def crowded(tmp_path: Path, order: dict[int, list[int]]) -> tuple[Desk, list[int], list[int]]:
    """A spike at 60 that ate a licence known from step 20 on, and copies of something new."""
    window = {doc for step in (60, 61, 62) for doc in order[step]}
    fresh = sorted(window - {doc for step in range(1, 60) for doc in order[step]})
    early = {doc for step in range(20, 40) for doc in order[step]}
    early -= window | {doc for step in range(40, 60) for doc in order[step]}
    licences, flood = fresh[::2], fresh[1::2]
    texts = {doc: copy_of(LICENCE, doc) for doc in (*licences, *sorted(early)[:3])}
    texts |= {doc: copy_of(FLOOD, doc) for doc in flood}
    assert min(len(licences), len(flood), len(early)) >= 3
    desk = Desk(tmp_path, build(tmp_path, texts))
    assert fed(desk) == order
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")
    desk.json("confirm", "INC-0001", "--yes")
    return desk, licences, flood


def ask(desk: Desk, *words: str) -> Any:
    result = CliRunner().invoke(cli, [*words, "--run", str(desk.run.path), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_copy_of_what_was_eaten_before_is_acquitted_and_a_new_one_is_not(
    crowded: tuple[Desk, list[int], list[int]],
) -> None:
    desk, licences, flood = crowded

    said = desk.json("identify", "INC-0001", "--yes")

    assert sorted(said["suspects"]) == flood
    assert [free["doc"] for free in said["acquitted"]] == licences
    assert all(free["eaten"] == 3 and free["first_step"] >= 20 for free in said["acquitted"])


def test_scan_and_similar_follow_the_acquittal_and_say_so(
    crowded: tuple[Desk, list[int], list[int]],
) -> None:
    desk, licences, flood = crowded
    desk.json("identify", "INC-0001", "--yes")

    scanned = ask(desk, "scan", "--incident", "INC-0001")
    found = ask(desk, "similar", "--incident", "INC-0001")

    assert sorted(s["doc"] for s in scanned["suspects"] if s["verdict"]) == flood
    freed = {s["doc"]: s["reasons"][0] for s in scanned["suspects"] if s["doc"] in licences}
    assert all("before without harm" in reason for reason in freed.values())
    assert found["query"] == flood
    assert not {hit["doc"] for hit in found["hits"]} & set(licences)


def test_without_history_nobody_is_acquitted(crowded: tuple[Desk, list[int], list[int]]) -> None:
    desk, licences, flood = crowded

    said = desk.json("identify", "INC-0001", "--history", "0", "--yes")

    assert sorted(said["suspects"]) == sorted(licences + flood)
    assert said["acquitted"] == []


def test_relatives_that_were_eaten_long_ago_acquit_when_the_corpus_is_searched(
    crowded: tuple[Desk, list[int], list[int]],
) -> None:
    desk, licences, _ = crowded
    desk.json("identify", "INC-0001", "--history", "0", "--yes")

    found = ask(desk, "similar", "--incident", "INC-0001")

    assert {free["doc"] for free in found["acquitted"]} >= set(licences)
    assert not {hit["doc"] for hit in found["hits"]} & {free["doc"] for free in found["acquitted"]}


def test_steps_of_another_incident_acquit_nobody(
    crowded: tuple[Desk, list[int], list[int]],
) -> None:
    desk, licences, flood = crowded
    IncidentStore(desk.run.path).open(onset=20, detected=45, actor="kim")

    said = desk.json("identify", "INC-0001", "--yes")

    assert set(range(20, 46)) <= harmed_steps(desk.run.path)
    assert sorted(said["suspects"]) == sorted(licences + flood)


def suspect(doc: int, *families: str) -> Suspect:
    findings = tuple(
        Finding(
            doc=doc,
            detector=family,
            version=1,
            family=family,
            score=0.9,
            verdict=True,
            reason=family,
        )
        for family in families
    )
    return Suspect(doc=doc, score=0.9, verdict=True, reasons=("why",), spans=(), findings=findings)


@pytest.mark.parametrize("families", [("binary",), ("binary", COPIES)])
def test_junk_is_not_acquitted(
    crowded: tuple[Desk, list[int], list[int]], families: tuple[str, ...]
) -> None:
    desk, licences, _ = crowded
    window = IncidentWindow(first=60, last=62, docs=tuple(licences), controls=())
    accused = [suspect(licences[0], *families), suspect(licences[1], COPIES)]

    with Ledger.open(desk.run) as ledger:
        freed, free = acquit_suspects(accused, ledger, desk.manifest, window, branch=None)

    assert [each.doc for each in free] == [licences[1]]
    assert [each.doc for each in freed if each.verdict] == [licences[0]]


def test_copies_is_the_family_of_what_nothing_else_condemns() -> None:
    accused = [suspect(1, COPIES, "binary"), suspect(2, COPIES)]

    assert families_of(accused) == {1: "binary", 2: COPIES}


def test_relatives_acquit_no_junk_and_keep_what_is_like_junk(
    crowded: tuple[Desk, list[int], list[int]],
) -> None:
    desk, licences, _ = crowded
    desk.json("identify", "INC-0001", "--history", "0", "--yes")
    incident = IncidentStore(desk.run.path).get("INC-0001")
    copy, junk = licences[:2]
    stored = [
        {"doc": copy, "family": COPIES, "verdict": True},
        {"doc": junk, "family": "binary", "verdict": True},
    ]
    incident.attach("suspects", {"suspects": stored}, actor="kim")
    early = min(search_hits(desk, copy), key=lambda hit: hit.doc not in licences)
    like_junk = replace(early, doc=licences[2], query_doc=junk, kind="junk")
    like_copy = replace(early, doc=licences[2], query_doc=copy)

    with Ledger.open(desk.run) as ledger:
        left, free = acquit_relatives(
            incident,
            ledger,
            desk.manifest,
            [*search_hits(desk, copy), like_copy, like_junk],
            branch=None,
        )

    assert copy in {each.doc for each in free}
    assert junk not in {each.doc for each in free}
    assert left == [like_junk]


def test_copies_of_the_acquitted_that_were_not_looked_at_are_told(
    crowded: tuple[Desk, list[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, licences, _ = crowded
    hits = search_hits(desk, licences[0])
    monkeypatch.setattr(similar, "agreeing_rows", partial(agreeing_rows, most=1))
    told: list[str] = []

    with Ledger.open(desk.run) as ledger:
        free = acquit_hits(hits, ledger, desk.manifest, before=60, branch=None, tell=told.append)

    assert licences[0] in {each.doc for each in free}
    (line,) = told
    assert "candidates for near copies beyond" in line
    assert desk.manifest.shards[0].uri in line


def search_hits(desk: Desk, doc: int) -> list[Hit]:
    return list(search(desk.manifest, [doc], kinds=("near", "exact")))


def test_an_acquittal_is_said_in_words() -> None:
    found = Acquittal(doc=7, like=3, eaten=5, first_step=12)

    assert found.reason.endswith(
        "ate 5 copies of document 3 before without harm, the first at step 12"
    )
