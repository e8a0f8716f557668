"""Kernels over UTF-8 bytes: tokens, shingles and MinHash signatures, in a fixed workspace.

The definition they implement is `shingles.py`. MinHash follows Broder (1997) in datasketch's
affine32 family: the 32-bit hash goes through the MurmurHash3 finaliser, then a·h + b mod 2^32
with odd a. Words are hashed in blocks, so that a document of any size needs the same memory;
the last words of a block are carried over to the next.
"""

# Kernels are called by numba, which knows no keyword-only arguments.
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np

from .jit import Int64s, Number, UInt8s, UInt16s, UInt32s, UInt64s, kernel, making_kernel

U32 = np.uint32
U64 = np.uint64
BLOCK = 2048
WORD_PRIME = U64(0x9E3779B97F4A7C15)
P1 = U64(0xD6E8FEB86659FD93)
P2 = U64(0xD6E8FEB86659FD93**2 % 2**64)
P3 = U64(0xD6E8FEB86659FD93**3 % 2**64)
P4 = U64(0xD6E8FEB86659FD93**4 % 2**64)
EMPTY = U32(0xFFFFFFFF)


@kernel
def finish64(h: Number) -> Number:
    """Return the MurmurHash3 64-bit finaliser of `h`."""
    h = (h ^ (h >> U64(33))) * U64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> U64(33))) * U64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> U64(33))


@kernel
def finish32(h: Number) -> Number:
    """Return the MurmurHash3 32-bit finaliser of `h`."""
    h = U32((h ^ (h >> U32(16))) * U32(0x85EBCA6B))
    h = U32((h ^ (h >> U32(13))) * U32(0xC2B2AE35))
    return U32(h ^ (h >> U32(16)))


@kernel
def decode(data: UInt8s, i: Number, end: Number) -> tuple[Number, Number]:
    """Return the code point at byte `i` and the next position; invalid bytes give U+FFFD."""
    c = U32(data[i])
    one = U64(1)
    if c >= U32(0xC2) and c < U32(0xE0) and i + one < end and (data[i + one] & 0xC0) == 0x80:
        return ((c & U32(31)) << U32(6)) | (U32(data[i + one]) & U32(63)), i + U64(2)
    if c < U32(0xE0) or c >= U32(0xF5) or i + U64(2) >= end:
        return U32(0xFFFD), i + one
    if (data[i + one] & 0xC0) != 0x80 or (data[i + U64(2)] & 0xC0) != 0x80:
        return U32(0xFFFD), i + one
    pair = ((U32(data[i + one]) & U32(63)) << U32(6)) | (U32(data[i + U64(2)]) & U32(63))
    if c < U32(0xF0):
        cp = ((c & U32(15)) << U32(12)) | pair
        if cp >= U32(0x800) and (cp < U32(0xD800) or cp >= U32(0xE000)):
            return cp, i + U64(3)
    elif i + U64(3) < end and (data[i + U64(3)] & 0xC0) == 0x80:
        cp = ((c & U32(7)) << U32(18)) | (pair << U32(6)) | (U32(data[i + U64(3)]) & U32(63))
        if cp >= U32(0x10000) and cp < U32(0x110000):
            return cp, i + U64(4)
    return U32(0xFFFD), i + one


@kernel
def hash_words(
    data: UInt8s,
    i: Number,
    end: Number,
    h: Number,
    ascii_folds: UInt8s,
    pages: UInt16s,
    cells: UInt32s,
    out: UInt64s,
    n: Number,
) -> tuple[Number, Number, Number, Number]:
    """Append word hashes to `out` from byte `i` on until it is nearly full or the text ends.

    Returns the next byte, the open word's hash, the number of words, and the or of all cells.
    """
    zero = U64(0)
    seen = U32(0)
    limit = U64(out.size - 2)
    while i < end and n < limit:
        c = data[i]
        if c < 128:
            folded = ascii_folds[c]
            # Stored at every byte, kept only where a word ends: no branch to mispredict.
            out[n] = h ^ (h >> U64(32))
            n += U64((folded == 0) & (h != zero))
            h = (h ^ U64(folded)) * WORD_PRIME if folded != 0 else zero
            i += U64(1)
            continue
        cp, i = decode(data, i, end)
        cell = cells[U64(pages[cp >> U32(8)]) * U64(256) + U64(cp & U32(255))]
        seen |= cell
        kind = (cell >> U32(24)) & U32(3)
        letter = U64(cell & U32(0x1FFFFF))
        if kind == U32(1):
            h = (h ^ letter) * WORD_PRIME
        elif kind != U32(3):
            out[n] = h ^ (h >> U64(32))
            n += U64(h != zero)
            h = zero
            if kind == U32(2):
                single = letter * WORD_PRIME
                out[n] = single ^ (single >> U64(32))
                n += U64(1)
    if i >= end:
        out[n] = h ^ (h >> U64(32))
        n += U64(h != zero)
        h = zero
    return i, h, n, seen


