"""The checkpoints a run has recorded: from the ledger, or from the journals for a trainer."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...loader.cursor import Cursor
from ...loader.journal import iter_journal
from ...loader.journal_frame import Frame, Kind, scan
from ...loader.records import note
from .rewind import Checkpoint

if TYPE_CHECKING:
    from ...loader.run import Run
    from ..ledger.ledger import Ledger

CHUNK = 4 << 20
OVERLAP = 64 << 10  # a checkpoint's record is under 2 KB; one may straddle two chunks


def journalled_checkpoints(run: Run) -> list[Checkpoint]:
    """Return the checkpoints of all branches, by step and piece, each once."""
    found: dict[tuple[int, int], Checkpoint] = {}
    for path in run.journals():
        for part in iter_journal(path):
            for frame in part.frames:
                if frame.kind == Kind.CHECKPOINT:
                    found[frame.step, frame.piece] = _checkpoint(frame)
    return [found[key] for key in sorted(found)]


def ledger_checkpoints(ledger: Ledger) -> list[Checkpoint]:
    """Return the checkpoints of the head's history, by step, from an open ledger."""
    return [
        Checkpoint(
            step=row["step"],
            piece=row["piece"],
            path=row["path"] or "",
            cursor=json.loads(row["cursor"]),
        )
        for row in ledger.checkpoints().to_pylist()
    ]


def start_of(run: Run) -> Checkpoint | None:
    """Return the start of the run's history, before step 1, without weights; None without one."""
    pieces = {piece.piece: piece for piece in run.pieces()}
    head = run.head()
    if head is None:
        return None
    root = pieces[head.piece]
    while root.parent is not None:
        root = pieces[root.parent]
    cursor = replace(Cursor.from_json(root.cursor), piece=root.piece)
    return Checkpoint(step=0, piece=root.piece, path="", cursor=cursor.to_json())


def without_lost(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints, unhealthy where the file is gone.

    Only an absolute path in a directory that is here can be said to be gone; others are of
    another machine, or relative to a trainer's directory.
    """
    return [
        replace(each, healthy=False, note=f"{each.path} is gone") if _gone(each.path) else each
        for each in checkpoints
    ]


def _gone(path: str) -> bool:
    where = Path(path)
    return where.is_absolute() and where.parent.is_dir() and not where.exists()


def newer_checkpoint(run: Run, than: Checkpoint) -> Checkpoint | None:
    """Return the newest checkpoint after `than` on the lineage of the run's head, or None.

    Journals are read from their ends, so a restart does not pay for a run's whole history.
    """
    for span in reversed(run.lineage()):
        if span.last is not None and span.last <= than.step:
            continue
        mine = [p for p in run.journals() if p.name.startswith(f"p{span.piece:06d}-")]
        found = [each for path in mine if (each := newest_in(path, span.last)) is not None]
        newest = max(found, key=lambda checkpoint: checkpoint.step, default=None)
        if newest is not None and newest.step > than.step:
            return newest
    return None


def newest_in(path: Path, last: int | None = None, *, chunk: int = CHUNK) -> Checkpoint | None:
    """Return the newest checkpoint at or before step `last` in one journal, or None."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = os.fstat(handle).st_size
        while end > 0:
            start = max(0, end - chunk)
            data = os.pread(handle, end - start + OVERLAP, start)
            for frame in reversed(scan(data, offset=start).frames):
                wanted = frame.kind == Kind.CHECKPOINT and frame.offset < end
                if wanted and (last is None or frame.step <= last):
                    return _checkpoint(frame)
            end = start
    finally:
        os.close(handle)
    return None


def _checkpoint(frame: Frame) -> Checkpoint:
    values = note(frame).values
    return Checkpoint(
        step=frame.step,
        piece=frame.piece,
        path=str(values.get("path") or ""),
        cursor=values.get("cursor") or {},
    )
