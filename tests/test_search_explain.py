"""What a hit rests on: shared passages, expected recall, kept features, guilt by rule."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers_search import SCRIPTS, chunk, corpus, edited, prose
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.loader.errors import IncidentError
from shardward.quarantine.search import incident_window as windows
from shardward.quarantine.search.feature_names import Feature
from shardward.quarantine.search.features import measure
from shardward.quarantine.search.guilt import KINDS_OF_JUNK, as_guilty, culprits, strengths
from shardward.quarantine.search.hits import Hit, recall_at, recall_bins
from shardward.quarantine.search.incident_window import (
    culprits as incident_culprits,
)
from shardward.quarantine.search.incident_window import document_losses, incident_window
from shardward.quarantine.search.likeness import MEDOIDS, learn
from shardward.quarantine.search.near import least_matches
from shardward.quarantine.search.passages import shared_passages
from shardward.quarantine.search.rows import DECIDING, index_chunk
from shardward.quarantine.search.signature import sign
from shardward.quarantine.search.vectors import KEPT, WIDTH, quantise, restore

RNG = random.Random(31)


def test_the_longest_shared_passages_come_first_with_their_places() -> None:
    common, short = prose(RNG, 40), prose(RNG, 8)
    left = f"{prose(RNG, 20)} {common} {prose(RNG, 9)} {short}"
    right = f"{short.upper()} — {prose(RNG, 30)} {common}"
    first, second = shared_passages(left, right)

    assert (first.words, second.words) == (40, 8)
    assert left[slice(*first.left)].strip(".") == common.strip(".")
    assert right[slice(*second.right)].lower().strip(".") == short.strip(".")


def test_texts_without_a_common_phrase_share_no_passage() -> None:
    assert shared_passages("one two three four", "one two three four") == ()
    assert shared_passages("", "x " * 50) == ()


def test_passages_are_found_in_unspaced_scripts() -> None:
    (passage,) = shared_passages("天地玄黄宇宙洪荒日月", "问天地玄黄宇宙洪荒星")

    assert passage.words == 8


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_passages_lie_within_both_texts(a: str, b: str, c: str) -> None:
    for passage in shared_passages(a + b, b + c):
        assert 0 <= passage.left[0] < passage.left[1] <= len(a + b)
        assert 0 <= passage.right[0] < passage.right[1] <= len(b + c)


@pytest.mark.parametrize("share", [0.01, 0.04, 0.1])
def test_the_expected_recall_is_what_a_simulation_finds(share: float) -> None:
    rng = random.Random(int(share * 1000))
    base = prose(rng, 300)
    copies = [edited(rng, base, share) for _ in range(200)]
    signed = sign(chunk(base, *copies))
    low, bands = signed.low, signed.bands()
    jaccard = float(np.mean((signed.values[0] == signed.values[1:]).mean(axis=1)))
    least = least_matches(jaccard)
    agree = (low[1:] == low[0]).sum(axis=1) >= least
    shared = (bands[1:] == bands[0]).any(axis=1)

    assert abs((agree & shared).mean() - recall_at(jaccard, least=least, banded=True)) < 0.15
    assert recall_at(0.8, least=least_matches(0.8), banded=True) > 0.995
    assert recall_at(1.0, least=128, banded=True) == 1.0


def test_recall_bins_count_near_hits_only() -> None:
    hits = [
        Hit(doc=i, query_doc=0, kind=kind, score=score, reason="r")
        for i, (kind, score) in enumerate(
            [("near", 0.811), ("near", 0.819), ("near", 1.0), ("exact", 1.0)]
        )
    ]
    low, top = recall_bins(hits, least=60, banded=False)

    assert (low.hits, top.hits) == (2, 1)
    assert [low.low, low.high, top.high] == pytest.approx([0.8, 0.82, 1.0])
    assert low.expected >= low.hits


def test_kept_features_come_back_within_a_step() -> None:
    texts = [*SCRIPTS, "ab " * 400, RNG.randbytes(900).decode("latin-1"), prose(RNG, 200), ""]
    features = measure(chunk(*texts))
    vectors = quantise(features)
    back = restore(vectors)

    assert vectors.shape == (len(texts), WIDTH)
    for feature in KEPT:
        if feature in (Feature.MOJIBAKE, Feature.RUN, Feature.LONGEST_WORD):
            continue
        scale = {Feature.ENTROPY: 8.0}.get(feature, 1.0)
        if feature in (Feature.WORD_PERIOD_TIMES, Feature.BYTE_PERIOD_TIMES):
            scale = 1 + features.column(feature).max() * 10
        value = features.column(feature)
        kept = np.minimum(value, 1.0) if feature == Feature.TOP2 else value
        assert np.abs(back.column(feature) - kept).max() < 0.009 * scale


def test_guilt_needs_the_same_rule_broken_as_strongly() -> None:
    loops = ["round and round " * 300, PARTLY, PARTLY + " " + prose(RNG, 400)]
    texts = [*loops, RNG.randbytes(900).decode("latin-1"), prose(RNG, 300)]
    rows = index_chunk(chunk(*texts))
    values = strengths(rows.vectors, rows.flags)
    known = culprits(values[:1], np.array([70]))

    assert {culprit.doc for culprit in known} == {70}
    assert {culprit.family for culprit in known} == {"repetition"}
    near = np.zeros(len(texts), np.float32)
    assert (as_guilty(values, known, near, 0.0) >= 0).tolist() == [True, *[False] * 4]
    binary = culprits(values[3:4], np.array([3]))
    assert [culprit.name for culprit in binary] == ["binary"]


def test_a_table_unlike_the_culprits_in_all_else_is_no_relative_but_binary_data_is() -> None:
    numbers = "\n".join(
        f"{RNG.random():.4f},{RNG.random():.4f},{RNG.random():.4f}" for _ in range(90)
    )
    codes = "\n".join(f"0x{i:02X} LATIN LETTER NUMBER {i} # {i:04d} 77 {i}{i}" for i in range(90))
    rows = index_chunk(chunk(numbers, numbers[:900], codes, RNG.randbytes(900).decode("latin-1")))
    values = strengths(rows.vectors, rows.flags)
    background = index_chunk(chunk(*(prose(RNG, 150) for _ in range(50)))).vectors
    likeness = learn(rows.vectors[[0]], (0,), background, np.ones(50, bool))
    distances = likeness.nearest(rows.vectors)

    tables = culprits(values[:1], np.array([0]))
    found = as_guilty(values, tables, distances, likeness.apart)
    assert (values[2] > 0).any()
    assert (found >= 0).tolist() == [True, True, False, False]
    binary = culprits(values[3:], np.array([3]))
    assert as_guilty(values[3:], binary, np.array([9.0], np.float32), 0.0).tolist() == [0]


def test_a_table_whose_lines_repeat_is_still_a_table() -> None:
    lines = [f"{i:04X} ; Lu # LETTER SIGN" for i in range(60)]
    texts = ["\n".join(lines), "\n".join(lines[:30] * 4), "\n".join([*lines, prose(RNG, 9)])]
    rows = index_chunk(chunk(*texts))
    values = strengths(rows.vectors, rows.flags)
    known = culprits(values[:1], np.array([0]))
    tables = [place for place, kind in enumerate(KINDS_OF_JUNK) if kind.name == "number-table"]

    assert (values[1] > 0).sum() > 1
    assert (values[:, tables] > 0).all()
    assert known[0].needed < 0.7
    assert (as_guilty(values, known, np.zeros(3, np.float32), 0.0) == 0).all()
    assert known[0].within(0.0) < known[0].within(0.4) < known[0].within(1.0) == known[0].within(2)


def test_only_kinds_that_mark_a_culprit_are_looked_for() -> None:
    text = prose(RNG, 300).replace(" ", "ö ").encode().decode("cp1252") + "\ufffd" * 40
    values = strengths(*(getattr(index_chunk(chunk(text)), n) for n in ("vectors", "flags")))
    broken = {KINDS_OF_JUNK[place].name for place in np.flatnonzero(values[0])}

    assert {culprit.name for culprit in culprits(values, np.array([0]))} < broken


PARTLY = prose(RNG, 60) + " " + "round and round " * 12


def test_at_most_ten_medoids_stand_for_many_culprits() -> None:
    junk = index_chunk(chunk(*(RNG.randbytes(800 + i).decode("latin-1") for i in range(30))))
    clean = index_chunk(chunk(*(prose(RNG, 150) for _ in range(50))))
    likeness = learn(junk.vectors, tuple(range(30)), clean.vectors, np.ones(50, bool))

    assert len(likeness.docs) == MEDOIDS
    assert (likeness.distances(clean.vectors).min(axis=1) > likeness.threshold).all()
    assert (likeness.distances(junk.vectors).min(axis=1) <= likeness.threshold).mean() > 0.9


def test_every_deciding_rule_has_its_own_bit() -> None:
    assert len({rule.name for rule in DECIDING}) == len(DECIDING) <= 31


def incident(attached: dict[str, Any] | None) -> Any:
    window = {"first": 4, "last": 5, "documents": {"doc": [0, 1]}, "control_documents": [2]}
    return SimpleNamespace(
        id="INC-0001",
        require=lambda act: act,
        evidence=lambda event, name: window,
        attached=lambda name: attached,
    )


def test_an_incident_gives_its_window_and_its_attached_suspects() -> None:
    window = incident_window(incident(None))
    suspects = {"suspects": [{"doc": 9, "score": 0.7}, {"doc": 3, "score": 0.2}]}

    assert (window.first, window.last, window.docs, window.controls) == (4, 5, (0, 1), (2,))
    assert incident_culprits(incident(suspects), SimpleNamespace()) == (9,)  # type: ignore[arg-type]
    with pytest.raises(IncidentError, match="nothing to search for"):
        incident_culprits(incident({"suspects": []}), SimpleNamespace())  # type: ignore[arg-type]


def test_the_culprits_of_an_incident_are_those_whose_verdict_is_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = {"suspects": [{"doc": n, "score": 0.6, "verdict": n == 3} for n in (2, 3)]}
    rng = random.Random(9)
    manifest = corpus(
        tmp_path, [rng.randbytes(900).decode("latin-1"), "ня " * 9, prose(rng, 90)], shards=1
    )
    assert incident_culprits(incident(stored), manifest) == (3,)

    # Document 2 fed a control window too, so it is a control alone.
    window = {"first": 4, "last": 5, "documents": {"doc": [0, 1, 2]}, "control_documents": [2]}
    fresh = incident(None)
    fresh.evidence = lambda event, name: window
    assert incident_window(fresh).alone == (0, 1)
    assert incident_culprits(fresh, manifest) == (0,)
    suspects = [SimpleNamespace(doc=n, score=0.6, verdict=n == 1) for n in (0, 1)]
    monkeypatch.setattr(windows, "triage", lambda *_: suspects)
    assert incident_culprits(fresh, manifest) == (1,)


def test_a_document_has_the_highest_loss_of_its_samples() -> None:
    segments = pa.table(
        {
            "rank": [0, 0, 0, 1],
            "sample_position": [40, 40, 17, 5],
            "doc": [1, 2, 2, 3],
        }
    )
    losses = pa.table({"rank": [0, 0], "sample": [0, 1], "loss": [2.0, 7.0]})
    ledger = SimpleNamespace(
        step_documents=lambda step: segments,
        sample_losses=lambda step: losses if step == 4 else losses.slice(0, 0),
    )

    assert document_losses(ledger, 4, 5) == {1: 2.0, 2: 7.0}
