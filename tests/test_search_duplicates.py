"""Exact copies over a whole corpus."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
import xxhash
from helpers_search import corpus, prose

from shardward.loader.manifest import Manifest
from shardward.quarantine.search import duplicates
from shardward.quarantine.search.corpus_scan import scan_corpus
from shardward.quarantine.search.duplicates import CopyFinder

RNG = random.Random(31)
KINDS = [prose(RNG, 30) for _ in range(12)]
TEXTS = [RNG.choice(KINDS[:9]) if i % 3 else prose(RNG, 12) for i in range(300)] + ["", ""]
RNG.shuffle(TEXTS)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return corpus(tmp_path_factory.mktemp("copies"), TEXTS, shards=5, rows=16)


def test_a_scan_groups_what_a_plain_dictionary_groups(manifest: Manifest) -> None:
    places = defaultdict(list)
    for doc, text in enumerate(TEXTS):
        places[text].append(doc)
    groups = {text: docs for text, docs in places.items() if text and len(docs) > 1}
    found = scan_corpus(manifest).duplicates

    assert found is not None
    assert (found.count, found.empty) == (len(groups), 2)
    assert found.copies == sum(len(docs) - 1 for docs in groups.values())
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0]))
    for group, (text, docs) in zip(found.groups, ranked, strict=True):
        shards = defaultdict(list)
        for doc in docs:
            shards[manifest.locate(doc).shard_uri].append(doc)
        assert group.hash == xxhash.xxh3_128_digest(text.encode()).hex()
        assert (group.documents, group.shards) == (len(docs), len(shards))
        assert [(p.shard, p.documents, p.doc) for p in group.places] == [
            (shard, len(inside), inside[0]) for shard, inside in shards.items()
        ]


def test_many_files_and_the_disk_group_the_same(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = scan_corpus(manifest).duplicates
    monkeypatch.setattr(duplicates, "RECORDS_AT_ONCE", 10)
    monkeypatch.setattr(duplicates, "IN_MEMORY", 64)

    assert scan_corpus(manifest).duplicates == plain
    assert scan_corpus(manifest, workers=2).duplicates == plain


def test_the_largest_groups_are_kept_and_all_are_counted(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = scan_corpus(manifest).duplicates
    assert plain is not None
    monkeypatch.setattr(duplicates, "MOST_GROUPS", 3)
    monkeypatch.setattr(duplicates, "MOST_PLACES", 2)
    monkeypatch.setattr(duplicates, "RECORDS_AT_ONCE", 10)
    found = scan_corpus(manifest).duplicates

    assert found is not None
    assert (found.count, found.copies) == (plain.count, plain.copies)
    assert [group.hash for group in found.groups] == [group.hash for group in plain.groups[:3]]
    assert all(len(group.places) <= 2 for group in found.groups)
    assert [group.shards for group in found.groups] == [g.shards for g in plain.groups[:3]]


def test_nothing_is_left_behind(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "IN_MEMORY", 0)
    with CopyFinder(manifest) as finder:
        parts = list(finder._parts)
    assert parts
    assert all(part.closed for part in parts)
