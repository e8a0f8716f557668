"""Scalars of a TensorBoard event file, read without TensorBoard.

The file is a sequence of framed protocol buffers: length (8 bytes), its masked CRC-32C, the
record, a CRC. Only the few fields that hold a step, a tag and a number are looked at
(tensorflow's event.proto and summary.proto, version 2).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...loader.errors import FormatError

_HEAD = struct.Struct("<QI")
_LARGEST_RECORD = 64 << 20
_CRC = struct.Struct("<I")
# A length that is neither zero nor beyond 2^32 - 1, so that few places need a checksum.
_PLAUSIBLE = re.compile(rb"(?s)(?!\0{4})(?=.{4}\0{4})")
MOST_FAULTS = 10
_FLOAT, _DOUBLE = 1, 2


def _crc_of(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 & -(byte & 1))
    return byte


_TABLE = [_crc_of(byte) for byte in range(256)]


def is_event_file(path: Path, start: bytes) -> bool:
    """Whether `path`, which begins with `start`, is a TensorBoard event file."""
    return ".tfevents." in path.name or _has_valid_head(start)


def read_scalars(path: Path, data: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    """Return one {"step": step, tag: value} for each scalar, and what was left out, in words.

    A record that does not fit its checksum is left out. Where a length does not fit, everything
    is left out up to the next bytes that are a sound record.

    Raises:
        FormatError: no scalar is sound, or a sound record is no event.
    """
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    at = 0
    while at < len(data):
        length = _length(data, at)
        if length is None:
            at = _resumed(data, at, faults)
            continue
        end = at + 16 + length
        if end > len(data):
            faults.append("the last record is cut off")
        elif _is_sound(data, at, length):
            rows.extend(_scalars(data[at + 12 : end - 4], path))
        else:
            faults.append(f"corrupt at byte {at}: a record of {length} bytes is left out")
        at = end
    if faults and not rows:
        raise FormatError(f"{path} holds no sound scalar ({faults[0]}); copy the event file again")
    return rows, _told(faults)


def _length(data: bytes, at: int) -> int | None:
    """Return the length of the record at `at`, None where its checksum does not fit."""
    head = data[at : at + _HEAD.size]
    if len(head) < _HEAD.size:
        return None
    length, check = _HEAD.unpack(head)
    fits = length <= _LARGEST_RECORD and _masked_crc(head[:8]) == check
    return int(length) if fits else None


def _resumed(data: bytes, at: int, faults: list[str]) -> int:
    """Return where the next sound record after a broken one at `at` begins, or the end."""
    for match in _PLAUSIBLE.finditer(data, at + 1):
        place = match.start()
        length = _length(data, place)
        if length and _is_sound(data, place, length):
            faults.append(f"corrupt at byte {at}: {place - at} bytes are left out")
            return place
    left = len(data) - at
    faults.append(
        "the last record is cut off"
        if left < _HEAD.size
        else f"corrupt at byte {at}: the last {left} bytes are left out"
    )
    return len(data)


def _is_sound(data: bytes, at: int, length: int) -> bool:
    """Whether the record at `at` fits its checksum."""
    end = at + 16 + length
    return end <= len(data) and _CRC.unpack(data[end - 4 : end])[0] == _masked_crc(
        data[at + 12 : end - 4]
    )


def _told(faults: list[str]) -> list[str]:
    """Return the faults in words, at most `MOST_FAULTS` of them and how many more there are."""
    more = len(faults) - MOST_FAULTS
    return [*faults[:MOST_FAULTS], f"{more} more faults"] if more > 0 else faults


def _has_valid_head(start: bytes) -> bool:
    if len(start) < _HEAD.size:
        return False
    length, check = _HEAD.unpack(start[: _HEAD.size])
    return bool(0 < length <= _LARGEST_RECORD and _masked_crc(start[:8]) == check)


def _scalars(record: bytes, path: Path) -> Iterator[dict[str, Any]]:
    try:
        event = _fields(record)
        step = _signed(_one(event, 2, 0))
        for summary in event.get(5, ()):
            for value in _fields(summary).get(1, ()):
                yield from _value(_fields(value), step)
    except (IndexError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise FormatError(f"{path} holds a record that is no TensorBoard event") from error


def _value(fields: dict[int, list[Any]], step: int) -> Iterator[dict[str, Any]]:
    tag = _one(fields, 1, b"").decode()
    number = _one(fields, 2, None)
    if number is None and 8 in fields:
        number = _tensor(_fields(fields[8][0]))
    elif number is not None:
        number = struct.unpack("<f", number)[0]
    if tag and number is not None:
        yield {"step": step, tag: number}


def _tensor(fields: dict[int, list[Any]]) -> float | None:
    """Return the single number of a tensor, None when it is not one."""
    kind = _one(fields, 1, 0)
    form = {_FLOAT: "<f", _DOUBLE: "<d"}.get(kind)
    if form is None:
        return None
    listed = fields.get(5 if kind == _FLOAT else 6) or fields.get(4)
    if not listed or len(listed[0]) != struct.calcsize(form):
        return None
    return float(struct.unpack(form, listed[0])[0])


def _fields(data: bytes) -> dict[int, list[Any]]:
    """Return {field number: values}: integers, or bytes for anything that has a length."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value, at = _payload(data, at, key & 7)
        found.setdefault(key >> 3, []).append(value)
    return found


def _payload(data: bytes, at: int, wire: int) -> tuple[Any, int]:
    if wire == 0:
        return _varint(data, at)
    sizes = {1: 8, 5: 4}
    if wire == 2:
        size, at = _varint(data, at)
    elif wire in sizes:
        size = sizes[wire]
    else:
        raise IndexError(f"wire type {wire}")
    if at + size > len(data):
        raise IndexError("field beyond its record")
    return data[at : at + size], at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise IndexError("number too long")


def _one(fields: dict[int, list[Any]], number: int, default: Any) -> Any:
    return fields[number][-1] if number in fields else default


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
