"""The checkpoints a run has journalled, read without the ledger so that a trainer can ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...loader.journal import iter_journal
from ...loader.journal_frame import Kind
from ...loader.lineage import owner
from ...loader.records import note
from .rewind import Checkpoint

if TYPE_CHECKING:
    from ...loader.run import Run


def journalled_checkpoints(run: Run) -> list[Checkpoint]:
    """Return the checkpoints of all branches, by step and piece, each once."""
    found: dict[tuple[int, int], Checkpoint] = {}
    for path in run.journals():
        for part in iter_journal(path):
            for frame in part.frames:
                if frame.kind == Kind.CHECKPOINT:
                    values = note(frame).values
                    found[frame.step, frame.piece] = Checkpoint(
                        step=frame.step,
                        piece=frame.piece,
                        path=str(values.get("path") or ""),
                        cursor=values.get("cursor") or {},
                    )
    return [found[key] for key in sorted(found)]


def newer_checkpoint(run: Run, than: Checkpoint) -> Checkpoint | None:
    """Return the newest checkpoint after `than` on the lineage of the run's head, or None."""
    spans = run.lineage()
    newest = None
    for checkpoint in journalled_checkpoints(run):
        span = owner(spans, checkpoint.step)
        if checkpoint.step > than.step and span is not None and span.piece == checkpoint.piece:
            newest = checkpoint
    return newest
