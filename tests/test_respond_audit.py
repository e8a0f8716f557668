"""Shard audits, bulk decisions and the text-free export."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers_respond import make_corpus, make_run, text_of
from hypothesis import given
from hypothesis import strategies as st

from shardward.loader.errors import DecisionError, FormatError, NotFound, UsageError
from shardward.loader.manifest import Manifest
from shardward.quarantine.respond.audit import (
    Audit,
    audits,
    find_audit,
    finish_audit,
    review,
    start_audit,
    upper_bound,
)
from shardward.quarantine.respond.bulk import Filter, confirm_count, filter_scope, matching
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.export import export_rows
from shardward.quarantine.respond.revisions import publish_revision
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision

SHARD = "s1.parquet"


class Desk:
    def __init__(self, home: Path) -> None:
        self.manifest: Manifest = make_corpus(home)
        self.run = make_run(home, self.manifest)
        self.log = DecisionLog(self.run.path, manifest=self.manifest.fingerprint)

    def hold(self, size: int | None = 6) -> Audit:
        self.log.append(
            start_audit(self.manifest, SHARD, size=size, reason="near the spike", actor="kim")
        )
        return self.audit

    @property
    def audit(self) -> Audit:
        return find_audit(self.log.entries(), SHARD)

    def look_at(self, doc: int, *, bad: bool) -> None:
        self.log.append(review(self.audit, doc, bad=bad, reason="read", actor="kim"))

    def excluded(self) -> list[int]:
        return [int(d) for d in publish_revision(self.run.path, self.manifest).documents]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_shard_under_audit_is_held_whole(desk: Desk) -> None:
    desk.hold()

    assert desk.excluded() == list(range(20, 40))


def test_the_sample_is_the_same_every_time_and_spread_over_lengths(desk: Desk) -> None:
    first = desk.hold().sample
    again = start_audit(desk.manifest, SHARD, size=6, reason="r", actor="a").evidence["audit"]

    assert list(first) == again["sample"]
    lengths = sorted((len(text_of(d)), d) for d in range(20, 40))
    thirds = [{d for _, d in part} for part in (lengths[:7], lengths[7:14], lengths[14:])]
    assert [len(third & set(first)) for third in thirds] == [2, 2, 2]


def test_after_the_audit_only_the_condemned_stay_out(desk: Desk) -> None:
    sample = desk.hold().sample
    for doc in sample:
        desk.look_at(doc, bad=doc == sample[0])
    desk.log.append(finish_audit(desk.audit, reason="mostly fine", actor="kim"))

    assert desk.excluded() == [sample[0]]
    assert desk.audit.finished


def test_an_unfinished_review_keeps_the_shard_held(desk: Desk) -> None:
    sample = desk.hold().sample
    desk.look_at(sample[0], bad=False)

    with pytest.raises(DecisionError, match="5 of 6 sampled documents"):
        finish_audit(desk.audit, reason="r", actor="kim")
    assert sample[0] not in desk.excluded()


def test_a_document_outside_the_sample_is_no_review(desk: Desk) -> None:
    audit = desk.hold()

    with pytest.raises(DecisionError, match="not in the sample"):
        review(audit, next(d for d in range(20, 40) if d not in audit.sample),
               bad=True, reason="r", actor="a")  # fmt: skip


def test_the_bound_shrinks_with_every_clean_review_and_a_full_review_knows(desk: Desk) -> None:
    bounds = [desk.hold(None).bound]
    for doc in desk.audit.sample:
        desk.look_at(doc, bad=False)
        bounds.append(desk.audit.bound)

    assert bounds == sorted(bounds, reverse=True)
    assert (bounds[0], bounds[-1]) == (1.0, 0.0)


def test_the_bound_of_a_clean_sample_is_the_known_one() -> None:
    assert upper_bound(59, 0, 10**6) == pytest.approx(1 - 0.05 ** (1 / 59))


@given(st.integers(1, 200), st.data())
def test_the_bound_is_where_so_few_bad_ones_become_unlikely(n: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, n - 1))

    bound = upper_bound(n, bad, 10**9)

    chance = sum(math.comb(n, k) * bound**k * (1 - bound) ** (n - k) for k in range(bad + 1))
    assert chance == pytest.approx(0.05, rel=1e-6)


def test_a_shard_that_is_not_under_audit_is_said(desk: Desk) -> None:
    with pytest.raises(NotFound, match="under audit: none"):
        find_audit(desk.log.entries(), SHARD)
    assert audits(desk.log.entries()) == []


def write_findings(path: Path, *findings: dict[str, object]) -> Path:
    path.write_text("\n".join(json.dumps(f) for f in findings) + "\n")
    return path


def test_a_filter_names_what_all_its_conditions_hold_for(desk: Desk, tmp_path: Path) -> None:
    findings = write_findings(
        tmp_path / "f.jsonl",
        {"doc": 3, "detector": "repetition", "score": 0.95, "verdict": True},
        {"doc": 6, "detector": "repetition", "score": 0.5, "verdict": False},
        {"doc": 7, "detector": "binary", "score": 0.99, "verdict": True},
    )

    wanted = Filter(findings=findings, detector="repetition", min_score=0.9)
    assert matching(wanted, desk.manifest).docs.tolist() == [3]
    named = filter_scope(wanted, np.array([3], np.int64)).describe()
    assert named == "what matches detector=repetition min_score=0.9"
    assert matching(Filter(findings=findings, source="de"), desk.manifest).docs.tolist() == [3, 6]
    lengths = [len(text_of(d).encode()) for d in range(60)]
    found = matching(Filter(min_tokens=50, max_tokens=55, shard=SHARD), desk.manifest).docs
    assert found.tolist() == [d for d in range(20, 40) if 50 <= lengths[d] <= 55]


def test_a_bulk_decision_needs_the_count_confirmed(desk: Desk) -> None:
    docs = matching(Filter(source="de"), desk.manifest).docs

    with pytest.raises(UsageError, match="names 20 documents and nothing was confirmed"):
        confirm_count(docs.size, None)
    with pytest.raises(UsageError, match="19 were confirmed"):
        confirm_count(docs.size, 19)
    confirm_count(docs.size, 20)


def test_a_single_release_beats_a_bulk_decision(desk: Desk) -> None:
    wanted = Filter(source="de")
    scope = filter_scope(wanted, matching(wanted, desk.manifest).docs)
    release = Decision(action="release", scope=Scope.of_documents([3]), reason="r", actor="a")
    desk.log.append(release)
    desk.log.append(Decision(action="quarantine", scope=scope, reason="r", actor="a"))

    assert 3 not in desk.excluded()
    assert len(desk.excluded()) == 19


def test_filters_that_mean_everything_or_nothing_are_refused(desk: Desk) -> None:
    with pytest.raises(UsageError, match="the whole corpus"):
        Filter()
    with pytest.raises(UsageError, match="give their file"):
        Filter(source="de", min_score=0.5)
    with pytest.raises(UsageError, match="names no document"):
        filter_scope(Filter(source="de"), np.empty(0, np.int64))


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("{", FormatError, "line 1 is no finding"),
        ("[]", FormatError, "line 1 is no finding"),
        ('{"doc": true}', FormatError, "no ordinal"),
        ('{"doc": "7"}', FormatError, "no ordinal"),
        ("\udcff", FormatError, "line 1 is no finding"),
        ('{"doc": 60}', NotFound, "no document 60"),
    ],
)
def test_malformed_findings_are_refused_with_their_line(
    desk: Desk, tmp_path: Path, line: str, error: type[Exception], message: str
) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(line.encode("utf-8", "surrogateescape") + b"\n")

    with pytest.raises(error, match=message):
        matching(Filter(findings=path), desk.manifest)


def test_the_export_has_no_word_of_the_text(desk: Desk) -> None:
    desk.log.append(
        Decision(
            action="condemn",
            scope=Scope.of_documents([7]),
            reason=f"says {text_of(7)}",
            actor="kim",
            evidence={"quote": text_of(7)},
        )
    )

    rows = list(export_rows(desk.log.entries(), desk.manifest))

    assert "word" not in json.dumps(rows)
    assert [(r["doc"], r["id"], r["state"]) for r in rows] == [(7, "d7", "condemned")]
    assert len(rows[0]["content_xxh3_128"]) == 32
    [with_reason] = export_rows(desk.log.entries(), desk.manifest, reasons=True)
    assert "word" in with_reason["reason"]
