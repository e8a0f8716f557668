"""Names and places of the per-document features; the order is part of the index format."""

from __future__ import annotations

from enum import IntEnum, auto

FEATURES_VERSION = 6


class Feature(IntEnum):
    """One column of the feature matrix. Shares are of characters unless said."""

    BYTES = 0
    CHARACTERS = auto()
    WORDS = auto()
    """Separated by white space."""
    LINES = auto()
    """Pieces between runs of newlines."""
    CONTROL = auto()
    """C0 controls and DEL, other than white space, backspace and escape."""
    NUL = auto()
    REPLACEMENT = auto()
    """U+FFFD as written in the text, or for bytes that are not UTF-8."""
    C1 = auto()
    INVALID = auto()
    """Bytes that are not UTF-8, as a share of characters."""
    ENTROPY = auto()
    """Bits per byte."""
    RUN = auto()
    """Longest run of one byte of 16 or more, in bytes."""
    RUN_SHARE = auto()
    """Bytes in runs of 16 or more of one byte above the space, as a share of bytes."""
    LONGEST_WORD = auto()
    """In characters; links, and words under 24, are not told apart and give 0."""
    LONG_WORD_SHARE = auto()
    """Characters in words of more than 40 characters, links left out."""
    DIGIT = auto()
    PUNCTUATION = auto()
    UPPER = auto()
    LOWER = auto()
    SPACE = auto()
    LATIN1 = auto()
    """U+00A0 to U+00FF."""
    CYRILLIC = auto()
    UNSPACED = auto()
    """Scripts without spaces: U+0E00 to 0EFF, 1000 to 109F, 1780 to 17FF, 2E80 to D7AF."""
    FOREIGN = auto()
    """Other characters from U+0250 on."""
    UNLIKELY = auto()
    """For private use, what ASCII read as UTF-16 becomes, rare ideographs, and neighbours that no
    language has: see `scripts.py`; a rare ideograph counts for two fifths."""
    MOJIBAKE = auto()
    """Characters in pairs that UTF-8 read as Latin-1 leaves behind, or as another code page where
    a sixth of the characters above ASCII are in such pairs."""
    PARAGRAPH_DUPLICATES = auto()
    """Share of paragraphs."""
    PARAGRAPH_DUPLICATE_CHARACTERS = auto()
    LINE_DUPLICATES = auto()
    """Share of lines."""
    LINE_DUPLICATE_CHARACTERS = auto()
    TOP2 = auto()
    """Characters of the most frequent word 2-gram; TOP3 and TOP4 are 0 where they cannot matter."""
    TOP3 = auto()
    TOP4 = auto()
    REPEATED5 = auto()
    """Characters of all words that lie in some word 5-gram seen before; in scripts without spaces
    of all characters in some 20-gram of them seen before."""
    DUPLICATE5 = auto()
    """Gopher's count of characters in repeated 5-grams; 5 to 10 are 0 if below a tenth."""
    DUPLICATE6 = auto()
    DUPLICATE7 = auto()
    DUPLICATE8 = auto()
    DUPLICATE9 = auto()
    DUPLICATE10 = auto()
    WORD_PERIOD_TIMES = auto()
    """Most repeats of a unit of 1 to 64 words, or characters of scripts without spaces."""
    WORD_PERIOD_SHARE = auto()
    """Share of words in the longest such run."""
    BYTE_PERIOD_TIMES = auto()
    BYTE_PERIOD_SHARE = auto()
    """Share of bytes in the longest run of a unit of 1 to 13 bytes."""
    ENCODED = auto()
    """Characters in words of 24 or more that change character class like base64 and hex do."""
    TABLE = auto()
    """Bytes of lines of numbers whose skeleton repeats, less twice those of prose, as a share of
    the bytes of all lines but empty ones and rules; 0 where it is under three tenths."""
    MARKUP = auto()
    """Angle brackets that can be paired."""
    GOPHER = auto()
    """0, or the first Gopher repetition rule broken: see `GOPHER_RULES`."""
    QUESTION = auto()
    """Question marks within words and in rows; 0 where under 0.5 % of the characters are such."""
    STUTTER = auto()
    """Share of words that equal the word before, or the one before that."""
    RARE_PAIRS = auto()
    """Pairs of ASCII letters that no language has often, as a share of all such pairs."""
    INVISIBLE = auto()
    """Combining marks of Latin, and zero-width and bidi characters."""


GOPHER_RULES = (
    "",
    "duplicate paragraphs",
    "characters in duplicate paragraphs",
    "duplicate lines",
    "characters in duplicate lines",
    "top 2-gram",
    "top 3-gram",
    "top 4-gram",
    "duplicate 5-grams",
    "duplicate 6-grams",
    "duplicate 7-grams",
    "duplicate 8-grams",
    "duplicate 9-grams",
    "duplicate 10-grams",
)
CLASSES = 8
"""Byte classes of the transition matrix: lower, upper, digit, space, newline, punctuation,
control, above ASCII."""
