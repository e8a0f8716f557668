"""Repetition features against plain counts: bounds that spare the kernels work change no value."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from shardward.quarantine.search.columns import chunk_of
from shardward.quarantine.search.feature_names import Feature
from shardward.quarantine.search.features import measure

MOST_PERIOD = 64
SEEDS = range(40)
IDEOGRAPHS = "中国人大小天地日月水火木金土"


def periods(words: Sequence[str]) -> tuple[int, int]:
    """Return the most repeats, at least 3, of a unit of up to 64 words, and the longest run."""
    times = longest = 0
    for period in range(1, MOST_PERIOD + 1):
        matched = 0
        for i in range(period, len(words) + 1):
            if i < len(words) and words[i] == words[i - period]:
                matched += 1
                continue
            if matched >= 2 * period:
                times = max(times, matched // period + 1)
                longest = max(longest, matched + period)
            matched = 0
    return times, longest


def repeated_characters(words: Sequence[str], n: int) -> int:
    """Return the characters of the words in an n-gram seen before."""
    seen: set[tuple[str, ...]] = set()
    inside: set[int] = set()
    for i in range(len(words) - n + 1):
        gram = tuple(words[i : i + n])
        if gram in seen:
            inside.update(range(i, i + n))
        seen.add(gram)
    return sum(len(words[i]) for i in inside)


def draw(seed: int, alphabet: Sequence[str], most: int) -> list[str]:
    """Return words of which some stretches repeat, once or in a row, and some nearly do."""
    rng = random.Random(seed)
    words: list[str] = []
    for _ in range(rng.randint(1, 6)):
        unit = rng.choices(alphabet, k=rng.randint(1, most))
        for _ in range(rng.choice((1, 1, 2, 3, 4, 9))):
            words += unit
            if rng.random() < 0.1:
                words[-1] = rng.choice(alphabet)
    return words


@pytest.mark.parametrize("seed", SEEDS)
def test_words_repeat_as_a_plain_count_says(seed: int) -> None:
    vocabulary = [f"w{number}" for number in range(random.Random(seed).choice((2, 5, 40, 4000)))]
    words = draw(seed, vocabulary, 80)
    features = measure(chunk_of([" ".join(words).encode()]))
    times, longest = periods(words)
    size = len(" ".join(words))
    assert features.column(Feature.WORD_PERIOD_TIMES)[0] == times
    assert features.column(Feature.WORD_PERIOD_SHARE)[0] == pytest.approx(longest / len(words))
    repeated = repeated_characters(words, 5) / size
    assert features.column(Feature.REPEATED5)[0] == pytest.approx(repeated)


@pytest.mark.parametrize("seed", SEEDS)
def test_characters_without_spaces_repeat_as_a_plain_count_says(seed: int) -> None:
    alphabet = IDEOGRAPHS[: random.Random(seed).choice((2, 4, 14))]
    characters = draw(seed, alphabet, 70)
    features = measure(chunk_of(["".join(characters).encode()]))
    times, longest = periods(characters)
    assert features.column(Feature.WORD_PERIOD_TIMES)[0] == times
    share = longest / len(characters)
    assert features.column(Feature.WORD_PERIOD_SHARE)[0] == pytest.approx(share)
    repeated = repeated_characters(characters, 20) / len(characters)
    assert features.column(Feature.REPEATED5)[0] == pytest.approx(repeated)
