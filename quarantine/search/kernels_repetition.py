"""Kernels that measure repetition: lines, paragraphs and word n-grams.

The rules and thresholds are Gopher's (Rae et al. 2021, table A1) in the reading that datatrove
gives them. An n-gram pass is skipped where a bound proves that its threshold cannot be reached.
Sets are one open-addressing table of 48-bit keys with a 16-bit epoch, so clearing it is free.
"""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Float32s, Int32s, Int64s, Number, UInt64s, kernel

U64 = np.uint64
EPOCH = U64(0xFFFF)
ODD = U64(0x9E3779B97F4A7C15)
STEP = U64(0xD6E8FEB86659FD93)
ONCE, LOW = U64(1 << 32), U64((1 << 32) - 1)
TOP_LIMITS = (0.2, 0.18, 0.16)
DUPLICATE_LIMITS = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)


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
    slots: UInt64s,
    mask: Number,
    epoch: Number,
) -> tuple[Number, Number]:
    """Return the characters of the most frequent n-gram, and of the n-gram with most characters.

    `slots` uint64[size] holds the count of each key above its first place in the low 32 bits.
    `ends[i]` is the number of characters in the first `i` words. Ties go to the n-gram that came
    first.
    """
    best: Number = 0
    first: Number = 0
    heaviest: Number = 0
    for i in range(count):
        known, slot = insert(table, keys[i], epoch, mask)
        entry = slots[slot] + ONCE if known else ONCE | U64(i)
        slots[slot] = entry
        seen = np.int64(entry >> U64(32))
        heaviest = max(heaviest, seen * (ends[i + n] - ends[i] + n - 1))
        place = np.int64(entry & LOW)
        if seen > best or (seen == best and place < first):
            best = seen
            first = place
    return best * (ends[first + n] - ends[first] + n - 1), heaviest


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
def roll_keys(words: UInt64s, count: Number, n: Number, keys: UInt64s) -> Number:
    """Write the keys of all n-grams of `count` words; return how many there are."""
    if count < n:
        return 0
    key = U64(0)
    top = U64(1)
    for i in range(n):
        key = key * STEP + words[i]
        if i > 0:
            top *= STEP
    keys[0] = key
    for i in range(count - n):
        key = (key - words[i] * top) * STEP + words[i + n]
        keys[i + 1] = key
    return count - n + 1


@kernel
def ngram_features(
    words: UInt64s,
    count: Number,
    ends: Int64s,
    characters: Number,
    keys: UInt64s,
    table: UInt64s,
    slots: UInt64s,
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
