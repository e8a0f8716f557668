"""Kernels that measure periods in words and bytes, and lines of one pattern."""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Number, UInt8s, UInt64s, kernel
from .kernels_repetition import ODD, insert

U64 = np.uint64
FIRST_BYTE_RUN = 64
MAX_PERIOD = 13
MAX_WORD_PERIOD = 64
SKELETON = 16
"""Symbols of a line's skeleton that count."""


@kernel
def word_period(words: UInt64s, count: Number) -> tuple[Number, Number]:
    """Return the most repeats (at least 3) of a unit of 1 to 64 words, and the words of the run."""
    times: Number = 0
    longest: Number = 0
    for period in range(1, MAX_WORD_PERIOD + 1):
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
