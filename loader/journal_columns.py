"""Integer columns in few bytes: frame of reference, first differences, sparse exceptions.

A column is a 10-byte head (coding u8, width u8, base i64, little-endian) and its data. The
number of values is known from elsewhere. Codings:

    0 FRAME   value = base + unsigned offset of `width` bytes (0 to 8), modulo 2^64
    1 BITS    value = base + one bit, eight to a byte, first value in the lowest bit
    2 DELTA   base is the first value; a nested column holds the differences
    3 SPARSE  value = base, but for `u32 count` exceptions: a nested column of their
              indices, then a nested column of their values

Frame-of-reference coding after Zukowski, Héman, Nes, Boncz, "Super-Scalar RAM-CPU Cache
Compression", ICDE 2006; here with whole bytes, since numpy packs those without a loop.
"""

from __future__ import annotations

import struct

import numpy as np

from .arrays import Int64Array
from .errors import FormatError

FRAME, BITS, DELTA, SPARSE = 0, 1, 2, 3
_HEAD = struct.Struct("<BBq")
_COUNT = struct.Struct("<I")


def encode_column(values: Int64Array) -> bytes:
    """Return `values` (int64, any order, any length) as one FRAME or BITS column."""
    if len(values) == 0:
        return _HEAD.pack(FRAME, 0, 0)
    base = int(values.min())
    span = int(values.max()) - base
    if span == 0:
        return _HEAD.pack(FRAME, 0, base)
    if span == 1:
        bits = np.packbits((values != base), bitorder="little")
        return _HEAD.pack(BITS, 0, base) + bits.tobytes()
    width = (span.bit_length() + 7) // 8
    return _HEAD.pack(FRAME, width, base) + _offset_bytes(values, base, width)


def encode_deltas(values: Int64Array) -> bytes:
    """Return `values` (int64) as a DELTA column: small when neighbours are close."""
    if len(values) == 0:
        return encode_column(values)
    return _HEAD.pack(DELTA, 0, int(values[0])) + encode_column(values[1:] - values[:-1])


def encode_sparse(values: Int64Array, common: int = 0) -> bytes:
    """Return `values` (int64) as a SPARSE column over `common`, or as FRAME where that is less."""
    index = np.flatnonzero(values != common)
    plain = encode_column(values)
    if len(index) * 2 > len(values):
        return plain
    exceptions = encode_deltas(index) + encode_column(values[index])
    sparse = _HEAD.pack(SPARSE, 0, common) + _COUNT.pack(len(index)) + exceptions
    return min(plain, sparse, key=len)


def decode_column(data: bytes, offset: int, count: int) -> tuple[Int64Array, int]:
    """Return `count` int64 values of the column at `offset`, and the offset after it.

    Raises:
        FormatError: the column is cut short or of an unknown coding.
    """
    if offset + _HEAD.size > len(data):
        raise _cut(offset)
    coding, width, base = _HEAD.unpack_from(data, offset)
    offset += _HEAD.size
    if coding == FRAME and width <= 8:
        return _decode_frame(data, offset, count, width, base)
    if coding == BITS:
        return _decode_bits(data, offset, count, base)
    if coding == DELTA:
        return _decode_deltas(data, offset, count, base)
    if coding == SPARSE:
        return _decode_sparse(data, offset, count, base)
    raise FormatError(
        f"column at byte {offset - _HEAD.size} has coding {coding} and width {width}, "
        "this release knows codings 0 to 3 and widths 0 to 8; use the release that wrote it"
    )


def _offset_bytes(values: Int64Array, base: int, width: int) -> bytes:
    # Unsigned arithmetic wraps, so a span beyond 2^63 is exact too.
    offsets = values.view(np.uint64) - np.uint64(base & 0xFFFF_FFFF_FFFF_FFFF)
    if width in (1, 2, 4, 8):
        return offsets.astype(f"<u{width}").tobytes()
    octets = offsets.astype("<u8").view(np.uint8).reshape(-1, 8)
    return octets[:, :width].tobytes()


def _decode_frame(
    data: bytes, offset: int, count: int, width: int, base: int
) -> tuple[Int64Array, int]:
    if width == 0:
        return np.full(count, base, dtype=np.int64), offset
    end = offset + count * width
    if end > len(data):
        raise _cut(offset)
    values: Int64Array
    if width in (1, 2, 4):
        values = np.frombuffer(data, f"<u{width}", count, offset).astype(np.int64)
    else:
        octets = np.zeros((count, 8), dtype=np.uint8)
        octets[:, :width] = np.frombuffer(data, np.uint8, count * width, offset).reshape(-1, width)
        values = octets.view("<i8").reshape(-1)
    values += base  # wraps like the offsets did
    return values, end


def _decode_bits(data: bytes, offset: int, count: int, base: int) -> tuple[Int64Array, int]:
    end = offset + (count + 7) // 8
    if end > len(data):
        raise _cut(offset)
    packed = np.frombuffer(data, np.uint8, end - offset, offset)
    bits = np.unpackbits(packed, count=count, bitorder="little")
    return bits.astype(np.int64) + base, end


def _decode_deltas(data: bytes, offset: int, count: int, base: int) -> tuple[Int64Array, int]:
    if count == 0:
        raise _cut(offset)
    deltas, end = decode_column(data, offset, count - 1)
    values = np.empty(count, dtype=np.int64)
    values[0] = base
    values[1:] = deltas
    return values.cumsum(), end


def _decode_sparse(data: bytes, offset: int, count: int, base: int) -> tuple[Int64Array, int]:
    if offset + _COUNT.size > len(data):
        raise _cut(offset)
    (exceptions,) = _COUNT.unpack_from(data, offset)
    if exceptions > count:
        raise _cut(offset)
    index, end = decode_column(data, offset + _COUNT.size, exceptions)
    changed, end = decode_column(data, end, exceptions)
    if exceptions and not 0 <= int(index.min()) <= int(index.max()) < count:
        raise _cut(offset)
    values = np.full(count, base, dtype=np.int64)
    values[index] = changed
    return values, end


def _cut(offset: int) -> FormatError:
    return FormatError(
        f"column data at byte {offset} is cut short or inconsistent; "
        "the record was not written by this format, restore the journal from a copy"
    )
