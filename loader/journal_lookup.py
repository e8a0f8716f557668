"""Finding journals by name, and one step in those that nobody has ingested, by bisection.

The delivered records of a journal come in the order of their steps, so a journal of gigabytes is
searched in about twenty short reads.
"""

from __future__ import annotations

import os
from pathlib import Path

from .journal import iter_journal
from .journal_frame import HEADER, Frame, Kind, begins_record, scan
from .records import DeliveredRecord, delivered

NEAR = 1 << 20
PROBE = 256 << 10


def journal_name(piece: int, rank: int, replica: int) -> str:
    """Return the file name of the journal of one process in one piece."""
    return f"p{piece:06d}-r{rank:05d}-x{replica:03d}.swj"


def find_step(path: Path, step: int, start: int = 0) -> DeliveredRecord | None:
    """Return what the journal at `path` records as delivered for `step` after byte `start`.

    None if it has no such record, or none yet.
    """
    if not path.exists():
        return None
    first = _near(path, step, start)
    for part in iter_journal(path, first, chunk=NEAR):
        for frame in part.frames:
            if frame.kind != Kind.DELIVERED or frame.step < step:
                continue
            # A record of another process, in a journal that was renamed, is damage.
            if path.name == journal_name(frame.piece, frame.rank, frame.replica):
                return delivered(frame) if frame.step == step else None
    return None


def hiding_place(path: Path, step: int) -> tuple[int, int] | None:
    """Return the damaged bytes [first, end) of `path` that a record of `step` may have stood in.

    None if it has no such bytes; asked of a step that `find_step` does not find.
    """
    if not path.exists():
        return None
    after = end = _near(path, step, 0)
    latest: int | None = None
    gaps: list[tuple[int, int]] = []
    for part in iter_journal(path, end, chunk=NEAR):
        gaps += part.gaps
        end = part.end
        for frame in part.frames:
            if frame.kind != Kind.DELIVERED:
                continue
            if frame.step > step:
                return next((gap for gap in gaps if after <= gap[0] < frame.offset), None)
            after, latest = frame.end, frame.step
    # Half a record is of one step, the next.
    if (size := path.stat().st_size) > end and not (
        latest is not None and step > latest + 1 and is_torn(path, end)
    ):
        gaps.append((end, size))
    return next((gap for gap in gaps if gap[0] >= after), None)


def is_torn(path: Path, offset: int) -> bool:
    """Return whether what `path` holds from `offset` on is the beginning of one record."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(handle, HEADER.size, offset)
        return begins_record(head, os.fstat(handle).st_size - offset)
    finally:
        os.close(handle)


def _near(path: Path, step: int, low: int) -> int:
    """Return the offset of a frame at or a little before the record of `step`."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        high = os.fstat(handle).st_size
        while high - low > NEAR:
            middle = (low + high) // 2
            frame = _delivered_after(handle, middle, high)
            if frame is None or frame.step >= step:
                high = middle
            else:
                low = frame.offset
        return low
    finally:
        os.close(handle)


def _delivered_after(handle: int, offset: int, end: int) -> Frame | None:
    """Return the first delivered frame that begins in [offset, end)."""
    size = PROBE
    while True:
        data = os.pread(handle, size, offset)
        for frame in scan(data, offset=offset).frames:
            if frame.kind == Kind.DELIVERED and frame.offset < end:
                return frame
        if offset + len(data) >= end:
            return None
        size *= 2
