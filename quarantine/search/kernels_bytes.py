"""Kernels that read the bytes of a document: histograms, scripts, words and lines."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Int64s, Number, UInt8s, kernel
from .kernels import decode

U32 = np.uint32
U64 = np.uint64
PRIME = U64(0x9E3779B97F4A7C15)
LINE_SEED = U64(0x243F6A8885A308D3)
LONG_WORD = 40
ENCODED_WORD = 24
LONG_RUN = 16
LINK = 256
"""Characters up to which a word with `://` in it counts as a link."""

# Places in the tally that the readers fill.
T_CHARACTERS, T_WORDS, T_LINES, T_INVALID, T_REPLACEMENT, T_C1, T_LATIN1 = 0, 1, 2, 3, 4, 5, 6
T_CYRILLIC, T_UNSPACED, T_FOREIGN, T_UNLIKELY, T_MOJIBAKE = 7, 8, 9, 10, 11
T_RUN, T_RUN_BYTES, T_LONGEST_WORD, T_LONG_WORDS, T_ENCODED = 12, 13, 14, 15, 16
TALLIES = 17


@kernel
def unlikely(cp: Number) -> Number:
    """Return whether a character is for private use, or what ASCII read as UTF-16 becomes.

    Swapped bytes give ideographs ending in 00, of which few but U+4E00 are frequent in real text; a
    letter beside a space gives invisible operators and unassigned points.
    """
    ends_in_00 = cp >= U32(0x2E00) and cp < U32(0x8000) and cp & U32(0xFF) == U32(0)
    return (
        (cp >= U32(0xE000) and cp < U32(0xF900))
        or (ends_in_00 and cp != U32(0x3000) and cp != U32(0x4E00))
        or (cp >= U32(0x2061) and cp <= U32(0x2065))
        or (cp >= U32(0x206A) and cp <= U32(0x206F))
        or (cp >= U32(0x2072) and cp <= U32(0x2073))
    )


@kernel
def count_script(cp: Number, previous: Number, tally: Int64s) -> None:
    """Count one character above ASCII by its block, and pairs that look like mojibake."""
    if cp == U32(0xFFFD):
        tally[T_REPLACEMENT] += 1
    elif cp < U32(0xA0):
        tally[T_C1] += 1
    elif cp < U32(0x100):
        tally[T_LATIN1] += 1
    elif cp >= U32(0x400) and cp < U32(0x530):
        tally[T_CYRILLIC] += 1
    elif unlikely(cp):
        tally[T_UNLIKELY] += 1
    elif (
        (cp >= U32(0x2E80) and cp < U32(0xD7B0))
        or (cp >= U32(0xE00) and cp < U32(0xF00))
        or (cp >= U32(0x1000) and cp < U32(0x10A0))
        or (cp >= U32(0x1780) and cp < U32(0x1800))
    ):
        tally[T_UNSPACED] += 1
    elif cp >= U32(0x250):
        tally[T_FOREIGN] += 1
    if previous >= U32(0xC2) and previous < U32(0xF5) and previous != U32(0xD7):
        continuation = cp >= U32(0x80) and cp < U32(0xC0)
        if continuation or (previous == U32(0xE2) and cp == U32(0x20AC)):
            tally[T_MOJIBAKE] += 2


@kernel
def is_space(cp: Number) -> Number:
    """Return whether a character above ASCII is white space."""
    return (
        cp == U32(0x85)
        or cp == U32(0xA0)
        or cp == U32(0x1680)
        or (cp >= U32(0x2000) and cp <= U32(0x200A))
        or cp == U32(0x2028)
        or cp == U32(0x2029)
        or cp == U32(0x202F)
        or cp == U32(0x205F)
        or cp == U32(0x3000)
    )


@kernel
def count_bytes(
    data: UInt8s,
    start: Number,
    end: Number,
    classes: UInt8s,
    histogram: Int64s,
    transitions: Int64s,
) -> None:
    """Count bytes in histogram int64[256] and class pairs in transitions int64[64]."""
    other = np.zeros(64, np.int64)
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
def looks_encoded(data: UInt8s, start: Number, end: Number, classes: UInt8s) -> Number:
    """Return whether a word changes its character class at three places in ten, as base64 does."""
    switches = 0
    before = classes[data[start]]
    for i in range(start + U64(1), end):
        entry = classes[data[i]]
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


@kernel
def finish_document(
    data: UInt8s,
    end: Number,
    word: tuple[Number, Number, Number, Number],
    line: tuple[Number, Number, Number, Number],
    classes: UInt8s,
    reading: Number,
    tally: Int64s,
) -> None:
    """Store the last word and line.

    `word` is (hash, first byte, characters, words before it), `line` is (hash, characters, lines
    before it, newlines before it).
    """
    words, word_lengths, lines, line_lengths, gaps = reading
    h, start, length, n = word
    key, characters, m, newlines = line
    if newlines > 0:
        gaps[m] = np.int32(newlines)
    if h != U64(0):
        if length >= ENCODED_WORD:
            count_long_word(data, start, end, length, classes, tally)
        if n < words.size:
            words[n] = h ^ (h >> U64(32))
            word_lengths[n] = np.int32(length)
            n += 1
        key = (key ^ h) * PRIME
    lines[m] = key ^ (key >> U64(32))
    line_lengths[m] = np.int32(characters)
    tally[T_LINES] = m + 1
    tally[T_WORDS] = n


@kernel
def read_document(
    data: UInt8s,
    start: Number,
    end: Number,
    classes: UInt8s,
    spaces: UInt8s,
    reading: Number,
    tally: Int64s,
) -> None:
    """Hash words and lines, count scripts; words and lines beyond the arrays are only counted.

    `spaces` uint8[128] is 0 for a word byte, 1 for white space, 2 for a newline. `reading` holds
    words, their lengths, lines, their lengths, and the newlines before each line.
    """
    # One loop, nothing called per word: a call would spill its state and count references.
    words, word_lengths, lines, line_lengths, gaps = reading
    one, none = U64(1), U64(0)
    h, line, n, m, newlines = none, LINE_SEED, 0, 0, 0
    word_start = line_start = last = i = start
    extra = word_extra = line_extra = none  # continuation bytes: in all, before the word, the line
    previous = U32(0)
    while i < end:
        at = i
        c = data[i]
        if c < 128:
            kind: Number = spaces[c]
            i += one
            space = U64(c)
        else:
            cp, i = decode(data, i, end)
            space = U64(cp)
            tally[T_INVALID] += (cp == U32(0xFFFD)) & (i == at + one)
            count_script(cp, previous if at == last else U32(0), tally)
            previous, last, extra = cp, i, extra + (i - at - one)
            kind = np.uint8(is_space(cp))
        if kind == 0:
            h = (h ^ space) * PRIME
            continue
        if newlines > 0 and (h != none or kind != 2):
            gaps[m] = np.int32(newlines)
            newlines = 0
        if h != none:
            # The space itself may have continuation bytes, which `extra` holds already.
            length = np.int64(i - one - word_start - (extra - word_extra))
            if length >= ENCODED_WORD:
                count_long_word(data, word_start, at, length, classes, tally)
            if n < words.size:
                words[n] = h ^ (h >> U64(32))
                word_lengths[n] = np.int32(length)
                n += 1
            line, h = (line ^ h) * PRIME, none
        word_start, word_extra = i, extra
        if kind != 2:
            line = (line ^ space) * PRIME
            continue
        if newlines == 0 and m < lines.size - 1:
            lines[m] = line ^ (line >> U64(32))
            line_lengths[m] = np.int32(at - line_start - (extra - line_extra))
            m += 1
        newlines += 1
        line, line_start, line_extra = LINE_SEED, i, extra
    tally[T_CHARACTERS] = np.int64(end - start - extra)
    word = (h, word_start, np.int64(end - word_start - (extra - word_extra)), n)
    rest = np.int64(end - line_start - (extra - line_extra))
    finish_document(data, end, word, (line, rest, m, newlines), classes, reading, tally)
