"""Keyed permutations of [0, n): the cipher that every order is made of.

Only 64-bit integer arithmetic is used and no random-number library, so the result is the same on
every machine and after every upgrade; `docs/order.md` specifies it and golden vectors pin it.

The cipher is an alternating Feistel network over a mixed-radix domain (Black and Rogaway, "Ciphers
with arbitrary finite domains", 2002): a value is split as `left * b + right` with radices
`a = ceil(sqrt(n))` and `b = ceil(n / a)`, so that fewer than one value in sqrt(n) leaves the
domain and has to walk the cycle. Six rounds are not uniform on tiny domains; those are shuffled
by Fisher and Yates instead. Keys come from splitmix64 (Steele, Lea and Flood, 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .arrays import Int64Array, UInt64Array

MASK64 = (1 << 64) - 1
KEY_ORIGIN = 0x7368617264776172
TINY_DOMAIN = 128
MAX_DOMAIN = 1 << 62
ROUNDS = 6

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_A = np.uint64(_GOLDEN)
_MIX_B = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT_29 = np.uint64(29)
_SHIFT_32 = np.uint64(32)
# Chunks of this many values keep a round's working set in the second-level cache.
_CHUNK = 8192


def splitmix64(value: int) -> int:
    """Return the splitmix64 successor of `value`, both in [0, 2**64)."""
    mixed = (value + _GOLDEN) & MASK64
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK64
    return mixed ^ (mixed >> 31)


def derive_key(*parts: int) -> int:
    """Return a 64-bit key for the tuple `parts`; each part counts modulo 2**64."""
    key = KEY_ORIGIN
    for part in parts:
        key = splitmix64(key ^ (part & MASK64))
    return key


class Permutation:
    """A keyed bijection of [0, size), evaluated in either direction without a table.

    Args:
        size: number of elements, 0 <= size <= 2**62.
        key: any integer, taken modulo 2**64.
    """

    __slots__ = ("_high", "_keys", "_low", "_table", "size")

    def __init__(self, size: int, key: int) -> None:
        if not 0 <= size <= MAX_DOMAIN:
            raise ValueError(f"a permutation of {size} elements is outside 0..{MAX_DOMAIN}")
        self.size = size
        self._table: tuple[Int64Array, Int64Array] | None = None
        if size <= TINY_DOMAIN:
            self._table = _fisher_yates(size, key)
        root = math.isqrt(max(size, 1) - 1) + 1
        self._high = np.uint64(root)
        self._low = np.uint64(-(-size // root) or 1)
        self._keys = tuple(np.uint64(derive_key(key, index)) for index in range(ROUNDS))

    def forward(self, indices: Int64Array) -> Int64Array:
        """Return the images of `indices`, int64[n] in [0, size)."""
        if self._table is not None:
            return self._table[0][indices]
        return self._walk(indices, self._encrypt)

    def inverse(self, images: Int64Array) -> Int64Array:
        """Return the indices whose images are `images`, int64[n] in [0, size)."""
        if self._table is not None:
            return self._table[1][images]
        return self._walk(images, self._decrypt)

    def all(self) -> Int64Array:
        """Return the whole permutation as int64[size]."""
        return self.forward(np.arange(self.size, dtype=np.int64))

    def _walk(self, values: Int64Array, step: Callable[[UInt64Array], UInt64Array]) -> Int64Array:
        """Apply `step` until every value is back inside the domain."""
        source = np.ascontiguousarray(values, dtype=np.int64)
        # An element from outside would walk cycles that never come back inside.
        if source.size and not 0 <= int(source.min()) <= int(source.max()) < self.size:
            raise IndexError(f"an element is outside 0..{self.size - 1}")
        result = np.empty(source.size, dtype=np.int64)
        limit = np.uint64(self.size)
        for start in range(0, source.size, _CHUNK):
            chunk = step(source[start : start + _CHUNK].astype(np.uint64))
            outside = np.flatnonzero(chunk >= limit)
            while outside.size:
                again = step(chunk[outside])
                chunk[outside] = again
                outside = outside[again >= limit]
            result[start : start + chunk.size] = chunk.view(np.int64)
        return result

    def _encrypt(self, values: UInt64Array) -> UInt64Array:
        left = values // self._low
        right = values - left * self._low
        for index, key in enumerate(self._keys):
            if index & 1:
                right += _round(left, key, self._low)
                right -= self._low * (right >= self._low)
            else:
                left += _round(right, key, self._high)
                left -= self._high * (left >= self._high)
        left *= self._low
        left += right
        return left

    def _decrypt(self, values: UInt64Array) -> UInt64Array:
        left = values // self._low
        right = values - left * self._low
        for index in range(ROUNDS - 1, -1, -1):
            key = self._keys[index]
            if index & 1:
                right += self._low - _round(left, key, self._low)
                right -= self._low * (right >= self._low)
            else:
                left += self._high - _round(right, key, self._high)
                left -= self._high * (left >= self._high)
        left *= self._low
        left += right
        return left


def _round(half: UInt64Array, key: np.uint64, radix: np.uint64) -> UInt64Array:
    """Return a keyed pseudo-random value in [0, radix) for each element of `half`."""
    mixed = half + key
    mixed *= _MIX_A
    mixed ^= mixed >> _SHIFT_29
    mixed *= _MIX_B
    mixed >>= _SHIFT_32
    mixed *= radix
    mixed >>= _SHIFT_32
    return mixed


def _fisher_yates(size: int, key: int) -> tuple[Int64Array, Int64Array]:
    """Return a shuffled table of [0, size) and its inverse."""
    table = list(range(size))
    for last in range(size - 1, 0, -1):
        # The high half of a 64 x 64-bit product maps a key to [0, last] without division bias.
        other = (derive_key(key, last) * (last + 1)) >> 64
        table[last], table[other] = table[other], table[last]
    forward = np.array(table, dtype=np.int64)
    inverse = np.empty(size, dtype=np.int64)
    inverse[forward] = np.arange(size, dtype=np.int64)
    return forward, inverse
