"""The kernel that fills a document's row of features."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .feature_names import Feature
from .jit import Float32s, Int64s, Number, UInt8s, UInt32s, kernel, making_kernel
from .kernels_bytes import (
    T_CHARACTERS,
    T_ENCODED,
    T_INVALID,
    T_LINES,
    T_LONG_WORDS,
    T_LONGEST_WORD,
    T_MISREAD,
    T_ODD,
    T_PAIRS,
    T_RARE_PAIRS,
    T_RUN,
    T_RUN_BYTES,
    T_WORDS,
    TALLIES,
    count_bytes,
    count_letter_pairs,
    count_runs,
    lost_letters,
)
from .kernels_periods import MAX_WORD_PERIOD, byte_period, stutters, word_period
from .kernels_repetition import (
    count_in_buckets,
    covered_characters,
    duplicate_lines,
    duplicate_paragraphs,
    next_epoch,
    ngram_features,
    pick_frequent,
    roll_keys,
    table_mask,
)
from .kernels_tables import KNOWN_WORDS, table_bytes
from .kernels_words import read_characters, read_document
from .scripts import Group

U64 = np.uint64
UNSPACED = 0.2
"""Share of characters of scripts without spaces from which a text is read by characters."""
UNSPACED_GRAM = 20
SHORT_PERIOD = 9
"""Longest unit of which three times hold no repeated UNSPACED_GRAM."""
RARE_WEIGHT = 0.4
"""Of a rare ideograph beside a character that no text has: old verse holds some."""
LEAST_MISREAD = 0.15
LOST = 0.005
"""Share of question marks below which none is taken for a lost character."""
TABLE_DIGITS, TABLE_SMALL, TABLE_REPEATED = 0.015, 0.55, 0.3
"""A text of fewer digits is no table of numbers, nor is one of more small letters of which less is
in repeated words."""
LIMITS = (0.3, 0.2, 0.3, 0.2)
"""Gopher's limits on duplicate paragraphs, their characters, duplicate lines, their characters."""

F_PARAGRAPH = int(Feature.PARAGRAPH_DUPLICATES)
F_TOP2 = int(Feature.TOP2)
F_PERIOD = int(Feature.WORD_PERIOD_TIMES)
F_GOPHER = int(Feature.GOPHER)
F_DIGIT = int(Feature.DIGIT)
F_LOWER = int(Feature.LOWER)
F_TABLE = int(Feature.TABLE)
F_MARKUP = int(Feature.MARKUP)
F_ENCODED = int(Feature.ENCODED)
F_QUESTION = int(Feature.QUESTION)
F_REPEATED5 = int(Feature.REPEATED5)
_LATIN1 = (
    Group.LATIN1_LOWER,
    Group.LATIN1_UPPER,
    Group.LATIN1_SIGN,
    Group.LATIN1_PUNCTUATION,
)
_CYRILLIC = (Group.CYRILLIC_LOWER, Group.CYRILLIC_UPPER)
_BY_CHARACTERS = (Group.UNSPACED, Group.KANA, Group.IDEOGRAPH, Group.RARE_IDEOGRAPH)
_UNSPACED = (*_BY_CHARACTERS, Group.HANGUL, Group.EAST_PUNCTUATION)
_NEITHER = (
    *_LATIN1,
    *_CYRILLIC,
    *_UNSPACED,
    Group.LATIN_EXTENDED,
    Group.PRIVATE,
    Group.REPLACEMENT,
    Group.C1,
)
_FOREIGN = tuple(group for group in Group if group not in _NEITHER)
# Kernels know numbers, not members of an enumeration.
LATIN1, CYRILLIC, BY_CHARACTERS, UNSPACED_GROUPS, FOREIGN = (
    np.array(groups, dtype=np.int64)
    for groups in (_LATIN1, _CYRILLIC, _BY_CHARACTERS, _UNSPACED, _FOREIGN)
)
G_RARE, G_PRIVATE = int(Group.RARE_IDEOGRAPH), int(Group.PRIVATE)
G_REPLACEMENT, G_C1 = int(Group.REPLACEMENT), int(Group.C1)
G_MARK, G_HIDDEN = int(Group.MARK), int(Group.HIDDEN)


