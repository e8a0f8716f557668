"""Kernels that measure tables of numbers: lines of one pattern that are mostly digits."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: C901, PLR0917

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
MOST_FRESH, STALE = 0.3, 0.05
LONG_LINE = 200
"""A shorter line is also one of a table where at most MOST_FRESH of it are letters of new words:
names of characters or glyphs come again and again, and prose never does for long. Where it may be
code, at most STALE of it may be new."""
CAPITALS = 0.5
"""Share of capitals among the letters of a line that begins with a number, or holds a hexadecimal
one, and is one of a table."""
PROSE_LETTERS, PROSE_SMALL, PROSE_FRESH, PROSE_BYTES = 0.7, 0.6, 0.25, 20
"""Least shares of a line of prose: letters, small ones among them, letters of new words."""
PROSE_WEIGHT = 2
"""A byte of prose explains two of numbers: a page about a code page is no table."""
LEAST_COVERED = 0.3
NEITHER, PROSE, TABULAR, BARE = 0, 1, 2, 3
LED_BY_WORD, LED_BY_NUMBER, LED_BY_SIGN = 1, 2, 3
CODE, ALIGNED, ENDED, HEXADECIMAL = 1, 2, 4, 8
GAP = 3
"""Spaces, or one tabulator, that tell columns."""


@kernel
def is_code_sign(c: Number, before: Number) -> Number:
    """Return whether a byte after `before` is one that source code has and tables have not.

    A backslash, a brace, a quote but for one after a letter, a bracket after a small letter or
    another bracket.
    """
    if c == 40:
        return before >= 97 or before == 40
    return c in (92, 123) or (c in (34, 39) and before < 65)


@kernel
def in_number(c: Number, before: Number) -> Number:
    """Return whether a capital may belong to a number before its first digit: A to F, and U.

    A backslash before U, as in source code, makes none.
    """
    return c <= 70 or (c == 85 and before != 92)


@kernel
def is_lone(
    data: UInt8s, start: Number, end: Number, i: Number, classes: UInt8s, word: Number
) -> Number:
    """Return whether one letter and one digit, which ends before `i`, are all of a word.

    `word` is 1 where no digit of it came before.
    """
    longer_before = i >= start + U64(3) and classes[data[i - U64(3)]] == 1
    return word == U64(1) and not (longer_before or (i < end and classes[data[i]] in (1, 2)))


@kernel
def bounded_as_code(
    data: UInt8s, start: Number, end: Number, last: Number, led: Number, apart: Number
) -> Number:
    """Return whether a line begins with `#define` or its like, or ends as one of source code.

    A semicolon ends it, but for one that stands `apart`, or in a line that begins with a number.
    """
    directive = end - start > 2 and data[start] == 35 and data[start + U64(1)] >= 97
    statement = last == 59 and led != LED_BY_NUMBER and not apart
    return directive or statement or last in (40, 44, 92, 123, 125)


@kernel
def judge_line(
    visible: Number,
    letters: Number,
    capitals: Number,
    fresh: Number,
    led: Number,
    marks: Number,
) -> Number:
    """Return TABULAR for a line that may be of a table if numbers are in it, PROSE, or NEITHER.

    BARE is TABULAR without a letter: where no numbers are in it either it is empty or a rule.
    `led` is what it begins with, `marks` are bits of CODE, ALIGNED, ENDED (by a digit, as prose
    hardly ever is) and HEXADECIMAL.
    """
    if letters == 0:
        return BARE
    few_fresh = visible <= LONG_LINE and fresh <= MOST_FRESH * visible
    if led == LED_BY_NUMBER or marks >= HEXADECIMAL:
        few_fresh = few_fresh or capitals >= CAPITALS * letters or marks & ALIGNED > 0
    stale = led != LED_BY_SIGN and visible <= LONG_LINE and fresh <= STALE * visible
    if letters <= MOST_LETTERS * visible or stale or (few_fresh and marks & CODE == 0):
        return TABULAR
    small = letters - capitals >= PROSE_SMALL * letters and letters >= PROSE_LETTERS * visible
    new = visible >= PROSE_BYTES and fresh >= PROSE_FRESH * visible
    return PROSE if small and new and led == LED_BY_WORD and marks < ENDED else NEITHER


@kernel
def read_line(
    data: UInt8s, start: Number, end: Number, classes: UInt8s, known: UInt64s
) -> tuple[Number, Number, Number, Number]:
    """Return the hash of a line's skeleton, whether it has numbers, its kind, the next one's start.

    A run of letters and digits becomes one symbol: a number if it holds a digit, else a word.
    White space is left out, and a symbol that repeats the one before it.
    """
    key, last, word, letters_key, i = U64(1), U64(0), U64(0), U64(0), start
    no: Number = False
    numbers = hexadecimal = sign = apart = no
    symbols, visible, letters, capitals, fresh, run, led, gap, marks = 0, 0, 0, 0, 0, 0, 0, 0, 0
    before: Number = np.uint8(32)
    shown: Number = before
    while i <= end:
        c = data[i] if i < end else np.uint8(10)
        kind, i = classes[c], i + U64(1)
        if kind == 3:
            gap += GAP if c == 9 else 1
        elif c != 10:
            marks |= ALIGNED if gap >= GAP and led > 0 else 0
            apart, gap, shown = gap > 0, 0, c
        if kind < 2 or kind == 7:
            marks |= HEXADECIMAL if word == U64(2) and kind == 1 and c <= 70 else 0
            hexadecimal = (hexadecimal or word == U64(0)) and kind == 1 and in_number(c, before)
            word, letters_key = max(word, U64(1)), (letters_key ^ U64(c)) * ODD
            capitals += kind == 1
            # What begins with E2 or F0 is a sign or a picture, hardly ever a letter.
            sign = (c == 0xE2 or c >= 0xF0) if c >= 0xC0 else sign and c >= 0x80
            run, before = run + (not sign), c
            continue
        if letters_key != U64(0):
            slot = (letters_key >> U64(40)) & U64(KNOWN_WORDS - 1)
            fresh += run if known[slot] != letters_key else 0
            known[slot], letters = letters_key, letters + run
            letters_key, run = U64(0), 0
        if kind == 2:
            # x1 and A4 are names; 1, 0x1F, FE0F and U0041 are numbers.
            hexadecimal = hexadecimal and not is_lone(data, start, end, i, classes, word)
            marks |= HEXADECIMAL if hexadecimal else 0
            number = word == U64(0) or hexadecimal
            numbers, led = numbers or number, LED_BY_NUMBER if led == 0 and number else led
            word, visible, before = U64(2), visible + 1, c
            continue
        if word != U64(0):
            if word != last and symbols < SKELETON:
                key, symbols = (key ^ word) * ODD, symbols + 1
            led, last, word = max(led, LED_BY_WORD), word, U64(0)
        if c == 10:
            break
        if kind != 3:
            led = LED_BY_SIGN if led == 0 and c not in (43, 45, 46) else led
            marks |= CODE if is_code_sign(c, before) else 0
            if U64(c) != last and symbols < SKELETON:
                key, symbols = (key ^ U64(c)) * ODD, symbols + 1
            last, visible = U64(c), visible + 1
        before = c
    marks |= CODE if bounded_as_code(data, start, i, shown, led, apart) else 0
    marks |= ENDED if classes[shown] == 2 else 0
    return key, numbers, judge_line(visible + letters, letters, capitals, fresh, led, marks), i


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
    """Return the bytes of lines of numbers whose skeleton was seen before, less those of prose.

    At most `most` lines are read; a byte of prose counts PROSE_WEIGHT times. Reading stops where
    LEAST_COVERED of the bytes can no longer be reached, and the answer is 0.
    """
    known[:] = U64(0)
    covered: Number = 0
    lines: Number = 0
    whole = np.int64(end - start)
    counted = whole
    i = start
    while i < end and lines < most:
        key, numbers, kind, following = read_line(data, i, end, classes, known)
        seen, _ = insert(table, key, epoch, mask)
        size = np.int64(min(following, end) - i)
        if kind >= TABULAR and numbers:
            covered += size if seen else 0
        elif kind == PROSE:
            covered -= PROSE_WEIGHT * size
        elif kind == BARE:
            counted -= size
        lines += size > 1  # as many as there are between newlines; empty ones are none
        i = following
        if covered + np.int64(end - min(i, end)) < LEAST_COVERED * counted:
            return 0
    return covered * whole // max(counted, 1) if covered >= LEAST_COVERED * counted else 0
