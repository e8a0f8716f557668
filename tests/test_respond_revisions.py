"""Revisions: what they hold, what publishing changes, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers_respond import make_corpus, make_run, text_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardward.loader.cursor import Cursor
from shardward.loader.errors import CorpusError, IntegrityError, MismatchError, UsageError
from shardward.loader.manifest import Manifest
from shardward.loader.order import EpochOrder, Layout
from shardward.loader.revision import Revision
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.quarantine.respond.corpus import content_hash, content_hashes, content_scope
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.impact import diff, impact
from shardward.quarantine.respond.revisions import (
    latest_revision,
    load_revision,
    publish_revision,
)
from shardward.quarantine.respond.scopes import PositionRange, Scope
from shardward.quarantine.respond.status import Decision


class Desk:
    def __init__(self, home: Path) -> None:
        self.manifest: Manifest = make_corpus(home)
        self.run: Run = make_run(home, self.manifest)
        self.log = DecisionLog(self.run.path, manifest=self.manifest.fingerprint)

    def decide(self, action: str, scope: Scope) -> None:
        self.log.append(Decision(action=action, scope=scope, reason="r", actor="a"))

    def publish(self) -> Revision:
        return publish_revision(self.run.path, self.manifest)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_published_revision_comes_back_with_hashes_and_anchor(desk: Desk) -> None:
    desk.decide("quarantine", Scope.of_documents([7, 3]))

    revision = desk.publish()

    again = load_revision(
        desk.run.path, 1, manifest=desk.manifest.fingerprint, digest=revision.digest
    )
    assert again.documents.tolist() == [3, 7]
    assert again.hashes == content_hash(text_of(3).encode()) + content_hash(text_of(7).encode())
    assert (again.decisions_head, again.decisions_count) == (desk.log.head().digest, 1)


def test_publishing_nothing_new_gives_the_same_revision(desk: Desk) -> None:
    assert desk.publish().number == 0
    desk.decide("quarantine", Scope.of_documents([3]))
    first = desk.publish()
    desk.decide("suspect", Scope.of_documents([4]))

    assert desk.publish().digest == first.digest


def test_a_chain_of_revisions_names_its_parents(desk: Desk) -> None:
    for doc in (1, 2, 3):
        desk.decide("quarantine", Scope.of_documents([doc]))
        desk.publish()

    third = latest_revision(desk.run.path, desk.manifest)

    assert third.number == 3
    second = load_revision(desk.run.path, 2, manifest=desk.manifest.fingerprint)
    assert third.parent == second.digest


def test_shards_and_sources_are_resolved(desk: Desk) -> None:
    desk.decide("quarantine", Scope(kind="shard", value="s1.parquet"))
    desk.decide("release", Scope(kind="source", value="de"))
    desk.decide("quarantine", Scope(kind="source", value="de"))
    desk.decide("release", Scope.of_documents([20]))

    expected = {d for d in range(60) if 20 <= d < 40 or d % 3 == 0} - {20}

    assert set(desk.publish().documents.tolist()) == expected


def test_all_copies_of_a_content_are_found(desk: Desk) -> None:
    digest = content_hashes(desk.manifest, np.array([9], np.int64))[0].hex()

    assert content_scope(desk.manifest, digest).documents == (9,)


def test_an_edited_log_cannot_be_published_from(desk: Desk) -> None:
    desk.decide("quarantine", Scope.of_documents([3]))
    desk.publish()
    desk.log.path.write_text(desk.log.path.read_text().replace('"actor":"a"', '"actor":"b"'))

    with pytest.raises(IntegrityError, match="revision 1 anchors decision 1"):
        desk.decide("quarantine", Scope.of_documents([4]))
    with pytest.raises(IntegrityError, match="revision 1 anchors decision 1"):
        desk.publish()


def test_another_corpus_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.decide("quarantine", Scope.of_documents([3]))
    desk.publish()
    other = make_corpus(tmp_path / "other", documents=30)

    with pytest.raises((MismatchError, IntegrityError)):
        publish_revision(desk.run.path, other)


def test_the_difference_of_two_revisions_names_both_sides(desk: Desk) -> None:
    desk.decide("quarantine", Scope.of_documents([1, 2]))
    first = desk.publish()
    desk.decide("release", Scope.of_documents([1]))
    desk.decide("quarantine", Scope.of_documents([5]))
    span = PositionRange(plan_id=desk.run.plan_id, epoch=0, start=4, end=8)
    desk.decide("skip", Scope(kind="positions", ranges=(span,)))

    changed = diff(first, desk.publish())

    assert (changed.added, changed.released) == ((5,), (1,))
    assert [s["start"] for s in changed.skips_added] == [4]


def test_revisions_of_two_corpora_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="ordinals mean other documents"):
        diff(Revision(number=0, manifest="aa"), Revision(number=0, manifest="bb"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("shared"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(docs=st.sets(st.integers(0, 59), min_size=1, max_size=25), position=st.integers(0, 30))
def test_the_impact_is_what_walking_every_sample_finds(
    shared: Desk, docs: set[int], position: int
) -> None:
    manifest, plan = shared.manifest, shared.run.plan()
    documents = np.array(sorted(docs), np.int64)
    before = Revision(number=0, manifest=manifest.fingerprint)
    after = Revision(
        number=1,
        manifest=manifest.fingerprint,
        documents=documents,
        hashes=bytes(16 * documents.size),
    )
    order = EpochOrder(Layout(plan, manifest.geometry(), manifest.lengths), 0)
    touched, gone = set(), 0
    for at in range(position, order.positions):
        found = set(
            order.window(order.window_of(at)).segments(np.array([at], np.int64)).doc.tolist()
        )
        if found & docs:
            touched.add(at)
            gone += found <= docs

    cursor = Cursor(plan_id=plan.plan_id, position=position)
    result = impact(manifest, plan, before, after, cursor=cursor, batch=4)

    assert (result.samples, result.passed_over) == (len(touched), gone)
    assert result.steps == len({(at - position) // 4 for at in touched})
    assert result.documents == len(docs)
    assert 0.0 <= result.blanked_share <= 1.0
    assert result.tokens == sum(len(text_of(d).encode()) for d in docs)


def test_the_impact_counts_by_source_and_by_any_column(shared: Desk) -> None:
    manifest = shared.manifest
    documents = np.array([0, 1, 2, 3], np.int64)
    after = Revision(number=1, manifest=manifest.fingerprint, documents=documents, hashes=bytes(64))

    result = impact(
        manifest,
        shared.run.plan(),
        Revision(number=0, manifest=manifest.fingerprint),
        after,
        cursor=Cursor(plan_id=shared.run.plan_id),
        group_column="lang",
    )

    with pytest.raises(CorpusError, match="has no column 'nope'"):
        impact(
            manifest,
            shared.run.plan(),
            after,
            after,
            cursor=Cursor(plan_id=shared.run.plan_id),
            group_column="nope",
        )
    assert {s.name: s.documents for s in result.sources} == {"de": 2, "en": 2}
    assert {s.name: s.documents for s in result.groups} == {"de": 2, "en": 2}
    assert result.steps is None
    shares = {s.name: s.share for s in result.sources}
    lengths = [len(text_of(d).encode()) for d in range(60)]
    assert shares["de"] == pytest.approx(
        (lengths[0] + lengths[3]) / sum(lengths[d] for d in range(0, 60, 3))
    )


def test_a_restart_gets_exactly_the_revision_its_cursor_names(desk: Desk) -> None:
    desk.decide("quarantine", Scope.of_documents([3]))
    first = desk.publish()
    desk.decide("quarantine", Scope.of_documents([4]))
    desk.publish()
    cursor = Cursor(plan_id=desk.run.plan_id, revision=1, revision_digest=first.digest)

    with ShardLoader(
        desk.manifest, desk.run.plan(), run=desk.run, batch=4, cursor=cursor
    ) as loader:
        seen = {int(doc) for batch in loader for doc in batch.segments.doc}

    assert 3 not in seen
    assert 4 in seen