@kernel
def total(tally: Int64s, groups: Int64s) -> Number:
    """Return how many characters are of some groups."""
    count: Number = 0
    for place in groups:
        count += tally[place]
    return count


@kernel
def misread_characters(tally: Int64s) -> Number:
    """Return the characters in pairs that UTF-8 read in a wrong code page leaves behind.

    Letters of many languages are such pairs now and then, in each page but Latin-1, so there they
    must be LEAST_MISREAD of what is above ASCII.
    """
    above = 0
    for group in range(32):
        above += tally[group]
    most = 2 * tally[T_MISREAD]
    for page in range(1, 8):
        pairs = 2 * tally[T_MISREAD + page]
        if pairs >= max(LEAST_MISREAD * above, 8):
            most = max(most, pairs)
    return most


@kernel
def bytes_of(moves: Int64s, kind: Number) -> Number:
    """Return how many bytes are of a class: each is the second of one pair of classes."""
    count: Number = 0
    for q in range(8):
        count += moves[8 * q + kind]
    return count


@kernel
def fill_counts(
    size: Number, histogram: Int64s, moves: Int64s, tally: Int64s, row: Float32s
) -> None:
    """Fill the features that come from the histogram, the transitions and the tallies.

    `size` is in bytes.
    """
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
    row[4] = bytes_of(moves, 6) / characters
    row[5] = histogram[0] / characters
    row[6] = tally[G_REPLACEMENT] / characters
    row[7] = tally[G_C1] / characters
    row[8] = tally[T_INVALID] / characters
    row[9] = entropy
    row[10] = tally[T_RUN]
    row[11] = tally[T_RUN_BYTES] / size
    row[12] = tally[T_LONGEST_WORD]
    row[13] = tally[T_LONG_WORDS] / characters
    row[14] = bytes_of(moves, 2) / characters
    row[15] = bytes_of(moves, 5) / characters
    row[16] = bytes_of(moves, 1) / characters
    row[17] = bytes_of(moves, 0) / characters
    row[18] = (bytes_of(moves, 3) + bytes_of(moves, 4)) / characters
    row[19] = total(tally, LATIN1) / characters
    row[20] = total(tally, CYRILLIC) / characters
    row[21] = total(tally, UNSPACED_GROUPS) / characters
    row[22] = total(tally, FOREIGN) / characters
    row[23] = (tally[G_PRIVATE] + RARE_WEIGHT * tally[G_RARE] + tally[T_ODD]) / characters
    row[24] = misread_characters(tally) / characters
    row[F_QUESTION + 2] = tally[T_RARE_PAIRS] / max(tally[T_PAIRS], 1)
    row[F_QUESTION + 3] = (tally[G_MARK] + tally[G_HIDDEN]) / characters
    row[F_ENCODED] = tally[T_ENCODED] / characters
    row[F_MARKUP] = 2 * min(histogram[60], histogram[62]) / characters


@making_kernel
def make_workspace(capacity: Number) -> Number:
    """Return the arrays that one document after another is measured in.

    They are words, their lengths, lines, their lengths, gaps; then ends, keys, table, slots,
    state, known words, buckets, how often n-grams were seen, places of picked and of repeated ones.
    """
    size = 16
    while size < 2 * capacity + 2:
        size *= 2
    slots = np.empty(size, np.uint64)
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
        slots,
        np.zeros(1, np.int64),
        np.empty(KNOWN_WORDS, np.uint64),
        slots.view(np.uint32),  # buckets and slots are never in use at once
        np.empty(capacity + 1, np.uint32),
        np.empty(capacity + 1, np.uint32),
        np.empty(capacity + 1, np.uint32),
    )
    return reading, comparing


