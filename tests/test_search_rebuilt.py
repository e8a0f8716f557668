"""Corpora that were rebuilt: what is gone is neither junk nor a copy, and old answers end."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from helpers_loader import revision_of
from helpers_search import corpus, prose
from helpers_tokens import token_corpus

from shardward.loader.manifest import Manifest
from shardward.loader.rebuilt import rebuilt_manifest
from shardward.loader.revision import Revision
from shardward.quarantine.respond.rebuild import rebuild
from shardward.quarantine.search.corpus_scan import scan_corpus, scan_documents
from shardward.quarantine.search.similar import search

GONE = (3, 9, 15)


def without(manifest: Manifest, home: Path, revision: Revision) -> Manifest:
    rebuild(manifest, revision, home / "clean")
    return rebuilt_manifest(manifest, home / "clean", home / "kept", gone=revision.documents)


@pytest.mark.parametrize("tokenizer", ["ids:258:256:257", "bytes"])
def test_what_stands_for_a_removed_document_is_neither_junk_nor_a_copy(
    tokenizer: str, tmp_path: Path
) -> None:
    rng = random.Random(8)
    ids = [[rng.randrange(97, 123) for _ in range(120)] for _ in range(20)]
    manifest = token_corpus(tmp_path, ids, tokenizer)
    clean = without(manifest, tmp_path, revision_of(manifest, GONE))

    report = scan_corpus(clean)

    assert report.duplicates is not None
    assert (report.duplicates.count, report.duplicates.empty) == (0, 0)
    assert not [f for f in report.findings if f.detector == "token-period"]
    assert not [f for f in scan_documents(clean, GONE) if f.detector == "token-period"]
    assert search(clean, [3]) == []


def test_done_markers_of_the_parent_are_not_those_of_the_rebuilt_corpus(tmp_path: Path) -> None:
    texts = [prose(random.Random(number), 80) for number in range(20)]
    texts[9] = texts[4]
    manifest, work = corpus(tmp_path / "corpus", texts), tmp_path / "work"
    before = search(manifest, [4], work=work)
    clean = without(manifest, tmp_path, revision_of(manifest, (9,)))

    assert [hit.doc for hit in before] == [9]
    assert clean.fingerprint == manifest.fingerprint
    assert search(clean, [4], work=work) == []