@kernel
def hash_shingles(words: UInt64s, n: Number, out: UInt64s) -> Number:
    """Write the hashes of the `n` words' shingles to `out`; return how many."""
    if n == U64(0):
        return U64(0)
    if n < U64(5):
        total = U64(0)
        for i in range(n):
            total = total * P1 + words[i]
        out[0] = finish64(total)
        return U64(1)
    for i in range(n - U64(4)):
        j = U64(i)
        out[j] = finish64(
            words[j] * P4
            + words[j + U64(1)] * P3
            + words[j + U64(2)] * P2
            + words[j + U64(3)] * P1
            + words[j + U64(4)]
        )
    return n - U64(4)


@kernel
def lower_minima(
    hashes: UInt32s,
    count: Number,
    a: UInt32s,
    b: UInt32s,
    minima: UInt32s,
) -> None:
    """Lower the running minima of all permutations by `count` hashes (a multiple of 8)."""
    for j in range(U64(a.size)):
        aj = a[j]
        bj = b[j]
        low = minima[j]
        for i in range(count):
            low = min(low, U32(U32(hashes[i] * aj) + bj))
        minima[j] = low


@kernel
def fold_block(
    shingles: UInt64s,
    count: Number,
    hashes: UInt32s,
    a: UInt32s,
    b: UInt32s,
    minima: UInt32s,
) -> None:
    """Fold `count` shingles into the minima, padded by a repeated hash, which changes none."""
    for i in range(count):
        hashes[i] = finish32(U32(shingles[i]))
    unit = U64(32) if count > U64(32) else U64(8)
    padded = (count + unit - U64(1)) // unit * unit
    for i in range(count, padded):
        hashes[i] = hashes[0]
    lower_minima(hashes, padded, a, b, minima)


@making_kernel
def sign_documents(
    data: UInt8s,
    offsets: Int64s,
    ascii_folds: UInt8s,
    pages: UInt16s,
    cells: UInt32s,
    a: UInt32s,
    b: UInt32s,
    signatures: UInt32s,
    counts: Int64s,
    seen: UInt32s,
) -> None:
    """Sign documents `data[offsets[d]:offsets[d + 1]]` into `signatures` uint32[N, K].

    `counts` int64[N] gets the number of shingles, `seen` uint32[N] the or of all cells.
    """
    words = np.empty(BLOCK + 8, np.uint64)
    shingles = np.empty(BLOCK + 8, np.uint64)
    hashes = np.empty(BLOCK + 64, np.uint32)
    for d in range(offsets.size - 1):
        signatures[d, :] = EMPTY
        i = U64(offsets[d])
        end = U64(offsets[d + 1])
        h = U64(0)
        n = U64(0)
        total = U64(0)
        cell = U32(0)
        while True:
            i, h, n, bits = hash_words(data, i, end, h, ascii_folds, pages, cells, words, n)
            cell |= bits
            if n >= U64(5) or (total == U64(0) and i >= end):
                made = hash_shingles(words, n, shingles)
                if made > U64(0):
                    fold_block(shingles, made, hashes, a, b, signatures[d])
                total += made
                if n >= U64(5):
                    for q in range(U64(4)):
                        words[q] = words[n - U64(4) + q]
                    n = U64(4)
            if i >= end:
                break
        counts[d] = np.int64(total)
        seen[d] = cell


@making_kernel
def collect_shingles(
    data: UInt8s,
    ascii_folds: UInt8s,
    pages: UInt16s,
    cells: UInt32s,
    out: UInt64s,
) -> Number:
    """Write the shingle hashes of one document to `out`; return how many.

    Stops when `out` is full.
    """
    words = np.empty(BLOCK + 8, np.uint64)
    shingles = np.empty(BLOCK + 8, np.uint64)
    i = U64(0)
    end = U64(data.size)
    h = U64(0)
    n = U64(0)
    kept = U64(0)
    started = False
    room = U64(out.size)
    while True:
        i, h, n, _ = hash_words(data, i, end, h, ascii_folds, pages, cells, words, n)
        if n >= U64(5) or (not started and i >= end):
            made = hash_shingles(words, n, shingles)
            started = started or made > U64(0)
            for q in range(made):
                if kept < room:
                    out[kept] = shingles[q]
                    kept += U64(1)
            if n >= U64(5):
                for q in range(U64(4)):
                    words[q] = words[n - U64(4) + q]
                n = U64(4)
        if i >= end or kept >= room:
            break
    return np.int64(kept)
