"""Kernels that measure repetition: lines, paragraphs and word n-grams.

The rules and thresholds are Gopher's (Rae et al. 2021, table A1) in the reading that datatrove
gives them. An n-gram pass is skipped where a bound proves that its threshold cannot be reached.
Sets are one open-addressing table of 48-bit keys with a 16-bit epoch, so clearing it is free.
"""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Float32s, Int32s, Int64s, Number, UInt32s, UInt64s, kernel

U32 = np.uint32
U64 = np.uint64
EPOCH = U64(0xFFFF)
ODD = U64(0x9E3779B97F4A7C15)
STEP = U64(0xD6E8FEB86659FD93)
ONCE, LOW = U64(1 << 32), U64((1 << 32) - 1)
BUCKET_SHIFT = U64(40)
MOST_BUCKETS = 1 << 18
"""As many as a core's own cache holds; that more keys share one costs time alone."""
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
def count_in_buckets(keys: UInt64s, count: Number, buckets: UInt32s, seen: UInt32s) -> Number:
    """Write to `seen` how often each key comes at most; return the highest of these.

    Keys are told apart by some bits of their hash alone, so no branch can be mispredicted.
    """
    size = U64(16)
    while size < min(U64(4 * count), U64(MOST_BUCKETS)):
        size *= U64(2)
    buckets[:size] = U32(0)
    mask = size - U64(1)
    most = U32(0)
    for i in range(U64(count)):
        buckets[((keys[i] * ODD) >> BUCKET_SHIFT) & mask] += U32(1)
    for i in range(U64(count)):
        times = buckets[((keys[i] * ODD) >> BUCKET_SHIFT) & mask]
        seen[i] = times
        most = max(most, times)
    return most


@kernel
def pick_frequent(
    seen: UInt32s,
    count: Number,
    n: Number,
    ends: Int64s,
    least: Number,
    heavy: Number,
    picks: UInt32s,
) -> Number:
    """Write the places of n-grams seen `least` times, or of more than `heavy` characters in all.

    Returns how many there are.
    """
    picked = U64(0)
    for i in range(U64(count)):
        weight = np.int64(seen[i]) * (ends[i + U64(n)] - ends[i] + n - 1)
        picks[picked] = U32(i)
        picked += U64((seen[i] >= least) | (weight > heavy))
    return picked


@kernel
def pick_repeated(seen: UInt32s, count: Number, picks: UInt32s) -> tuple[Number, Number]:
    """Write the places of 5-grams of which each 2-gram may be repeated.

    No other 5-gram can be. `seen` is of the `count` 2-grams. Returns how many there are, and the
    longest row of 2-grams that may be repeated, or 3 where it is shorter.
    """
    picked, one = U64(0), U64(1)
    for i in range(U64(max(count, 3)) - U64(3)):
        low = min(seen[i], seen[i + one], seen[i + U64(2)], seen[i + U64(3)])
        picks[picked] = U32(i)
        picked += U64(low >= U32(2))
    row = longest = 0
    for k in range(picked):
        row = row + 1 if k > U64(0) and picks[k] == picks[k - one] + U32(1) else 1
        longest = max(longest, row)
    return picked, longest + 3


