"""Kernels that measure repetition: lines, paragraphs, word n-grams, word and byte periods.

The rules and thresholds are Gopher's (Rae et al. 2021, table A1) in the reading that datatrove
gives them. An n-gram pass is skipped where a bound proves that its threshold cannot be reached.
Sets are one open-addressing table of 48-bit keys with a 16-bit epoch, so clearing it is free.
"""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Float32s, Int32s, Int64s, Number, UInt8s, UInt64s, kernel

U64 = np.uint64
EPOCH = U64(0xFFFF)
ODD = U64(0x9E3779B97F4A7C15)
STEP = U64(0xD6E8FEB86659FD93)
TOP_LIMITS = (0.2, 0.18, 0.16)
DUPLICATE_LIMITS = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)
FIRST_BYTE_RUN = 64
MAX_PERIOD = 13
SKELETON = 16
"""Symbols of a line's skeleton that count."""


@kernel
def insert(table: UInt64s, key: Number, epoch: Number, mask: Number) -> tuple[Number, Number]:
    """Return whether `key` was in the table already, and its slot; insert it if not."""
    key ^= key >> U64(31)
    slot = ((key * ODD) >> U64(24)) & mask
    want = (key & ~EPOCH) | epoch
    while True:
        entry = table[slot]
        if entry == want:
            return True, slot
        if (entry & EPOCH) != epoch:
            table[slot] = want
            return False, slot
        slot = (slot + U64(1)) & mask


@kernel
def next_epoch(table: UInt64s, state: Int64s) -> Number:
    """Return a fresh epoch, clearing the table when the 16 bits are used up."""
    state[0] += 1
    if state[0] > 65535:
        table[:] = U64(0)
        state[0] = 1
    return U64(state[0])


@kernel
def table_mask(table: UInt64s, entries: Number) -> Number:
    """Return the mask of the smallest table that stays half empty."""
    size = 16
    while size < 2 * entries + 2 and size < table.size:
        size *= 2
    return U64(size - 1)


@kernel
def duplicate_lines(
    lines: UInt64s,
    lengths: Int32s,
    count: Number,
    table: UInt64s,
    mask: Number,
    epoch: Number,
) -> tuple[Number, Number]:
    """Return how many lines repeat an earlier one, and their characters."""
    repeats: Number = 0
    characters: Number = 0
    for i in range(count):
        known, _ = insert(table, lines[i], epoch, mask)
        if known:
            repeats += 1
            characters += np.int64(lengths[i])
    return repeats, characters


@kernel
def duplicate_paragraphs(
    lines: UInt64s,
    lengths: Int32s,
    gaps: Int32s,
    count: Number,
    table: UInt64s,
    mask: Number,
    epoch: Number,
) -> tuple[Number, Number, Number]:
    """Return paragraphs, how many repeat an earlier one, and the characters of those.

    A paragraph ends at two or more newlines; `gaps[i]` newlines stand before line `i`.
    """
    low = 0
    high = count
    while low < high and lengths[low] == 0:
        low += 1
    while high > low and lengths[high - 1] == 0:
        high -= 1
    paragraphs = 0
    repeats: Number = 0
    characters: Number = 0
    key = U64(0)
    length: Number = 0
    for i in range(low, high + 1):
        if i == high or (i > low and gaps[i] >= 2):
            paragraphs += 1
            known, _ = insert(table, key * ODD, epoch, mask)
            if known:
                repeats += 1
                characters += length
            key = U64(0)
            length = 0
        elif i > low:
            length += 1
        if i < high:
            key = (key ^ (key >> U64(29))) * STEP + lines[i]
            length += np.int64(lengths[i])
    return paragraphs, repeats, characters


