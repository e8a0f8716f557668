"""Corpus-wide search: every relative, verified, with the document it is like."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path

import pytest
from helpers_search import corpus, edited, prose

from shardward.loader.errors import NotFound, UsageError
from shardward.loader.manifest import Manifest
from shardward.quarantine.search import similar
from shardward.quarantine.search.band_scan import agreeing_rows
from shardward.quarantine.search.hits import Hit
from shardward.quarantine.search.shingles import jaccard
from shardward.quarantine.search.similar import search

RNG = random.Random(5)
TOXIC = prose(RNG, 400)
LOOP = "round and round it goes "


def junk(rng: random.Random) -> str:
    return rng.randbytes(rng.randrange(1000, 8000)).decode("latin-1")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rng = random.Random(9)
    clean = [prose(rng, rng.randrange(50, 400)) for _ in range(300)]
    copies = [edited(rng, TOXIC, 0.02 + 0.06 * i / 19) for i in range(20)]
    loops = [prose(rng, 10) + LOOP * rng.randrange(100, 400) for _ in range(20)]
    binary = [junk(rng) for _ in range(20)]
    return [*clean, *copies, *binary, *loops, TOXIC, TOXIC, "", "", "hi", "hi"]


@pytest.fixture(scope="module")
def manifest(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return corpus(tmp_path_factory.mktemp("similar"), texts, shards=3, rows=40)


def docs(hits: list[Hit], kind: str) -> set[int]:
    return {hit.doc for hit in hits if hit.kind == kind}


def test_near_copies_are_found_and_verified_on_the_text(
    manifest: Manifest, texts: list[str]
) -> None:
    hits = search(manifest, [300, 301, 302], kinds=("near",))

    assert docs(hits, "near") == {*range(303, 320), 360, 361}
    for hit in hits:
        best = max(jaccard(texts[hit.doc], texts[q]) for q in (300, 301, 302))
        assert hit.score == pytest.approx(best)
        assert hit.score == pytest.approx(jaccard(texts[hit.doc], texts[hit.query_doc]))
        assert f"document {hit.query_doc}" in hit.reason


def test_K9_only_pairs_at_the_threshold_are_reported_and_none_is_chained(
    manifest: Manifest, texts: list[str]
) -> None:
    hits = search(manifest, [360], threshold=0.8, kinds=("near",))
    wanted = {d for d in range(len(texts)) if d != 360 and jaccard(texts[d], TOXIC) >= 0.8}

    assert docs(hits, "near") == wanted


def test_exact_copies_are_found_once_and_empty_documents_never(manifest: Manifest) -> None:
    hits = search(manifest, [360, 362, 364], kinds=("near", "exact"), threshold=0.9)

    assert docs(hits, "exact") == {361, 365}
    assert not {362, 363} & {hit.doc for hit in hits}


def test_junk_is_found_by_the_culprits_family(manifest: Manifest) -> None:
    hits = search(manifest, [320, 321, 322, 340, 341], kinds=("junk",))

    assert docs(hits, "junk") == {*range(323, 340), *range(342, 360)}


def test_junk_reasons_give_percents_that_are_never_nothing(tmp_path: Path) -> None:
    trace = prose(random.Random(7), 600)
    trace = trace[:1500] + "\x00\x01\x02\x03\x04\x05\x06" + trace[1500:]
    noise = random.Random(8).randbytes(2000).decode("latin-1")
    manifest = corpus(tmp_path, [noise, trace, *(prose(random.Random(n), 99) for n in range(9))])
    (hit,) = search(manifest, [0], kinds=["junk"])

    assert hit.doc == 1
    assert re.fullmatch(r"binary: 0\.1\d% of it, \d\d% of document 0", hit.reason)
    assert [similar._percent(n) for n in (1e-9, 0.0015, 0.0213, 0.8, 1.4)] == [
        "under 0.01%", "0.15%", "2.13%", "80%", "100%",
    ]  # fmt: skip


def test_clean_culprits_make_no_junk_query(manifest: Manifest) -> None:
    assert search(manifest, [0, 1], kinds=("junk",)) == []


def test_K11_one_worker_and_two_find_the_same(manifest: Manifest) -> None:
    query = [300, 320, 340, 360]

    assert search(manifest, query, workers=2) == search(manifest, query)


def test_many_query_documents_go_through_the_bands_to_the_same_close_copies(
    manifest: Manifest,
) -> None:
    alone = search(manifest, [300], kinds=("near",), threshold=0.75)
    hits = search(manifest, [*range(200), 300], kinds=("near",), threshold=0.75)

    assert docs(hits, "near") == docs(alone, "near") >= {360, 361}


def test_candidates_that_are_cut_are_told_or_warned_of(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = partial(agreeing_rows, most=2)
    monkeypatch.setattr(similar, "agreeing_rows", few)
    told: list[str] = []

    hits = search(manifest, [300], kinds=("near",), tell=told.append)

    assert len(hits) <= 6
    assert [line.split(" beyond")[0] for line in told] == [
        f"{manifest.shards[2].uri}: 19 candidates for near copies"
    ]
    with pytest.warns(RuntimeWarning, match="19 candidates .* were not verified") as seen:
        search(manifest, [300], kinds=("near",))
    assert seen[0].filename == __file__


def test_progress_counts_every_document(manifest: Manifest, texts: list[str]) -> None:
    seen: list[int] = []
    search(manifest, [0], advance=seen.append)

    assert sum(seen) == len(texts)


@pytest.mark.parametrize(
    ("query", "options"),
    [([], {}), ([0], {"threshold": 0.0}), ([0], {"kinds": ("close",)})],
)
def test_a_search_that_means_nothing_is_refused(
    manifest: Manifest, query: list[int], options: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="a search needs documents"):
        search(manifest, query, **options)  # type: ignore[arg-type]


def test_a_query_outside_the_corpus_is_refused(manifest: Manifest) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        search(manifest, [10_000])
