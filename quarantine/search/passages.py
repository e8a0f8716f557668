"""The longest stretches of words that two texts share, with their places in both."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .findings import Span

SEED = 5
MOST_WORDS = 200_000
_TOKEN = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The same words at `left` and `right`, (start, end) in characters of either text."""

    left: Span
    right: Span
    words: int


def shared_passages(left: str, right: str, *, most: int = 3) -> tuple[Passage, ...]:
    """Return up to `most` stretches of five or more equal words, the longest first.

    Case and punctuation do not count. Only the first 200,000 words of either text are compared;
    of a phrase that `left` repeats, its first place is used.
    """
    a, b = _tokens(left), _tokens(right)
    words_a, words_b = [word for word, _ in a], [word for word, _ in b]
    places: dict[tuple[str, ...], int] = {}
    for i in range(len(a) - SEED, -1, -1):
        places[tuple(words_a[i : i + SEED])] = i
    found: list[Passage] = []
    j = 0
    while j + SEED <= len(b):
        place = places.get(tuple(words_b[j : j + SEED]))
        if place is None:
            j += 1
            continue
        size = SEED
        while words_a[place + size : place + size + 1] == words_b[j + size : j + size + 1] != []:
            size += 1
        found.append(
            Passage(
                left=(a[place][1][0], a[place + size - 1][1][1]),
                right=(b[j][1][0], b[j + size - 1][1][1]),
                words=size,
            )
        )
        j += size
    return tuple(sorted(found, key=lambda passage: (-passage.words, passage.left))[:most])


def _tokens(text: str) -> list[tuple[str, Span]]:
    tokens: list[tuple[str, Span]] = []
    for match in _TOKEN.finditer(text):
        if len(tokens) == MOST_WORDS:
            break
        tokens.append((match.group().casefold(), match.span()))
    return tokens
