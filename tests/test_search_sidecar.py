"""Index sidecars: the same answers as from the text, refused or remade when anything is off."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from helpers_search import corpus, edited, prose
from jsonschema import Draft202012Validator

from shardward.loader.errors import FormatError, IntegrityError, MismatchError
from shardward.loader.manifest import Manifest
from shardward.quarantine.search.band_scan import (
    PLACES,
    agreeing_rows,
    rows_sharing_a_band,
    value_set,
)
from shardward.quarantine.search.index_job import build_signatures, read_shard
from shardward.quarantine.search.rows import IndexRows, join_rows
from shardward.quarantine.search.sidecar import read_sidecar, sidecar_path, usable_sidecar
from shardward.quarantine.search.similar import search
from shardward.schemas import load_schema

RNG = random.Random(21)
TOXIC = prose(RNG, 300)
TEXTS = [
    *(prose(RNG, 120) for _ in range(90)),
    *(edited(RNG, TOXIC, 0.01 * i) for i in range(1, 8)),
    *(RNG.randbytes(1500).decode("latin-1") for _ in range(8)),
    TOXIC,
    "",
]
QUERY = [90, 91, 97, 98]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return corpus(tmp_path, TEXTS, shards=3, rows=16)


def same(left: IndexRows, right: IndexRows) -> bool:
    names = ("hashes", "counts", "low", "vectors", "flags", "bands")
    return all(np.array_equal(getattr(left, n), getattr(right, n)) for n in names)


def test_a_sidecar_holds_what_the_text_gives(manifest: Manifest) -> None:
    report = build_signatures(manifest)

    assert (report.made, report.kept, report.documents) == (3, 0, len(TEXTS))
    for shard in range(3):
        assert same(read_sidecar(manifest, shard), read_shard(manifest, shard))


def test_the_header_follows_its_schema(manifest: Manifest) -> None:
    build_signatures(manifest)
    header = json.loads(sidecar_path(manifest, 0).with_suffix(".json").read_bytes())

    Draft202012Validator(load_schema("signatures.v1")).validate(header)


def test_a_document_takes_at_most_352_bytes(tmp_path: Path) -> None:
    texts = [f"number {i} of many short documents" for i in range(20_000)]
    report = build_signatures(corpus(tmp_path, texts, shards=1, rows=5000))

    assert report.bytes / len(texts) <= 352


def test_a_search_finds_the_same_with_and_without_sidecars(manifest: Manifest) -> None:
    plain = search(manifest, QUERY)
    build_signatures(manifest, workers=1)

    assert {hit.kind for hit in plain} == {"near", "junk"}
    assert search(manifest, QUERY) == plain


def test_K11_any_number_of_workers_writes_the_same_bytes(tmp_path: Path) -> None:
    manifests = [corpus(tmp_path / name, TEXTS, shards=3, rows=16) for name in ("a", "b")]
    for manifest, workers in zip(manifests, (0, 3), strict=True):
        build_signatures(manifest, workers=workers)
    files = [[sidecar_path(m, s).read_bytes() for s in range(3)] for m in manifests]

    assert files[0] == files[1]


def test_K11_a_good_sidecar_is_kept_and_a_torn_one_remade(manifest: Manifest) -> None:
    build_signatures(manifest)
    torn = sidecar_path(manifest, 1)
    whole = torn.read_bytes()
    torn.write_bytes(whole[:-100])

    assert usable_sidecar(manifest, 1) is None
    with pytest.raises(IntegrityError, match="its header says"):
        read_sidecar(manifest, 1)
    report = build_signatures(manifest)
    assert (report.made, report.kept) == (1, 2)
    assert torn.read_bytes() == whole


def test_data_without_a_header_counts_as_missing(manifest: Manifest) -> None:
    build_signatures(manifest)
    sidecar_path(manifest, 0).with_suffix(".json").unlink()

    with pytest.raises(FormatError, match="is missing"):
        read_sidecar(manifest, 0)
    assert build_signatures(manifest).made == 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"version": 2}, FormatError, "version 2"),
        ({"shard": "0" * 32}, MismatchError, "shard '000"),
        ({"features": 99}, MismatchError, "features 99"),
        ({"scheme": {}}, FormatError, "names no scheme"),
        ({"detectors": {}}, MismatchError, "detectors"),
    ],
)
def test_K8_a_sidecar_made_otherwise_is_refused(
    manifest: Manifest, change: dict[str, object], error: type[Exception], message: str
) -> None:
    build_signatures(manifest)
    path = sidecar_path(manifest, 0).with_suffix(".json")
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))

    with pytest.raises(error, match=message):
        read_sidecar(manifest, 0)


def test_K8_another_seed_or_tokenizer_is_refused_with_both_values(manifest: Manifest) -> None:
    build_signatures(manifest)
    path = sidecar_path(manifest, 0).with_suffix(".json")
    header = json.loads(path.read_bytes())
    path.write_text(json.dumps(header | {"scheme": header["scheme"] | {"seed": 7}}))

    with pytest.raises(MismatchError, match="seed 7, this search uses 1"):
        read_sidecar(manifest, 0)


def test_an_empty_shard_has_an_empty_sidecar(tmp_path: Path) -> None:
    manifest = corpus(tmp_path, ["only one"], shards=2)
    build_signatures(manifest)

    assert [len(read_sidecar(manifest, shard)) for shard in range(len(manifest.shards))] == [1, 0]
    assert len(join_rows([])) == 0


def test_the_band_scan_equals_a_plain_set() -> None:
    rng = np.random.default_rng(3)
    bands = tuple(rng.integers(0, 1 << 32, 50_000, dtype=np.uint32) for _ in range(25))
    for size in (1, 30, 3000):
        wanted = [
            np.concatenate([band[rng.integers(0, 50_000, size)], rng.integers(0, 1 << 32, size)])
            for band in bands
        ]
        sets = tuple(value_set(values.astype(np.uint32)) for values in wanted)
        expected = np.logical_or.reduce(
            [np.isin(band, values) for band, values in zip(bands, wanted, strict=True)]
        )

        assert np.array_equal(rows_sharing_a_band(bands, sets), np.flatnonzero(expected))


def test_agreeing_rows_equal_a_plain_count() -> None:
    rng = np.random.default_rng(4)
    low = rng.integers(0, 4, (300, 128), dtype=np.uint8)
    query = np.concatenate([low[:5], rng.integers(0, 4, (20, 128), dtype=np.uint8)])
    rows = np.flatnonzero(rng.random(300) < 0.7)
    counts = (low[rows][:, None, :] == query[None, :, :]).sum(axis=2)
    found = agreeing_rows(low, rows, query, 40)

    assert found.rows.tolist() == rows[(counts >= 40).any(axis=1)].tolist()
    assert found.cut == 0
    for row, places in zip(found.rows.tolist(), found.places.tolist(), strict=True):
        agree = counts[rows.tolist().index(row)]
        best = sorted((-count, place) for place, count in enumerate(agree) if count >= 40)[:PLACES]
        assert [place for place in places if place >= 0] == [place for _, place in best]


def test_K9_a_hot_band_gives_a_bounded_number_of_candidates_and_says_what_was_cut() -> None:
    low = np.zeros((5000, 128), dtype=np.uint8)
    low[:, :60] = np.arange(5000)[:, None] % 7
    found = agreeing_rows(low, np.arange(5000), np.zeros((200, 128), np.uint8), 40, most=1000)

    assert len(found.rows) == 1000
    assert found.cut == 4000
    assert found.places.shape == (1000, PLACES)
    assert (low[found.rows] == 0).all(axis=1).sum() == 715  # the best are kept


def test_a_search_goes_on_where_it_was_stopped(manifest: Manifest, tmp_path: Path) -> None:
    whole = search(manifest, QUERY, work=tmp_path / "work")
    (markers,) = (tmp_path / "work").iterdir()
    first, second, third = sorted(markers.iterdir())
    first.unlink()
    second.write_bytes(b"{torn")
    scanned: list[int] = []
    again = search(manifest, QUERY, work=tmp_path / "work", workers=2, advance=scanned.append)

    assert again == whole
    assert len(scanned) == 2
    assert third.exists()
    assert search(manifest, [0], work=tmp_path / "work") == []
