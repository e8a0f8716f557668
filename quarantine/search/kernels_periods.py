"""Kernels that measure periods in words and bytes, and words that stutter."""

# Kernels are called by numba, which knows no keyword-only arguments.

from __future__ import annotations

import numpy as np

from .jit import Number, UInt8s, UInt64s, kernel, load64

U64 = np.uint64
FIRST_BYTE_RUN = 64
MAX_PERIOD = 13
MAX_WORD_PERIOD = 64


@kernel
def word_period(words: UInt64s, count: Number, most: Number) -> tuple[Number, Number]:
    """Return the most repeats (at least 3) of a unit of 1 to `most` words, and the longest run."""
    times: Number = 0
    longest: Number = 0
    for period in range(1, most + 1):
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
def stutters(words: UInt64s, count: Number) -> Number:
    """Return how many words equal the word before them or the one before that."""
    found: Number = 0
    for i in range(U64(2), U64(max(count, 2))):
        word = words[i]
        found += (word == words[i - U64(1)]) | (word == words[i - U64(2)])
    return found


@kernel
def byte_period(data: UInt8s, start: Number, end: Number) -> tuple[Number, Number]:
    """Return the most repeats of a unit of 1 to 13 bytes, and the bytes of the longest run.

    Runs under 64 equal bytes are not seen: one byte in 48 is probed.
    """
    times: Number = 0
    longest: Number = 0
    if end - start < U64(128):
        return times, longest
    i = start + U64(MAX_PERIOD + 47)
    while i + U64(16) < end:
        first, second = load64(data, i), load64(data, i + U64(8))
        p = U64(1)
        while p <= U64(MAX_PERIOD) and (
            first != load64(data, i - p) or second != load64(data, i + U64(8) - p)
        ):
            p += U64(1)
        if p > U64(MAX_PERIOD):
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
            period = np.int64(p)
            times = max(times, matched // period + 1)
            longest = max(longest, matched + period)
        i = high + U64(47)
    return times, longest
