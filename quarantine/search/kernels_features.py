"""The kernel that reads each byte of a document once and fills its row of features."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .feature_names import Feature
from .jit import Float32s, Int32s, Int64s, Number, UInt8s, UInt64s, kernel
from .kernels import decode
from .kernels_repetition import (
    byte_period,
    duplicate_lines,
    duplicate_paragraphs,
    next_epoch,
    ngram_features,
    table_bytes,
    table_mask,
    word_period,
)

U32 = np.uint32
U64 = np.uint64
PRIME = U64(0x9E3779B97F4A7C15)
LINE_SEED = U64(0x243F6A8885A308D3)
LONG_WORD = 40
ENCODED_WORD = 24
TABLE_DIGITS = 0.03
"""Share of digits below which a text is no table of numbers."""
LONG_RUN = 16

# Places in the tally that the readers fill.
T_CHARACTERS, T_WORDS, T_LINES, T_INVALID, T_REPLACEMENT, T_C1, T_LATIN1 = 0, 1, 2, 3, 4, 5, 6
T_CYRILLIC, T_UNSPACED, T_FOREIGN, T_PRIVATE, T_MOJIBAKE = 7, 8, 9, 10, 11
T_RUN, T_RUN_BYTES, T_LONGEST_WORD, T_LONG_WORDS, T_ENCODED = 12, 13, 14, 15, 16
TALLIES = 17

F_BYTES = int(Feature.BYTES)
F_CONTROL = int(Feature.CONTROL)
F_PARAGRAPH = int(Feature.PARAGRAPH_DUPLICATES)
F_TOP2 = int(Feature.TOP2)
F_PERIOD = int(Feature.WORD_PERIOD_TIMES)
F_GOPHER = int(Feature.GOPHER)
F_DIGIT = int(Feature.DIGIT)
F_TABLE = int(Feature.TABLE)
F_MARKUP = int(Feature.MARKUP)
F_ENCODED = int(Feature.ENCODED)


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
    elif (
        (cp >= U32(0x2E80) and cp < U32(0xD7B0))
        or (cp >= U32(0xE00) and cp < U32(0xF00))
        or (cp >= U32(0x1000) and cp < U32(0x10A0))
        or (cp >= U32(0x1780) and cp < U32(0x1800))
    ):
        tally[T_UNSPACED] += 1
    elif cp >= U32(0xE000) and cp < U32(0xF900):
        tally[T_PRIVATE] += 1
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
def end_word(
    data: UInt8s,
    start: Number,
    end: Number,
    length: Number,
    classes: UInt8s,
    tally: Int64s,
) -> None:
    """Count a word that is long."""
    tally[T_LONGEST_WORD] = max(tally[T_LONGEST_WORD], length)
    if length > LONG_WORD:
        tally[T_LONG_WORDS] += length
    if length >= ENCODED_WORD and looks_encoded(data, start, end, classes):
        tally[T_ENCODED] += length


@kernel
def read_document(  # noqa: C901, PLR0912, PLR0915 (one loop whose state lives in registers)
    data: UInt8s,
    start: Number,
    end: Number,
    classes: UInt8s,
    spaces: UInt8s,
    words: UInt64s,
    word_lengths: Int32s,
    lines: UInt64s,
    line_lengths: Int32s,
    gaps: Int32s,
    tally: Int64s,
) -> None:
    """Hash words and lines, count scripts; words and lines beyond the arrays are only counted.

    `spaces` uint8[128] is 0 for a word byte, 1 for white space, 2 for a newline.
    """
    one = U64(1)
    zero = U64(0)
    h = zero
    line = LINE_SEED
    newlines, n, m = 0, 0, 0
    last_line = lines.size - 1
    extra, word_extra, line_extra = zero, zero, zero  # continuation bytes: in all, up to here
    word_start = line_start = i = start
    previous = U32(0)
    last = start
    while i < end:
        c = data[i]
        if c < 128:
            kind: Number = spaces[c]
            i += one
            if kind == 0:
                h = (h ^ U64(c)) * PRIME
                continue
            space = U64(c)
            width = one
        else:
            at = i
            cp, i = decode(data, i, end)
            width = i - at
            tally[T_INVALID] += (cp == U32(0xFFFD)) & (width == one)
            count_script(cp, previous if at == last else U32(0), tally)
            previous = cp
            last = i
            extra += width - one
            if not is_space(cp):
                h = (h ^ U64(cp)) * PRIME
                continue
            kind = np.uint8(1)
            space = U64(cp)
        before = i - width
        if h != zero:
            if newlines > 0:
                gaps[m] = np.int32(newlines)
                newlines = 0
            length = np.int64(before - word_start - (extra - word_extra))
            if length >= ENCODED_WORD:
                end_word(data, word_start, before, length, classes, tally)
            if n < words.size:
                words[n] = h ^ (h >> U64(32))
                word_lengths[n] = np.int32(length)
                n += 1
            line = (line ^ h) * PRIME
            h = zero
        word_start = i
        word_extra = extra
        if kind == 2:
            if newlines == 0 and m < last_line:
                lines[m] = line ^ (line >> U64(32))
                line_lengths[m] = np.int32(before - line_start - (extra - line_extra))
                m += 1
            line = LINE_SEED
            newlines += 1
            line_start = i
            line_extra = extra
        else:
            if newlines > 0:
                gaps[m] = np.int32(newlines)
                newlines = 0
            line = (line ^ space) * PRIME
    if h != zero:
        length = np.int64(i - word_start - (extra - word_extra))
        if length >= ENCODED_WORD:
            end_word(data, word_start, i, length, classes, tally)
        if n < words.size:
            words[n] = h ^ (h >> U64(32))
            word_lengths[n] = np.int32(length)
            n += 1
        line = (line ^ h) * PRIME
    if newlines > 0:
        gaps[m] = np.int32(newlines)
    lines[m] = line ^ (line >> U64(32))
    line_lengths[m] = np.int32(i - line_start - (extra - line_extra))
    tally[T_CHARACTERS] = np.int64(end - start - extra)
    tally[T_WORDS] = n
    tally[T_LINES] = m + 1


@kernel
def fill_counts(
    histogram: Int64s,
    classes: UInt8s,
    tally: Int64s,
    row: Float32s,
) -> None:
    """Fill the features that come from the histogram and the tallies."""
    by_class = np.zeros(8, np.int64)
    size = 0
    for c in range(256):
        by_class[classes[c]] += histogram[c]
        size += histogram[c]
    entropy = 0.0
    for c in range(256):
        if histogram[c] > 0:
            share = histogram[c] / size
            entropy -= share * np.log2(share)
    characters = tally[T_CHARACTERS]
    row[0] = size
    row[1] = characters
    row[2] = tally[T_WORDS]
    row[3] = tally[T_LINES]
    row[4] = by_class[6] / characters
    row[5] = histogram[0] / characters
    row[6] = tally[T_REPLACEMENT] / characters
    row[7] = tally[T_C1] / characters
    row[8] = tally[T_INVALID] / characters
    row[9] = entropy
    row[10] = tally[T_RUN]
    row[11] = tally[T_RUN_BYTES] / size
    row[12] = tally[T_LONGEST_WORD]
    row[13] = tally[T_LONG_WORDS] / characters
    row[14] = by_class[2] / characters
    row[15] = by_class[5] / characters
    row[16] = by_class[1] / characters
    row[17] = by_class[0] / characters
    row[18] = (by_class[3] + by_class[4]) / characters
    for place in range(6):
        row[19 + place] = tally[T_LATIN1 + place] / characters
    row[F_ENCODED] = tally[T_ENCODED] / characters
    row[F_MARKUP] = 2 * min(histogram[60], histogram[62]) / characters


@kernel
def fill_repetition(
    words: UInt64s,
    word_lengths: Int32s,
    lines: UInt64s,
    line_lengths: Int32s,
    gaps: Int32s,
    ends: Int64s,
    keys: UInt64s,
    table: UInt64s,
    slots: Int32s,
    state: Int64s,
    tally: Int64s,
    row: Float32s,
) -> None:
    """Fill the duplicate, n-gram and word period features, and the Gopher rule."""
    count = tally[T_WORDS]
    characters = tally[T_CHARACTERS]
    number = tally[T_LINES]
    mask = table_mask(table, number)
    paragraphs, repeats, size = duplicate_paragraphs(
        lines, line_lengths, gaps, number, table, mask, next_epoch(table, state)
    )
    same, same_size = duplicate_lines(
        lines, line_lengths, number, table, mask, next_epoch(table, state)
    )
    limits = (0.3, 0.2, 0.3, 0.2)
    values = (
        repeats / paragraphs,
        size / characters,
        same / number,
        same_size / characters,
    )
    rule = 0
    for q in range(4):
        row[F_PARAGRAPH + q] = values[q]
        if rule == 0 and values[q] > limits[q]:
            rule = q + 1
    ends[0] = 0
    for i in range(count):
        ends[i + 1] = ends[i] + word_lengths[i]
    broken = ngram_features(words, count, ends, characters, keys, table, slots, state, row[F_TOP2:])
    row[F_GOPHER] = rule if rule > 0 else broken
    times, run = word_period(words, count)
    row[F_PERIOD] = times
    row[F_PERIOD + 1] = run / count if count > 0 else 0.0


@kernel
def measure_documents(
    data: UInt8s,
    offsets: Int64s,
    classes: UInt8s,
    spaces: UInt8s,
    capacity: Number,
    features: Float32s,
    transitions: Float32s,
) -> None:
    """Fill `features` float32[N, F] and `transitions` float32[N, 64] of each document.

    Words and lines beyond `capacity` are counted by characters but not compared.
    """
    words = np.empty(capacity, np.uint64)
    word_lengths = np.empty(capacity, np.int32)
    lines = np.empty(capacity + 1, np.uint64)
    line_lengths = np.empty(capacity + 1, np.int32)
    gaps = np.zeros(capacity + 1, np.int32)
    ends = np.empty(capacity + 1, np.int64)
    keys = np.empty(capacity, np.uint64)
    size = 16
    while size < 2 * capacity + 2:
        size *= 2
    table = np.zeros(size, np.uint64)
    slots = np.empty((2, size), np.int32)
    state = np.zeros(1, np.int64)
    histogram = np.empty(256, np.int64)
    moves = np.empty(64, np.int64)
    tally = np.empty(TALLIES, np.int64)
    for d in range(offsets.size - 1):
        start, end = U64(offsets[d]), U64(offsets[d + 1])
        features[d, :] = 0
        transitions[d, :] = 0
        if start == end:
            continue
        histogram[:] = 0
        moves[:] = 0
        tally[:] = 0
        count_bytes(data, start, end, classes, histogram, moves)
        count_runs(data, start, end, tally)
        read_document(
            data,
            start,
            end,
            classes,
            spaces,
            words,
            word_lengths,
            lines,
            line_lengths,
            gaps,
            tally,
        )
        row = features[d]
        fill_counts(histogram, classes, tally, row)
        fill_repetition(
            words,
            word_lengths,
            lines,
            line_lengths,
            gaps,
            ends,
            keys,
            table,
            slots,
            state,
            tally,
            row,
        )
        if row[F_DIGIT] > TABLE_DIGITS:
            number = tally[T_LINES]
            mask = table_mask(table, number)
            found = table_bytes(
                data, start, end, classes, table, mask, next_epoch(table, state), number
            )
            row[F_TABLE] = found / row[F_BYTES]
        times, run = byte_period(data, start, end)
        row[F_PERIOD + 2] = times
        row[F_PERIOD + 3] = run / row[F_BYTES]
        for q in range(64):
            transitions[d, q] = moves[q] / np.float64(tally[T_CHARACTERS])
