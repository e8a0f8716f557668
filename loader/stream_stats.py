"""Splitting a step into micro-batches, and what a loader counts while it goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .batch import Batch
from .cursor import Cursor
from .segments import Segments
from .steps import PreparedStep


@dataclass(slots=True, kw_only=True)
class LoaderStats:
    """Counters since the cursor was loaded.

    Attributes:
        steps: delivered steps.
        tokens: delivered tokens that count in the loss, on this rank.
        blanked_tokens: tokens taken out, on this rank.
        bytes_read: decoded bytes of all windows used.
        bytes_delivered: bytes of delivered tokens.
        data_wait: seconds that the trainer waited for data.
        last_data_wait: the same for the latest step.
        lost_blocks: blocks masked because they could not be read.
    """

    steps: int = 0
    tokens: int = 0
    blanked_tokens: int = 0
    bytes_read: int = 0
    bytes_delivered: int = 0
    data_wait: float = 0.0
    last_data_wait: float = 0.0
    lost_blocks: int = 0

    def add(self, step: PreparedStep, waited: float) -> None:
        """Count one delivered step."""
        self.steps += 1
        self.tokens += step.target_tokens
        self.blanked_tokens += step.blanked_tokens
        self.bytes_read = step.bytes_read
        self.bytes_delivered += step.target_tokens * step.rows.tokens.itemsize
        self.data_wait += waited
        self.last_data_wait = waited
        self.lost_blocks += len(step.lost)

    @property
    def read_amplification(self) -> float:
        """Bytes read per byte delivered; the start of a window reads all of it."""
        return self.bytes_read / self.bytes_delivered if self.bytes_delivered else 0.0


def step_batches(step: PreparedStep, micros: int, after: Cursor, waited: float) -> Iterator[Batch]:
    """Yield the micro-batches of `step`: equal runs of rows, in order."""
    rows = step.rows
    share = step.positions.size // micros
    slices = rows.segments.slices(step.positions.size)
    for micro in range(micros):
        part = slice(micro * share, (micro + 1) * share)
        pieces = slice(int(slices[part.start]), int(slices[part.stop]))
        yield Batch(
            step=step.step,
            micro=micro,
            micros=micros,
            epoch=step.epoch,
            tokens=rows.tokens[part],
            loss_mask=rows.loss_mask[part],
            positions=step.positions[part],
            segments=_rebased(rows.segments, pieces, part.start),
            sources=rows.sources[pieces],
            target_tokens=int(rows.target_by_row[part].sum()),
            global_target_tokens=step.global_target_tokens,
            blanked_tokens=int(rows.blanked_by_row[part].sum()),
            cursor_after=after,
            data_wait=waited if micro == 0 else 0.0,
        )


def _rebased(segments: Segments, pieces: slice, row: int) -> Segments:
    sample, doc, start, end, offset = (column[pieces] for column in segments.columns())
    return Segments(sample=sample - row, doc=doc, start=start, end=end, offset=offset)
