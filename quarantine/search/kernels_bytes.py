"""Kernels that count the bytes of a document: histograms, runs, pairs of letters, long words."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Int64s, Number, UInt8s, UInt32s, kernel

U64 = np.uint64
LONG_WORD = 40
ENCODED_WORD = 24
LONG_RUN = 16
SAMPLED = 600
"""Places at which a text is sampled where counting all of it would be slow."""
LINK = 256
"""Characters up to which a word with `://` in it counts as a link."""

# Places in the tally that the readers fill; the first 32 count the groups of `scripts.py`.
T_CHARACTERS, T_WORDS, T_LINES, T_INVALID, T_ODD = 32, 33, 34, 35, 36
T_RUN, T_RUN_BYTES, T_LONGEST_WORD, T_LONG_WORDS, T_ENCODED = 37, 38, 39, 40, 41
T_PAIRS, T_RARE_PAIRS, T_MISREAD = 42, 43, 44
TALLIES = 52
"""T_MISREAD and the seven after it count the pairs that look like UTF-8 in each code page."""


@kernel
def count_bytes(
    data: UInt8s,
    start: Number,
    end: Number,
    classes: UInt8s,
    histogram: Int64s,
    transitions: Int64s,
    other: Int64s,
) -> None:
    """Count bytes in histogram int64[256] and class pairs in transitions int64[64].

    Every second pair is counted in other int64[64] first: a counter just written is slow to read.
    """
    histogram[:] = 0
    transitions[:] = 0
    other[:] = 0
    before = U64(4)
    i = start
    while i + U64(2) <= end:
        a, b = data[i], data[i + U64(1)]
        first = U64(classes[a])
        second = U64(classes[b])
        histogram[a] += 1
        transitions[before * U64(8) + first] += 1
        histogram[b] += 1
        other[first * U64(8) + second] += 1
        before = second
        i += U64(2)
    if i < end:
        histogram[data[i]] += 1
        transitions[before * U64(8) + U64(classes[data[i]])] += 1
    for q in range(64):
        transitions[q] += other[q]


@kernel
def count_runs(data: UInt8s, start: Number, end: Number, tally: Int64s) -> None:
    """Count runs of LONG_RUN or more of one byte; every such run holds a whole aligned eight."""
    i = start
    one = U64(1)
    while i + U64(8) <= end:
        c = data[i]
        if c != data[i + U64(7)] or c != data[i + U64(3)] or c != data[i + one]:
            i += U64(8)
            continue
        low = i
        while low > start and data[low - one] == c:
            low -= one
        high = i + one
        while high < end and data[high] == c:
            high += one
        run = np.int64(high - low)
        if run >= LONG_RUN:
            tally[T_RUN] = max(tally[T_RUN], run)
            if c > 32:
                tally[T_RUN_BYTES] += run
        i += (high - i + U64(7)) // U64(8) * U64(8)


@kernel
def count_letter_pairs(
    data: UInt8s, start: Number, end: Number, letters: UInt8s, common: UInt32s, tally: Int64s
) -> None:
    """Count pairs of ASCII letters, and those of them that no language has often.

    `letters` uint8[256] is 0 to 25, 26 for what is no letter; bit `b` of common uint32[27] entry
    `a` says that `b` often follows `a`. A long text is sampled at SAMPLED places or more.
    """
    step = min(U64(15), ((end - start) // U64(SAMPLED)) | U64(1))
    pairs = rare = U64(0)
    i = start + U64(1)
    while i < end:
        a, b = letters[data[i - U64(1)]], letters[data[i]]
        both = U64((a < 26) & (b < 26))
        pairs += both
        rare += both & ~(U64(common[a]) >> U64(b))
        i += step
    tally[T_PAIRS] = np.int64(pairs)
    tally[T_RARE_PAIRS] = np.int64(rare)


@kernel
def lost_letters(data: UInt8s, start: Number, end: Number, letters: UInt8s) -> Number:
    """Return the question marks with a letter or another question mark on either side."""
    lost: Number = 0
    for i in range(start + U64(1), end - U64(1)):
        if data[i] == 63:
            a, b = data[i - U64(1)], data[i + U64(1)]
            before = letters[a] < 26 or a >= 128 or a == 63
            after = letters[b] < 26 or b >= 128 or b == 63
            lost += before and after
    return lost


@kernel
def looks_encoded(data: UInt8s, start: Number, end: Number, classes: UInt8s) -> Number:
    """Return whether a word changes its character class at three places in ten, as base64 does.

    What joins the words of names and paths, as in `snake_case`, is passed over.
    """
    switches = 0
    before = classes[data[start]]
    for i in range(start + U64(1), end):
        c = data[i]
        entry = before if c == 95 else classes[c]
        switches += entry != before
        before = entry
    return 10 * switches >= 3 * np.int64(end - start)


@kernel
def has_link(data: UInt8s, start: Number, end: Number) -> Number:
    """Return whether a word holds `://`."""
    for i in range(start, end - U64(2)):
        if data[i] == 58 and data[i + U64(1)] == 47 and data[i + U64(2)] == 47:
            return True
    return False


@kernel
def count_long_word(
    data: UInt8s, start: Number, end: Number, length: Number, classes: UInt8s, tally: Int64s
) -> None:
    """Count a word of ENCODED_WORD characters or more; a link is long without being odd."""
    if length <= LINK and has_link(data, start, end):
        return
    tally[T_LONGEST_WORD] = max(tally[T_LONGEST_WORD], length)
    if length > LONG_WORD:
        tally[T_LONG_WORDS] += length
    if looks_encoded(data, start, end, classes):
        tally[T_ENCODED] += length