@kernel
def top_ngram(
    keys: UInt64s,
    count: Number,
    n: Number,
    ends: Int64s,
    table: UInt64s,
    slots: Int32s,
    mask: Number,
    epoch: Number,
) -> tuple[Number, Number]:
    """Return the characters of the most frequent n-gram, and of the n-gram with most characters.

    `slots` int32[2, size] holds count and first place of each key. `ends[i]` is the number of
    characters in the first `i` words. Ties go to the n-gram that came first.
    """
    best: Number = 0
    first: Number = 0
    heaviest: Number = 0
    for i in range(count):
        known, slot = insert(table, keys[i], epoch, mask)
        if known:
            slots[0, slot] += np.int32(1)
        else:
            slots[0, slot] = np.int32(1)
            slots[1, slot] = np.int32(i)
        seen = np.int64(slots[0, slot])
        heaviest = max(heaviest, seen * (ends[i + n] - ends[i] + n - 1))
        place = np.int64(slots[1, slot])
        if seen > best or (seen == best and place < first):
            best = seen
            first = place
    return best * (ends[first + n] - ends[first] + n - 1), heaviest


@kernel
def line_skeleton(
    data: UInt8s, start: Number, end: Number, classes: UInt8s
) -> tuple[Number, Number, Number]:
    """Return the hash of a line's skeleton, whether a number is in it, and the next line's start.

    A run of letters and digits becomes one symbol: a number if it holds a digit, else a word.
    White space is left out, and a symbol that repeats the one before it.
    """
    key = U64(1)
    last = U64(0)
    word = U64(0)
    numbers = False
    symbols = 0
    i = start
    while i < end and data[i] != 10:
        c = data[i]
        kind = classes[c]
        i += U64(1)
        if kind == 2:
            word = U64(2)
            numbers = True
        elif kind < 2 or kind == 7:
            word = max(word, U64(1))
        else:
            if word != U64(0):
                if word != last and symbols < SKELETON:
                    key = (key ^ word) * ODD
                    symbols += 1
                last = word
                word = U64(0)
            if kind != 3 and U64(c) != last:
                if symbols < SKELETON:
                    key = (key ^ U64(c)) * ODD
                    symbols += 1
                last = U64(c)
    if word != U64(0) and word != last and symbols < SKELETON:
        key = (key ^ word) * ODD
    return key, numbers, i + U64(1)


@kernel
def table_bytes(
    data: UInt8s,
    start: Number,
    end: Number,
    classes: UInt8s,
    table: UInt64s,
    mask: Number,
    epoch: Number,
    most: Number,
) -> Number:
    """Return the bytes of the lines with a number in them whose skeleton was seen before.

    At most `most` lines are read.
    """
    covered: Number = 0
    lines: Number = 0
    i = start
    while i < end and lines < most:
        key, numbers, following = line_skeleton(data, i, end, classes)
        if numbers:
            known, _ = insert(table, key, epoch, mask)
            if known:
                covered += np.int64(min(following, end) - i)
        lines += 1
        i = following
    return covered


@kernel
def covered_characters(
    keys: UInt64s,
    count: Number,
    n: Number,
    ends: Int64s,
    table: UInt64s,
    mask: Number,
    epoch: Number,
) -> Number:
    """Return the characters of all words that lie in some n-gram seen before."""
    covered: Number = 0
    reach: Number = 0
    for i in range(count):
        known, _ = insert(table, keys[i], epoch, mask)
        if known:
            covered += ends[i + n] - ends[max(i, reach)]
            reach = i + n
    return covered


@kernel
def repeated_ngrams(
    keys: UInt64s,
    count: Number,
    n: Number,
    ends: Int64s,
    table: UInt64s,
    mask: Number,
    epoch: Number,
) -> Number:
    """Return the characters in repeated n-grams, each word counted once."""
    characters: Number = 0
    i = 0
    while i < count:
        known, _ = insert(table, keys[i], epoch, mask)
        if known:
            characters += ends[i + n] - ends[i]
            i += n
        else:
            i += 1
    return characters


@kernel
def extend_keys(keys: UInt64s, words: UInt64s, count: Number, n: Number) -> None:
    """Turn the keys of (n - 1)-grams into those of n-grams, in place."""
    reach = U64(n - 1)
    for i in range(U64(count)):
        keys[i] = keys[i] * STEP + words[i + reach]


