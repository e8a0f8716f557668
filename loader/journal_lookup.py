"""Finding journals by name, and one step in those that nobody has ingested, by bisection.

The delivered records of a journal come in the order of their steps, so a journal of gigabytes is
searched in about twenty short reads.
"""

from __future__ import annotations

import os
from pathlib import Path

from .journal import iter_journal
from .journal_frame import Frame, Kind, scan
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
