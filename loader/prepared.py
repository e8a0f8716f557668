"""A step made ready: all that is left for the training thread is to write and to hand out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array, UInt16Array
from .batch import Batch
from .block_loader import LostBlock
from .cursor import Cursor
from .journal_frame import Prepared
from .rows import Rows
from .segments import Segments


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MicroRows:
    """One micro-batch of one rank; the fields are those of `Batch`."""

    tokens: NDArray[Any]
    loss_mask: BoolArray
    positions: Int64Array
    segments: Segments
    sources: UInt16Array
    target_tokens: int
    blanked_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedStep:
    """One step of one rank, ready to be journalled and handed out.

    Attributes:
        step, epoch: as in `StepPositions`.
        after: what a checkpoint taken after this step must save.
        micros: its micro-batches in order.
        target_tokens, blanked_tokens: of this rank, all micro-batches together.
        global_target_tokens: see `Batch`.
        digest: 16 bytes, of this rank's samples.
        frame: the journal record, None without a run.
        lost: blocks found unreadable since the step before.
        bytes_read: decoded bytes so far.
        dropped: samples left over at the end of the epoch before.
    """

    step: int
    epoch: int
    after: Cursor
    micros: tuple[MicroRows, ...]
    target_tokens: int
    blanked_tokens: int
    global_target_tokens: int
    digest: bytes
    frame: Prepared | None
    lost: tuple[LostBlock, ...]
    bytes_read: int
    dropped: int

    @property
    def positions(self) -> Int64Array:
        """Sample positions of this rank, int64[n]; -1 for padded rows."""
        return np.concatenate([micro.positions for micro in self.micros])

    @property
    def tokens(self) -> int:
        """Places for tokens in this rank's rows, padding included."""
        return sum(micro.tokens.size for micro in self.micros)

    @property
    def nbytes(self) -> int:
        """Bytes that waiting for the trainer costs."""
        return sum(
            micro.tokens.nbytes + micro.loss_mask.nbytes + 48 * len(micro.segments)
            for micro in self.micros
        )

    def batches(self, waited: float) -> Iterator[Batch]:
        """Yield what the trainer gets; `waited` is booked on the first micro-batch."""
        for number, micro in enumerate(self.micros):
            yield Batch(
                step=self.step,
                micro=number,
                micros=len(self.micros),
                epoch=self.epoch,
                tokens=micro.tokens,
                loss_mask=micro.loss_mask,
                positions=micro.positions,
                segments=micro.segments,
                sources=micro.sources,
                target_tokens=micro.target_tokens,
                global_target_tokens=self.global_target_tokens,
                blanked_tokens=micro.blanked_tokens,
                cursor_after=self.after,
                data_wait=0.0 if number else waited,
            )


def split_rows(rows: Rows, positions: Int64Array, micros: int) -> tuple[MicroRows, ...]:
    """Return equal runs of rows, in order."""
    share = positions.size // micros
    slices = rows.segments.slices(positions.size).tolist()
    made = []
    for micro in range(micros):
        part = slice(micro * share, (micro + 1) * share)
        pieces = slice(slices[part.start], slices[part.stop])
        made.append(
            MicroRows(
                tokens=rows.tokens[part],
                loss_mask=rows.loss_mask[part],
                positions=positions[part],
                segments=_rebased(rows.segments, pieces, part.start),
                sources=rows.sources[pieces],
                target_tokens=int(rows.target_by_row[part].sum()),
                blanked_tokens=int(rows.blanked_by_row[part].sum()),
            )
        )
    return tuple(made)


def _rebased(segments: Segments, pieces: slice, row: int) -> Segments:
    sample, doc, start, end, offset = (column[pieces] for column in segments.columns())
    return Segments(sample=sample - row, doc=doc, start=start, end=end, offset=offset)
