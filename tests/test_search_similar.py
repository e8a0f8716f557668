"""Corpus-wide search: every relative, verified, with the document it is like."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from helpers_search import corpus, die, edited, prose, slow_double

from shardward.loader.errors import CorpusError, NotFound, UsageError
from shardward.loader.manifest import Manifest
from shardward.quarantine.search import engine, similar
from shardward.quarantine.search.band_scan import agreeing_rows
from shardward.quarantine.search.engine import executor
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


def test_the_pool_gives_what_the_loop_gives() -> None:
    results = sorted(executor(2).map_unordered(slow_double, range(20), 3))

    assert results == list(executor(0).map_unordered(slow_double, range(20), 3))


def test_a_worker_that_dies_as_it_starts_is_an_error_like_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def torn(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(ProcessPoolExecutor, "submit", torn)
    with pytest.raises(CorpusError, match=r"worker died.*flight: 7"):
        list(executor(1).map_unordered(die, [7], 0))


def test_a_worker_that_dies_names_what_was_in_flight() -> None:
    with pytest.raises(CorpusError, match=r"worker died.*flight: 7"):
        list(executor(1).map_unordered(die, [7], 0))


def test_the_shards_that_a_dead_worker_had_are_named() -> None:
    with pytest.raises(CorpusError, match=r"flight: shard 7, shard 8;"):
        list(executor(1, "shard {}".format).map_unordered(die, [7, 8], 0))


@pytest.mark.parametrize("breaks", [False, True])
def test_an_interrupt_waits_until_a_worker_has_started(*, breaks: bool) -> None:
    steps = []

    def start() -> None:
        with engine._undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("started")
            if breaks:
                raise BrokenPipeError

    with pytest.raises(KeyboardInterrupt):
        start()
    assert steps == ["started"]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_ends_the_pool_at_once_and_quietly(tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from helpers_search import sleep_long\n"
        "from shardward.quarantine.search.engine import executor\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        "        for done in executor(2).map_unordered(sleep_long, range(9), 60):\n"
        "            print('started', flush=True)\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in errors


def test_a_pool_needs_workers() -> None:
    with pytest.raises(UsageError, match="at least 1 worker"):
        executor(-1)