@kernel
def ngram_features(
    words: UInt64s,
    count: Number,
    ends: Int64s,
    characters: Number,
    keys: UInt64s,
    table: UInt64s,
    slots: Int32s,
    state: Int64s,
    out: Float32s,
) -> Number:
    """Fill out[0:10] with TOP2…DUPLICATE10; return the first limit broken as 5…13, or 0."""
    rule = 0
    heaviest: Number = 0
    mask = table_mask(table, count)
    keys[:count] = words[:count]
    for n in range(2, 11):
        m = count - n + 1
        if m < 1:
            break
        extend_keys(keys, words, m, n)
        if n < 5:
            # A longer n-gram holds at most the characters of two 2-grams and a third of one more.
            if n > 2 and 3 * heaviest <= 0.16 * characters:
                continue
            top, heavy = top_ngram(keys, m, n, ends, table, slots, mask, next_epoch(table, state))
            heaviest = max(heaviest, heavy)
            value = top / characters
            limit = TOP_LIMITS[n - 2]
            place = n - 2
        else:
            if n == 5:
                covered = covered_characters(
                    keys, m, n, ends, table, mask, next_epoch(table, state)
                )
                out[3] = np.float32(covered / characters)
                # Repeats of any n from 5 on lie inside repeated 5-grams.
                if covered <= 0.1 * characters:
                    break
            repeated = repeated_ngrams(keys, m, n, ends, table, mask, next_epoch(table, state))
            value = repeated / characters
            limit = DUPLICATE_LIMITS[n - 5]
            place = n - 1
        out[place] = np.float32(value)
        if value > limit and rule == 0:
            rule = n + 3
    return rule


@kernel
def word_period(words: UInt64s, count: Number) -> tuple[Number, Number]:
    """Return the most repeats (at least 3) of a unit of 1 to 13 words, and the words of the run."""
    times: Number = 0
    longest: Number = 0
    for period in range(1, MAX_PERIOD + 1):
        if count < 3 * period:
            break
        p = U64(period)
        end = U64(count)
        # A run of 2p equal pairs holds a place that is a multiple of 2p: probe only there.
        step = U64(2) * p
        i = p + step - U64(1)
        while i < end:
            if words[i] != words[i - p]:
                i += step
                continue
            low = i
            while low > p and words[low - U64(1)] == words[low - U64(1) - p]:
                low -= U64(1)
            high = i + U64(1)
            while high < end and words[high] == words[high - p]:
                high += U64(1)
            matched = np.int64(high - low)
            if matched >= 2 * period:
                times = max(times, matched // period + 1)
                longest = max(longest, matched + period)
            i = high + step - U64(1)
    return times, longest


@kernel
def same_bytes(data: UInt8s, i: Number, p: Number) -> Number:
    """Return whether 16 bytes at `i` equal those `p` earlier."""
    difference = np.uint8(0)
    j = i - p
    for q in range(U64(16)):
        difference |= data[i + q] ^ data[j + q]
    return difference == 0


@kernel
def byte_period(data: UInt8s, start: Number, end: Number) -> tuple[Number, Number]:
    """Return the most repeats of a unit of 1 to 13 bytes, and the bytes of the longest run.

    Runs under 64 equal bytes are not seen: one byte in 48 is probed.
    """
    times: Number = 0
    longest: Number = 0
    if end - start < U64(128):
        return times, longest
    for period in range(1, MAX_PERIOD + 1):
        p = U64(period)
        i = start + p + U64(47)
        while i + U64(16) < end:
            if data[i] != data[i - p] or not same_bytes(data, i, p):
                i += U64(48)
                continue
            low = i
            while low > start + p and data[low - U64(1)] == data[low - U64(1) - p]:
                low -= U64(1)
            high = i + U64(16)
            while high < end and data[high] == data[high - p]:
                high += U64(1)
            matched = np.int64(high - low)
            if matched >= FIRST_BYTE_RUN:
                times = max(times, matched // period + 1)
                longest = max(longest, matched + period)
            i = high + U64(47)
    return times, longest