@kernel
def top_ngram(
    most: Number, count: Number, n: Number, heavy: Number, comparing: Number
) -> tuple[Number, Number]:
    """Return the characters of the most frequent n-gram, and of the n-gram with most characters.

    The latter is right where it is above `heavy`. `most` is what `count_in_buckets` returned for
    the keys. Ties go to the n-gram that came first.
    """
    ends, keys, table, slots, state, _, _, seen, picks, _ = comparing
    heaviest: Number = 0
    least = U32(most)
    while True:
        picked = pick_frequent(seen, count, n, ends, least, heavy, picks)
        mask, epoch = table_mask(table, np.int64(picked)), next_epoch(table, state)
        best: Number = 0
        first: Number = 0
        for k in range(picked):
            i = np.int64(picks[k])
            known, slot = insert(table, keys[i], epoch, mask)
            # The count of a key stands above its first place in the low 32 bits.
            entry = slots[slot] + ONCE if known else ONCE | U64(i)
            slots[slot] = entry
            times = np.int64(entry >> U64(32))
            heaviest = max(heaviest, times * (ends[i + n] - ends[i] + n - 1))
            place = np.int64(entry & LOW)
            if times > best or (times == best and place < first):
                best = times
                first = place
        # What was not picked comes less often than `least`.
        if best >= np.int64(least):
            return best * (ends[first + n] - ends[first] + n - 1), heaviest
        least = U32(best)


@kernel
def covered_characters(
    keys: UInt64s,
    picks: UInt32s,
    picked: Number,
    n: Number,
    ends: Int64s,
    table: UInt64s,
    state: Int64s,
) -> Number:
    """Return the characters of all words that lie in some n-gram seen before.

    Only the n-grams at `picks` are looked at.
    """
    mask, epoch = table_mask(table, np.int64(picked)), next_epoch(table, state)
    covered: Number = 0
    reach: Number = 0
    for k in range(picked):
        i = np.int64(picks[k])
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
def duplicate_ngrams(
    words: UInt64s, count: Number, characters: Number, comparing: Number, out: Float32s
) -> Number:
    """Fill out[4:10] with DUPLICATE5…DUPLICATE10; return the first limit broken as 8…13, or 0."""
    ends, keys, table, _, state, _, _, _, _, _ = comparing
    rule = 0
    mask = table_mask(table, count)
    roll_keys(words, count, 5, keys)
    for n in range(5, min(count, 10) + 1):
        m = count - n + 1
        if n > 5:
            extend_keys(keys, words, m, n)
        repeated = repeated_ngrams(keys, m, n, ends, table, mask, next_epoch(table, state))
        value = repeated / characters
        out[n - 1] = np.float32(value)
        if value > DUPLICATE_LIMITS[n - 5] and rule == 0:
            rule = n + 3
    return rule


@kernel
def ngram_features(
    words: UInt64s, count: Number, characters: Number, comparing: Number, out: Float32s
) -> tuple[Number, Number]:
    """Fill out[0:10] with TOP2…DUPLICATE10; return the first limit broken as 5…13, or 0.

    Also returns the longest row of 2-grams that may be repeated, or 3 where it is shorter.
    """
    ends, keys, table, _, state, _, buckets, seen, _, repeated = comparing
    rule, row, picked = 0, 3, U64(0)
    # A longer n-gram holds at most the characters of two 2-grams and a third of one more.
    heavy = np.int64(0.16 * characters) // 3
    for i in range(U64(count)):
        keys[i] = words[i]
    for n in range(2, min(count, 4) + 1):
        m = count - n + 1
        extend_keys(keys, words, m, n)
        most = count_in_buckets(keys, m, buckets, seen)
        if n == 2:
            picked, row = pick_repeated(seen, m, repeated)
        top, heaviest = top_ngram(most, m, n, heavy, comparing)
        value = top / characters
        out[n - 2] = np.float32(value)
        if value > TOP_LIMITS[n - 2] and rule == 0:
            rule = n + 3
        if n == 2 and heaviest <= heavy:
            break
    for k in range(picked):
        place = U64(repeated[k])
        key = words[place]
        for j in range(U64(1), U64(5)):
            key = key * STEP + words[place + j]
        keys[place] = key
    covered = covered_characters(keys, repeated, picked, 5, ends, table, state)
    out[3] = np.float32(covered / characters)
    # Repeats of any n from 5 on lie inside repeated 5-grams.
    if covered > 0.1 * characters:
        broken = duplicate_ngrams(words, count, characters, comparing, out)
        rule = rule if rule > 0 else broken
    return rule, row