@kernel
def fill_repetition(reading: Number, comparing: Number, tally: Int64s, row: Float32s) -> None:
    """Fill the duplicate, n-gram and word period features, and the Gopher rule."""
    words, word_lengths, lines, line_lengths, gaps = reading
    ends, _, table, _, state, _, _, _, _, _ = comparing
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
    broken, longest = ngram_features(words, count, characters, comparing, row[F_TOP2:])
    row[F_GOPHER] = rule if rule > 0 else broken
    # Three times a unit of p words hold 3p - 1 repeated 2-grams in a row.
    times, run = word_period(words, count, min(MAX_WORD_PERIOD, (longest + 1) // 3))
    row[F_PERIOD] = times
    row[F_PERIOD + 1] = run / count if count > 0 else 0.0
    row[F_QUESTION + 1] = stutters(words, count) / count if count > 0 else 0.0


@kernel
def fill_unspaced(
    data: UInt8s,
    start: Number,
    end: Number,
    spaces: UInt8s,
    cells: UInt32s,
    reading: Number,
    comparing: Number,
    row: Float32s,
) -> None:
    """Raise the period and 5-gram features of a script without spaces to those of characters."""
    words, lengths, _, _, _ = reading
    ends, keys, table, _, state, _, buckets, seen, picks, _ = comparing
    count = read_characters(data, start, end, spaces, cells, words, lengths)
    most = SHORT_PERIOD
    m = roll_keys(words, count, UNSPACED_GRAM, keys)
    if m > 0:
        ends[0] = 0
        for i in range(count):
            ends[i + 1] = ends[i] + lengths[i]
        count_in_buckets(keys, m, buckets, seen)
        picked = pick_frequent(seen, m, UNSPACED_GRAM, ends, 2, ends[count] * m, picks)
        covered = covered_characters(keys, picks, picked, UNSPACED_GRAM, ends, table, state)
        row[F_REPEATED5] = max(row[F_REPEATED5], np.float32(covered / ends[count]))
        if covered > 0:
            most = MAX_WORD_PERIOD
    times, run = word_period(words, count, most)
    if run > row[F_PERIOD + 1] * count:
        row[F_PERIOD] = times
        row[F_PERIOD + 1] = run / count


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
    _, _, table, _, state, known, _, _, _, _ = comparing
    size = np.float64(end - start)
    wordless = row[F_LOWER] < TABLE_SMALL or row[F_REPEATED5] > TABLE_REPEATED
    if row[F_DIGIT] > TABLE_DIGITS and wordless:
        mask = table_mask(table, lines)
        epoch = next_epoch(table, state)
        covered = table_bytes(data, start, end, classes, known, table, mask, epoch, lines)
        row[F_TABLE] = covered / size
    times, run = byte_period(data, start, end)
    row[F_PERIOD + 2] = times
    row[F_PERIOD + 3] = run / size


@making_kernel
def measure_documents(
    data: UInt8s,
    offsets: Int64s,
    tables: Number,
    capacity: Number,
    features: Float32s,
    transitions: Float32s,
) -> None:
    """Fill `features` float32[N, F] and `transitions` float32[N, 64] of each document.

    `tables` are the byte classes, the kinds of white space, the letters, their common pairs, and
    the cells and odd neighbours of `scripts.py`. Words and lines beyond `capacity` are counted by
    characters but not compared.
    """
    classes, spaces, letters, common, cells, _ = tables
    reading, comparing = make_workspace(capacity)
    histogram = np.empty(256, np.int64)
    moves, other_moves = np.empty(64, np.int64), np.empty(64, np.int64)
    tally = np.empty(TALLIES, np.int64)
    features[:] = 0
    transitions[:] = 0
    for d in range(offsets.size - 1):
        start, end = U64(offsets[d]), U64(offsets[d + 1])
        if start == end:
            continue
        tally[:] = 0
        count_bytes(data, start, end, classes, histogram, moves, other_moves)
        count_runs(data, start, end, tally)
        count_letter_pairs(data, start, end, letters, common, tally)
        read_document(data, start, end, tables, reading, tally)
        row = features[d]
        characters = np.float64(tally[T_CHARACTERS])
        fill_counts(end - start, histogram, moves, tally, row)
        fill_repetition(reading, comparing, tally, row)
        if total(tally, BY_CHARACTERS) >= UNSPACED * characters:
            fill_unspaced(data, start, end, spaces, cells, reading, comparing, row)
        if histogram[63] > LOST * characters:
            row[F_QUESTION] = lost_letters(data, start, end, letters) / characters
        fill_patterns(data, start, end, classes, comparing, tally[T_LINES], row)
        for q in range(64):
            transitions[d, q] = moves[q] / characters
