"""A step made ready: all that is left for the training thread is to write and to hand out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import Int64Array
from .batch import Batch
from .block_loader import LostBlock
from .cursor import Cursor
from .journal_frame import Prepared
from .rank_check import Share
from .rows import Rows
from .segments import Segments

STEP_BYTES, MICRO_BYTES = 1_500, 1_500
"""Memory of a waiting step's Python objects and array headers, and of those of a micro-batch."""
SEGMENT_BYTES = 42
"""Five int64 columns and the source code of a segment."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedStep:
    """One step of one rank, ready to be journalled and handed out.

    Attributes:
        step: as in `StepPositions`.
        after: what a checkpoint taken after this step must save.
        micros: its micro-batches in order.
        target_tokens, blanked_tokens: of this rank, all micro-batches together.
        target_bytes: bytes of the target tokens.
        blanked_share: share of this rank's places for tokens that the revision took out.
        digest: 16 bytes, of this rank's samples.
        share: what this rank tells the others of it.
        frame: the journal record, None without a run.
        report: the record of its completion, None without a run.
        lost: blocks found unreadable since the step before.
        bytes_read: bytes decoded since the step before of the same reader.
        dropped: samples left over at the end of the epoch before.
    """

    step: int
    after: Cursor
    micros: tuple[Batch, ...]
    target_tokens: int
    target_bytes: int
    blanked_tokens: int
    blanked_share: float
    digest: bytes
    share: Share
    frame: Prepared | None
    report: Prepared | None
    lost: tuple[LostBlock, ...]
    bytes_read: int
    dropped: int

    @property
    def positions(self) -> Int64Array:
        """Sample positions of this rank, int64[n]; -1 for padded rows."""
        return np.concatenate([micro.positions for micro in self.micros])

    @property
    def nbytes(self) -> int:
        """Bytes that waiting for the trainer costs."""
        record = 0 if self.frame is None else len(self.frame.payload)
        return STEP_BYTES + record + sum(_nbytes(micro) for micro in self.micros)


def split_rows(
    rows: Rows, positions: Int64Array, micros: int, *, epoch: int, after: Cursor
) -> tuple[Batch, ...]:
    """Return equal runs of rows as micro-batches, in order.

    Args:
        rows: what this rank gets in the step.
        positions: int64[n], of the rows.
        micros: number of micro-batches.
        epoch: of all positions.
        after: cursor after the step.
    """
    share = positions.size // micros
    slices = rows.segments.slices(positions.size).tolist()
    made = []
    for micro in range(micros):
        part = slice(micro * share, (micro + 1) * share)
        pieces = slice(slices[part.start], slices[part.stop])
        made.append(
            Batch(
                step=after.step,
                micro=micro,
                micros=micros,
                epoch=epoch,
                tokens=rows.tokens[part],
                loss_mask=rows.loss_mask[part],
                positions=positions[part],
                segments=_rebased(rows.segments, pieces, part.start),
                sources=rows.sources[pieces].copy(),
                target_tokens=int(rows.target_by_row[part].sum()),
                global_target_tokens=rows.step_tokens,
                blanked_tokens=int(rows.blanked_by_row[part].sum()),
                cursor_after=after,
            )
        )
    return tuple(made)


def _nbytes(batch: Batch) -> int:
    arrays = batch.tokens.nbytes + batch.loss_mask.nbytes + batch.positions.nbytes
    return MICRO_BYTES + arrays + SEGMENT_BYTES * len(batch.segments)


def _rebased(segments: Segments, pieces: slice, row: int) -> Segments:
    # Copies: a view would keep the columns of a whole window as long as the batch.
    sample, *others = (column[pieces].copy() for column in segments.columns())
    sample -= row
    doc, start, end, offset = others
    return Segments(sample=sample, doc=doc, start=start, end=end, offset=offset)
