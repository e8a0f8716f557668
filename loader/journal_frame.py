"""One journal frame: a 40-byte header, a payload, and a checksum that knows its place.

Header, little-endian: magic 4s, version u8, kind u8, replica u16, payload length u32, piece u32,
rank u32, step u64, unix time in ns u64, crc u32. The crc is CRC-32 over the payload, the header's
first 36 bytes and the frame's own file offset as u64. With the offset in it, an old frame that a
file system leaves in a damaged tail is never taken for a new one; with the payload first, a
prefetch thread computes the long part ahead of the write.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from zlib import crc32

from .errors import FormatError

MAGIC = b"SWJ\x0a"
VERSION = 1
MAX_PAYLOAD = 1 << 28
HEADER = struct.Struct("<4sBBHIIIQQI")
_START = struct.Struct("<4sBBHIIIQ")
_PREFIX_SIZE = HEADER.size - 4


class Kind(IntEnum):
    """What a frame records."""

    BRANCH = 1
    DELIVERED = 2
    COMPLETED = 3
    TELEMETRY = 4
    SAMPLE_LOSS = 5
    CHECKPOINT = 6
    EVENT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A frame that lacks only its time and place; made ahead, in any thread.

    Attributes:
        start: the header up to the time.
        payload: what is recorded.
        crc: CRC-32 of the payload and `start`, which only time and file offset follow.
    """

    start: bytes
    payload: bytes
    crc: int

    def __post_init__(self) -> None:
        if len(self.payload) > MAX_PAYLOAD:
            raise FormatError(
                f"a journal record of {len(self.payload)} bytes is over the limit of "
                f"{MAX_PAYLOAD}; record fewer documents a step, or use record='runs'"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One valid frame as read: `offset` and `end` are byte positions in the journal."""

    kind: int
    piece: int
    step: int
    rank: int
    replica: int
    time_ns: int
    offset: int
    payload: bytes

    @property
    def end(self) -> int:
        return self.offset + HEADER.size + len(self.payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a stretch of journal holds.

    `end` is the offset after the last valid frame, `gaps` the (start, end) offsets of damaged
    bytes that valid frames follow; bytes from `end` on are a torn tail or not written yet.
    """

    frames: tuple[Frame, ...]
    gaps: tuple[tuple[int, int], ...]
    end: int


def prepare(
    kind: int, payload: bytes, *, piece: int, step: int, rank: int = 0, replica: int = 0
) -> Prepared:
    """Return the frame of `payload`, all but its time and offset."""
    start = _START.pack(MAGIC, VERSION, kind, replica, len(payload), piece, rank, step)
    return Prepared(start=start, payload=payload, crc=crc32(start, crc32(payload)))


def seal(frame: Prepared, *, time_ns: int, offset: int) -> bytes:
    """Return the 40 header bytes that put `frame` at `offset` of its journal.

    This runs in the training thread, with cold caches: it touches as little as it can.
    """
    when = time_ns.to_bytes(8, "little")
    crc = crc32(when + offset.to_bytes(8, "little"), frame.crc)
    return frame.start + when + crc.to_bytes(4, "little")


def scan(data: bytes, *, offset: int = 0, final: bool = True) -> Scan:
    """Return every valid frame of `data`, which starts at byte `offset` of its journal.

    With `final=False` the scan stops at a frame that may go on beyond `data`; otherwise it looks
    behind it for later frames.

    Raises:
        FormatError: a whole, undamaged frame is of a version this release does not know.
    """
    frames: list[Frame] = []
    gaps: list[tuple[int, int]] = []
    place = 0
    while place < len(data):
        frame = frame_at(data, place, offset)
        if frame is None:
            if not final and _may_go_on(data, place):
                break
            found = _next_frame(data, place + 1, offset)
            if found is None:
                break
            gaps.append((offset + place, offset + found))
            place = found
            continue
        frames.append(frame)
        place = frame.end - offset
    return Scan(frames=tuple(frames), gaps=tuple(gaps), end=offset + place)


def frame_at(data: bytes, place: int, offset: int = 0) -> Frame | None:
    """Return the valid frame at index `place` of `data` (journal offset `offset + place`)."""
    start = place + HEADER.size
    if start > len(data) or data[place : place + 4] != MAGIC:
        return None
    _, version, kind, replica, length, piece, rank, step, time_ns, crc = HEADER.unpack_from(
        data, place
    )
    if length > MAX_PAYLOAD or start + length > len(data):
        return None
    payload = data[start : start + length]
    prefix = data[place : place + _PREFIX_SIZE]
    spot = (offset + place).to_bytes(8, "little")
    if crc32(spot, crc32(prefix, crc32(payload))) != crc:
        return None
    if version != VERSION:
        raise FormatError(
            f"journal frame at byte {offset + place} is of version {version}, this release reads "
            f"version {VERSION}; use the release that wrote it"
        )
    return Frame(
        kind=kind,
        piece=piece,
        step=step,
        rank=rank,
        replica=replica,
        time_ns=time_ns,
        offset=offset + place,
        payload=payload,
    )


def begins_record(data: bytes, size: int) -> bool:
    """Return whether a journal's last `size` bytes are the beginning of one record.

    So ends a journal that is being written, or whose writer was killed in a write.

    Args:
        data: the first of these bytes, those of a header or more.
        size: how many there are.
    """
    if size < HEADER.size:
        return MAGIC.startswith(data[: len(MAGIC)])
    length: int = HEADER.unpack_from(data)[4]
    return data.startswith(MAGIC) and length <= MAX_PAYLOAD and HEADER.size + length > size


def _may_go_on(data: bytes, place: int) -> bool:
    """Whether the bytes at `place` look like a frame that `data` holds the beginning of."""
    if len(data) - place < HEADER.size:
        return True
    if data[place : place + 4] != MAGIC:
        return False
    length: int = HEADER.unpack_from(data, place)[4]
    return length <= MAX_PAYLOAD and place + HEADER.size + length > len(data)


def _next_frame(data: bytes, place: int, offset: int) -> int | None:
    while (place := data.find(MAGIC, place)) >= 0:
        if frame_at(data, place, offset) is not None:
            return place
        place += 1
    return None
