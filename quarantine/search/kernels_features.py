"""The kernel that fills a document's row of features."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .feature_names import Feature
from .jit import Float32s, Int64s, Number, UInt8s, kernel
from .kernels_bytes import (
    T_C1,
    T_CHARACTERS,
    T_ENCODED,
    T_INVALID,
    T_LATIN1,
    T_LINES,
    T_LONG_WORDS,
    T_LONGEST_WORD,
    T_REPLACEMENT,
    T_RUN,
    T_RUN_BYTES,
    T_WORDS,
    TALLIES,
    count_bytes,
    count_runs,
    read_document,
)
from .kernels_periods import byte_period, table_bytes, word_period
from .kernels_repetition import (
    duplicate_lines,
    duplicate_paragraphs,
    next_epoch,
    ngram_features,
    table_mask,
)

U64 = np.uint64
TABLE_DIGITS = 0.03
"""Share of digits below which a text is no table of numbers."""
LIMITS = (0.3, 0.2, 0.3, 0.2)
"""Gopher's limits on duplicate paragraphs, their characters, duplicate lines, their characters."""

F_PARAGRAPH = int(Feature.PARAGRAPH_DUPLICATES)
F_TOP2 = int(Feature.TOP2)
F_PERIOD = int(Feature.WORD_PERIOD_TIMES)
F_GOPHER = int(Feature.GOPHER)
F_DIGIT = int(Feature.DIGIT)
F_TABLE = int(Feature.TABLE)
F_MARKUP = int(Feature.MARKUP)
F_ENCODED = int(Feature.ENCODED)


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
def make_workspace(capacity: Number) -> Number:
    """Return the arrays that one document after another is measured in.

    They are words, their lengths, lines, their lengths, gaps; then ends, keys, table, slots, state.
    """
    size = 16
    while size < 2 * capacity + 2:
        size *= 2
    reading = (
        np.empty(capacity, np.uint64),
        np.empty(capacity, np.int32),
        np.empty(capacity + 1, np.uint64),
        np.empty(capacity + 1, np.int32),
        np.zeros(capacity + 2, np.int32),
    )
    comparing = (
        np.empty(capacity + 1, np.int64),
        np.empty(capacity, np.uint64),
        np.zeros(size, np.uint64),
        np.empty((2, size), np.int32),
        np.zeros(1, np.int64),
    )
    return reading, comparing


@kernel
def fill_repetition(reading: Number, comparing: Number, tally: Int64s, row: Float32s) -> None:
    """Fill the duplicate, n-gram and word period features, and the Gopher rule."""
    words, word_lengths, lines, line_lengths, gaps = reading
    ends, keys, table, slots, state = comparing
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
    values = (repeats / paragraphs, size / characters, same / number, same_size / characters)
    rule = 0
    for q in range(4):
        row[F_PARAGRAPH + q] = values[q]
        if rule == 0 and values[q] > LIMITS[q]:
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
def fill_patterns(
    data: UInt8s,
    start: Number,
    end: Number,
    classes: UInt8s,
    comparing: Number,
    lines: Number,
    row: Float32s,
) -> None:
    """Fill the byte period features, and that of number tables where there are digits."""
    _, _, table, _, state = comparing
    size = np.float64(end - start)
    if row[F_DIGIT] > TABLE_DIGITS:
        mask = table_mask(table, lines)
        epoch = next_epoch(table, state)
        row[F_TABLE] = table_bytes(data, start, end, classes, table, mask, epoch, lines) / size
    times, run = byte_period(data, start, end)
    row[F_PERIOD + 2] = times
    row[F_PERIOD + 3] = run / size


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
    reading, comparing = make_workspace(capacity)
    histogram = np.empty(256, np.int64)
    moves = np.empty(64, np.int64)
    tally = np.empty(TALLIES, np.int64)
    features[:] = 0
    transitions[:] = 0
    for d in range(offsets.size - 1):
        start, end = U64(offsets[d]), U64(offsets[d + 1])
        if start == end:
            continue
        histogram[:] = 0
        moves[:] = 0
        tally[:] = 0
        count_bytes(data, start, end, classes, histogram, moves)
        count_runs(data, start, end, tally)
        read_document(data, start, end, classes, spaces, reading, tally)
        row = features[d]
        fill_counts(histogram, classes, tally, row)
        fill_repetition(reading, comparing, tally, row)
        fill_patterns(data, start, end, classes, comparing, tally[T_LINES], row)
        for q in range(64):
            transitions[d, q] = moves[q] / np.float64(tally[T_CHARACTERS])
