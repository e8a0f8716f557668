"""The kernel that reads a document's words, lines and scripts, eight ASCII bytes at a time."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: C901, PLR0912, PLR0915, PLR0917

from __future__ import annotations

import numpy as np

from .jit import (
    Int32s,
    Int64s,
    Number,
    UInt8s,
    UInt32s,
    UInt64s,
    kernel,
    load64,
    trailing_zeros,
)
from .kernels import decode
from .kernels_bytes import (
    ENCODED_WORD,
    T_CHARACTERS,
    T_INVALID,
    T_LINES,
    T_MISREAD,
    T_ODD,
    T_WORDS,
    count_long_word,
)

U32 = np.uint32
U64 = np.uint64
PRIME = U64(0x9E3779B97F4A7C15)
LINE_SEED = U64(0x243F6A8885A308D3)
HIGH = U64(0x8080808080808080)
BLANKS = U64(0x2121212121212121)
CASE_WEIGHT = 3
"""A word has one such place where every letter is wrong; units like kHz hold one now and then."""
ALL = U64(0xFFFFFFFFFFFFFFFF)


@kernel
def stops(word: Number) -> Number:
    """Return eight bytes of which the lowest set bit marks the first byte under 33 or above 127.

    Bits above the lowest may be wrong: a borrow reaches up.
    """
    return (word | ((word - BLANKS) & ~word)) & HIGH


@kernel
def load_rest(data: UInt8s, i: Number, end: Number) -> Number:
    """Return the last bytes of a document, fewer than eight, then zeros."""
    word = U64(0)
    shift = U64(0)
    while i < end:
        word |= U64(data[i]) << shift
        shift += U64(8)
        i += U64(1)
    return word


@kernel
def cell_place(cp: Number) -> Number:
    """Return the place of a code point's cell."""
    return U64(cp) if cp < U32(0x10000) else U64(0x10000) + (U64(cp) >> U64(12))


@kernel
def count_character(cell: Number, previous: Number, odd: UInt32s, tally: Int64s) -> None:
    """Count a character above ASCII by its group, and what it makes with the one before it.

    `previous` is the cell of a neighbour above ASCII, or 0.
    """
    group = cell & U32(31)
    tally[group] += 1
    before = previous & U32(31)
    tally[T_ODD] += np.int64((odd[before] >> group) & U32(1))
    tally[T_ODD] += CASE_WEIGHT * np.int64((odd[before | U32(32)] >> group) & U32(1))
    misread = (previous >> U32(8)) & (cell >> U32(16)) & U32(255)
    if misread != U32(0):
        for page in range(8):
            tally[T_MISREAD + page] += np.int64((misread >> U32(page)) & U32(1))


@kernel
def finish_document(
    reading: Number, line: Number, length: Number, newlines: Number, tally: Int64s
) -> None:
    """Store the last line, its length, and the newlines before it."""
    _, _, lines, line_lengths, gaps = reading
    m = tally[T_LINES]
    if newlines > 0:
        gaps[m] = np.int32(newlines)
    lines[m], line_lengths[m] = line ^ (line >> U64(32)), np.int32(length)
    tally[T_LINES] = m + 1


@kernel
def read_document(
    data: UInt8s, start: Number, end: Number, tables: Number, reading: Number, tally: Int64s
) -> None:
    """Hash words and lines, count scripts; words and lines beyond the arrays are only counted.

    `tables` and `reading` are those of `kernels_features.py`. A word is hashed in pieces of up to
    eight ASCII bytes and of one other character, so its hash depends on nothing around it.
    """
    # One loop, no call in it that would spill its state and count references.
    classes, spaces, _, _, cells, odd = tables
    words, word_lengths, lines, line_lengths, gaps = reading
    one, none, previous, n, m, newlines = U64(1), U64(0), U32(0), 0, 0, 0
    h, line, word_start, line_start, i = none, LINE_SEED, start, start, start
    extra = word_extra = line_extra = none  # continuation bytes: in all, before the word, the line
    while True:
        piece = load64(data, i) if i + U64(8) <= end else load_rest(data, i, end)
        stop = stops(piece)
        size = trailing_zeros(stop) >> U64(3) if stop != none else U64(8)
        if size != none:
            h, previous = (h ^ (piece & (ALL >> (U64(64) - U64(8) * size)))) * PRIME + size, U32(0)
            i += size
            if stop == none:
                continue
        at, before, space, kind = i, extra, U64(10), np.uint8(2)
        if at < end:
            c = data[at]
            if c < 128:
                i, kind, space, previous = at + one, spaces[c], U64(c), U32(0)
            else:
                cp, i = decode(data, at, end)
                space, cell = U64(cp), cells[cell_place(cp)]
                tally[T_INVALID] += (cp == U32(0xFFFD)) & (i == at + one)
                count_character(cell, previous, odd, tally)
                previous, extra = cell, extra + (i - at - one)
                kind = np.uint8((cell >> U32(5)) & U32(1))
            if kind == 0:
                h = (h ^ space) * PRIME
                continue
        if newlines > 0 and (at > word_start or (kind != 2 and at < end)):
            gaps[m], newlines = np.int32(newlines), 0
        if at > word_start:
            length = np.int64(at - word_start - (before - word_extra))
            if length >= ENCODED_WORD:
                count_long_word(data, word_start, at, length, classes, tally)
            if n < words.size:
                words[n], word_lengths[n], n = h ^ (h >> U64(32)), np.int32(length), n + 1
            line, h = (line ^ h) * PRIME, none
        if at >= end:
            break
        word_start, word_extra = i, extra
        if kind != 2:
            line = (line ^ space) * PRIME
            continue
        if newlines == 0 and m < lines.size - 1:
            length = np.int64(at - line_start - (extra - line_extra))
            lines[m], line_lengths[m] = line ^ (line >> U64(32)), np.int32(length)
            m += 1
        newlines, line, line_start, line_extra = newlines + 1, LINE_SEED, i, extra
    tally[T_CHARACTERS], tally[T_WORDS], tally[T_LINES] = np.int64(end - start - extra), n, m
    finish_document(reading, line, end - line_start - (extra - line_extra), newlines, tally)


@kernel
def read_characters(
    data: UInt8s,
    start: Number,
    end: Number,
    spaces: UInt8s,
    cells: UInt32s,
    words: UInt64s,
    lengths: Int32s,
) -> Number:
    """Write each character above ASCII, and each run of ASCII, as a word; return how many.

    This is how scripts without spaces are read for loops. White space separates and is left out;
    what goes beyond the arrays is not read.
    """
    n = 0
    i = start
    while i < end and n < words.size:
        h = U64(0)
        before = i
        while i < end and data[i] < 128 and spaces[data[i]] == 0:
            h = (h ^ U64(data[i])) * PRIME
            i += U64(1)
        length = np.int64(i - before)
        if length == 0 and data[i] < 128:
            i += U64(1)
            continue
        if length == 0:
            cp, i = decode(data, i, end)
            if (cells[cell_place(cp)] >> U32(5)) & U32(1):
                continue
            h = (U64(cp) ^ LINE_SEED) * PRIME
            length = np.int64(1)
        words[n] = h ^ (h >> U64(32))
        lengths[n] = np.int32(length)
        n += 1
    return n
