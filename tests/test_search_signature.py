"""Signatures: the published definition, datasketch's own verdict, and the hard texts."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from datasketch import MinHash
from helpers_search import SCRIPTS, chunk, edited, prose
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.loader.errors import CorpusError, MismatchError
from shardward.quarantine.search.characters import character_table
from shardward.quarantine.search.columns import chunk_of, text_chunks
from shardward.quarantine.search.near import pairs_within
from shardward.quarantine.search.shingles import (
    jaccard,
    shingle_hash,
    shingle_hash64,
    shingles,
    tokens,
)
from shardward.quarantine.search.signature import (
    Scheme,
    candidate_probability,
    current_scheme,
    normal_slices,
    shingle_set,
    sign,
)
from shardward.quarantine.search.signature import jaccard as set_jaccard

GOLDEN = (
    [1571706446, 359791586, 631215935, 817864434],
    [421625191, 1089640044, 798729934, 181517613],
    [90882857, 548751067],
)


def datasketch_signature(text: str) -> np.ndarray:
    sketch = MinHash(num_perm=128, seed=1, hashfunc=shingle_hash)
    if found := shingles(text):
        sketch.update_batch(found)
    return np.asarray(sketch.hashvalues)


def estimate(left: str, right: str) -> float:
    values = sign(chunk(left, right)).values
    return float((values[0] == values[1]).mean())


@pytest.mark.parametrize("text", SCRIPTS)
def test_datasketch_gives_the_same_signature_in_every_script(text: str) -> None:
    signed = sign(chunk(text))

    assert (signed.values[0] == datasketch_signature(text)).all()
    assert signed.counts[0] == len(shingles(text))


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_datasketch_gives_the_same_signature_for_any_text(text: str) -> None:
    assert (sign(chunk(text)).values[0] == datasketch_signature(text)).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*SCRIPTS, " ", "\u200b", "e\u0301", "\u0e01", "x"]), max_size=12))
def test_the_kernel_collects_exactly_the_published_hashes(parts: list[str]) -> None:
    text = "".join(parts)

    assert shingle_set(text.encode()).tolist() == sorted(
        {shingle_hash64(s) for s in shingles(text)}
    )


def test_a_text_longer_than_a_block_is_signed_as_one() -> None:
    text = prose(random.Random(1), 9000)

    assert (sign(chunk(text)).values[0] == datasketch_signature(text)).all()


def test_K1_equal_short_texts_match_and_different_ones_never_do() -> None:
    texts = ["hello", "hello world", "hello World!", "goodbye world", "one two three four"]
    signed = sign(chunk(*texts)).values

    assert (signed[1] == signed[2]).all()
    assert all((signed[i] == signed[j]).mean() < 0.1 for i, j in [(0, 1), (1, 3), (3, 4)])
    assert [(p.left, p.right) for p in pairs_within(chunk(*texts), 0.25)] == [(1, 2)]


def test_K2_empty_texts_are_similar_to_nothing() -> None:
    texts = ["", "", " \n\t", "...", "words that are words"]
    signed = sign(chunk(*texts))

    assert signed.counts.tolist() == [0, 0, 0, 0, 1]
    assert pairs_within(chunk(*texts), 0.01) == []
    assert jaccard("", "") == 0.0


def test_K3_each_character_of_an_unspaced_script_is_a_token() -> None:
    first = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏"
    copy = first.replace("洪", "红")

    assert tokens("天地abc玄") == ["天", "地", "abc", "玄"]
    assert jaccard(first, copy) > 0.5
    assert estimate(first, "学而时习之不亦说乎有朋自远方来不亦乐乎人不知而不愠") < 0.1


def test_K4_normal_forms_and_zero_width_characters_change_nothing() -> None:
    text = "Tiếng Việt được viết bằng chữ Quốc ngữ với dấu thanh điệu"
    decomposed = unicodedata.normalize("NFD", text)
    hidden = "\u200b".join(text)

    assert decomposed != text
    assert estimate(text, decomposed) == estimate(text, hidden) == 1.0


def test_K5_bytes_that_are_not_utf8_are_signed_and_nothing_crashes() -> None:
    raw = [
        b"\xff\xfe good words here",
        b"\xed\xa0\x80 lone",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"\x80",
    ]
    signed = sign(chunk_of(raw))

    assert signed.counts.tolist() == [1, 1, 0, 0, 0]


def test_K7_golden_signatures_pin_the_wraparound() -> None:
    signed = sign(chunk("The quick brown fox jumps over the lazy dog", "天地玄黄宇宙洪荒"))

    assert signed.values[0, :4].tolist() == GOLDEN[0]
    assert signed.values[1, :4].tolist() == GOLDEN[1]
    assert signed.bands()[:, 0].tolist() == GOLDEN[2]


def test_K7_a_million_shingles_are_estimated_within_a_point() -> None:
    base = [f"w{i}" for i in range(1_000_000)]
    cut = " ".join(base[:900_000])
    exact = (900_000 - 4) / (1_000_000 - 4)
    values = sign(chunk(" ".join(base), cut), count=4096).values

    assert abs((values[0] == values[1]).mean() - exact) < 0.01


def test_K8_signatures_of_another_scheme_are_refused() -> None:
    with pytest.raises(MismatchError, match=r"tokenizer 9.*uses 1"):
        current_scheme().require(
            Scheme(tokenizer=9, characters=character_table().checksum), where="part-000"
        )


def test_K13_unrelated_prose_of_one_language_does_not_match() -> None:
    rng = random.Random(3)

    assert jaccard(prose(rng, 3000), prose(rng, 3000)) < 0.001


@pytest.mark.parametrize("share", [0.01, 0.03, 0.08])
def test_the_estimate_follows_the_exact_index(share: float) -> None:
    rng = random.Random(7)
    text = prose(rng, 800)
    other = edited(rng, text, share)
    exact = jaccard(text, other)

    assert set_jaccard(shingle_set(text.encode()), shingle_set(other.encode())) == exact
    assert abs(estimate(text, other) - exact) < 0.14


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_K6_every_kind_of_text_column_gives_the_same_signatures(kind: pa.DataType) -> None:
    array = pa.array([*SCRIPTS, None, ""], pa.string()).cast(kind)[1:]
    expected = sign(chunk(*SCRIPTS[1:], "", "")).values
    found = np.concatenate([sign(part).values for part in text_chunks(pa.chunked_array([array]))])

    assert (found == expected).all()


def test_a_column_without_text_is_refused() -> None:
    with pytest.raises(CorpusError, match="this one holds int64"):
        list(text_chunks(pa.array([1, 2])))


def test_long_texts_are_normalised_slice_by_slice_to_the_same_bytes() -> None:
    text = (unicodedata.normalize("NFD", "Việt nữa ") + "\u200bữ" * 3) * 60_000

    assert (
        b"".join(normal_slices(text.encode()))
        == unicodedata.normalize("NFC", text.replace("\u200b", "")).encode()
    )


def test_the_candidate_probability_is_the_banding_formula() -> None:
    assert candidate_probability(0.8) == pytest.approx(1 - (1 - 0.8**5) ** 25)
    assert candidate_probability(1.0) == 1.0
