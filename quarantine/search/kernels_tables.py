"""Kernels that measure tables of numbers: lines of one pattern that are mostly digits."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Number, UInt8s, UInt64s, kernel
from .kernels_repetition import ODD, insert

U64 = np.uint64
SKELETON = 16
"""Symbols of a line's skeleton that count."""
KNOWN_WORDS = 1024
"""Words of a document that are remembered; a later word takes an earlier one's place."""
MOST_LETTERS = 0.4
"""Share of a line's visible bytes that may be letters where it is a line of numbers."""
MOST_FRESH = 0.3
LONG_LINE = 100
"""A shorter line is also one of a table where at most MOST_FRESH of it are letters of new words:
names of characters or glyphs come again and again, and prose never does for long."""


@kernel
def read_line(
    data: UInt8s, start: Number, end: Number, classes: UInt8s, known: UInt64s
) -> tuple[Number, Number, Number]:
    """Return the hash of a line's skeleton, whether it may be of a table, the next line's start.

    A run of letters and digits becomes one symbol: a number if it holds a digit, else a word.
    White space is left out, and a symbol that repeats the one before it.
    """
    key, last, word, letters_key = U64(1), U64(0), U64(0), U64(0)
    numbers: Number = False
    hexadecimal: Number = False
    symbols, visible, letters, fresh, run = 0, 0, 0, 0, 0
    i = start
    while i <= end:
        c = data[i] if i < end else np.uint8(10)
        kind = classes[c]
        i += U64(1)
        if kind < 2 or kind == 7:
            hexadecimal = (hexadecimal or word == U64(0)) and kind == 1 and c <= 70
            word = max(word, U64(1))
            letters_key = (letters_key ^ U64(c)) * ODD
            run += 1
            continue
        if run > 0:
            slot = (letters_key >> U64(40)) & U64(KNOWN_WORDS - 1)
            fresh += run if known[slot] != letters_key else 0
            known[slot] = letters_key
            letters += run
            letters_key, run = U64(0), 0
        if kind == 2:
            # x1 is a name; 1, 0x1F and FE0F are numbers.
            numbers = numbers or word == U64(0) or hexadecimal
            word = U64(2)
            visible += 1
            continue
        if word != U64(0) and word != last and symbols < SKELETON:
            key = (key ^ word) * ODD
            symbols += 1
        last = word if word != U64(0) else last
        word = U64(0)
        if c == 10:
            break
        if kind == 3:
            continue
        visible += 1
        if U64(c) != last and symbols < SKELETON:
            key = (key ^ U64(c)) * ODD
            symbols += 1
        last = U64(c)
    visible += letters
    tabular = letters <= MOST_LETTERS * visible or (
        visible <= LONG_LINE and fresh <= MOST_FRESH * visible
    )
    return key, numbers and tabular, i


@kernel
def table_bytes(
    data: UInt8s,
    start: Number,
    end: Number,
    classes: UInt8s,
    known: UInt64s,
    table: UInt64s,
    mask: Number,
    epoch: Number,
    most: Number,
) -> Number:
    """Return the bytes of the lines of numbers whose skeleton was seen before.

    At most `most` lines are read.
    """
    known[:] = U64(0)
    covered: Number = 0
    lines: Number = 0
    i = start
    while i < end and lines < most:
        key, tabular, following = read_line(data, i, end, classes, known)
        seen, _ = insert(table, key, epoch, mask)
        if seen and tabular:
            covered += np.int64(min(following, end) - i)
        lines += 1
        i = following
    return covered
