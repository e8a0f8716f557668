"""Where the evidence is: character spans of what a detector counted.

Spans are indices into the decoded text, so they never cut a character. Only the first million
characters and the first MATCHES places in them are searched, and only the first spans are kept,
whatever the text holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from .findings import Span

SEARCHED = 1 << 20
KEPT = 8
MATCHES = 4096
"""Places of evidence, words or lines that are looked at: a loop holds no end of them."""
GAP = 16
_CONTROL = re.compile("[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]+")
_RUN = re.compile(r"(\S)\1{15,}")
_LONG = re.compile(r"\S{24,}")
_WORD = re.compile(r"\S+")
_DIGITS = re.compile(r"[0-9][0-9.,:;/+\-\s]{15,}")
_LATIN1 = re.compile("[\u00a0-\u00ff]{4,}")
_UNLIKELY = re.compile(
    "[\ue000-\uf8ff\u2061-\u2065\u206a-\u206f\u2072\u2073"
    + "".join(chr(high << 8) for high in range(0x2E, 0x80) if high not in {0x30, 0x4E})
    + "]+"
)
_LOST = re.compile(r"\w\?(?=\w)|\?{2,}")
_SPELLED = re.compile(r"(?<!\S)[^\W\d_](?:\s{1,4}[^\W\d_](?!\S)){7,}")
_TAG = re.compile(r"<[^<>]{0,200}>")
_MOJIBAKE = re.compile("(?:[\u00c2-\u00f4][\u0080-\u00bf]|\u00e2\u20ac.?)+")


def control_spans(text: str) -> tuple[Span, ...]:
    """Return stretches of control characters, C1 controls and U+FFFD."""
    return _merged(match.span() for match in _CONTROL.finditer(text[:SEARCHED]))


def run_spans(text: str) -> tuple[Span, ...]:
    """Return runs of 16 or more of one visible character."""
    return _merged(match.span() for match in _RUN.finditer(text[:SEARCHED]))


def long_word_spans(text: str) -> tuple[Span, ...]:
    """Return words of 24 or more characters."""
    return _merged(match.span() for match in _LONG.finditer(text[:SEARCHED]))


def digit_spans(text: str) -> tuple[Span, ...]:
    """Return stretches of numbers."""
    return _merged(match.span() for match in _DIGITS.finditer(text[:SEARCHED]))


def mojibake_spans(text: str) -> tuple[Span, ...]:
    """Return pairs that UTF-8 read as Latin-1 or Windows-1252 leaves behind."""
    return _merged(match.span() for match in _MOJIBAKE.finditer(text[:SEARCHED]))


def latin1_spans(text: str) -> tuple[Span, ...]:
    """Return stretches of characters from U+00A0 to U+00FF."""
    return _merged(match.span() for match in _LATIN1.finditer(text[:SEARCHED]))


def unlikely_spans(text: str) -> tuple[Span, ...]:
    """Return characters for private use and those that ASCII read as UTF-16 becomes."""
    return _merged(match.span() for match in _UNLIKELY.finditer(text[:SEARCHED]))


def lost_letter_spans(text: str) -> tuple[Span, ...]:
    """Return question marks within words, and rows of them."""
    return _merged(match.span() for match in _LOST.finditer(text[:SEARCHED]))


def lone_letter_spans(text: str) -> tuple[Span, ...]:
    """Return rows of eight or more single letters."""
    return _merged(match.span() for match in _SPELLED.finditer(text[:SEARCHED]))


def markup_spans(text: str) -> tuple[Span, ...]:
    """Return tags."""
    return _merged(match.span() for match in _TAG.finditer(text[:SEARCHED]))


def repeated_line_spans(text: str) -> tuple[Span, ...]:
    """Return lines that repeat an earlier line."""
    return _merged(_repeated_lines(text[:SEARCHED]))


def repeated_word_spans(text: str) -> tuple[Span, ...]:
    """Return stretches of words that repeat earlier 5-grams, periodic runs included."""
    words = [match.span() for match in islice(_WORD.finditer(text[:SEARCHED]), MATCHES)]
    return _merged(_repeated_grams(text, words))


def whole(text: str) -> tuple[Span, ...]:
    """Return one span over the text, for evidence that lies everywhere."""
    return ((0, len(text)),) if text else ()


def _repeated_lines(text: str) -> Iterator[Span]:
    seen: set[str] = set()
    start = 0
    for line in islice(text.split("\n"), MATCHES):
        end = start + len(line)
        if line.strip():
            if line in seen:
                yield start, end
            seen.add(line)
        start = end + 1


def _repeated_grams(text: str, words: list[Span]) -> Iterator[Span]:
    seen: set[str] = set()
    for i in range(len(words) - 4):
        gram = text[words[i][0] : words[i + 4][1]]
        if gram in seen:
            yield words[i][0], words[i + 4][1]
        seen.add(gram)


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join spans closer than GAP and keep the first KEPT."""
    kept: list[Span] = []
    for start, end in islice(spans, MATCHES):
        if kept and start - kept[-1][1] <= GAP:
            kept[-1] = (kept[-1][0], max(end, kept[-1][1]))
        elif len(kept) == KEPT:
            break
        else:
            kept.append((start, end))
    return tuple(kept)
