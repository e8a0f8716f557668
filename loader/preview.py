"""Which samples and documents would feed a step, told without reading data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import Int64Array, concatenate
from .errors import NotFound
from .leap import leap
from .passed import CountsReader, no_counts
from .segments import Segments
from .steps import StepSource
from .walk import Place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Preview:
    """One step of the whole job, all ranks together.

    Attributes:
        step, epoch: as they will be.
        start, end: raw positions [start, end) that the step goes through.
        positions: int64[batch], -1 for padded rows.
        segments: pieces that would be delivered; `sample` indexes into `positions`.
        blanked: int64[k], sorted documents whose pieces the revision would take out.
    """

    step: int
    epoch: int
    start: int
    end: int
    positions: Int64Array
    segments: Segments
    blanked: Int64Array

    @property
    def documents(self) -> Int64Array:
        """Sorted ordinals of the documents that would be delivered, int64[n]."""
        return np.unique(self.segments.doc)


def preview_step(
    source: StepSource, place: Place, step: int, *, counts: CountsReader = no_counts
) -> Preview:
    """Return what `source` would deliver at `step` when it starts from `place`; always exact.

    Where the revision's passed counts are stored the step is found at once, else the lengths of
    every window before it that the revision touches are read.

    Raises:
        NotFound: `step` lies before `place`, or after the last step.
    """
    if step <= place.step:
        raise NotFound(
            f"step {step} is not after the loaded cursor's step {place.step}; "
            "what was delivered stands in the ledger"
        )
    walker = source.walker()
    before = leap(walker, place, step, counts)
    taken = None if before is None else walker.take(before)
    if taken is None:
        raise NotFound(f"step {step} is after the last step of the last epoch")
    order = walker.order(taken.epoch)
    real = taken.positions[taken.positions >= 0]
    parts, blanked, row = [], [], 0
    numbers = np.searchsorted(order.window_starts, real, side="right") - 1
    for window in np.unique(numbers):
        chosen = real[numbers == window]
        table = order.window(int(window))
        found = table.segments(chosen)
        gone = walker.exclusion.blanked(table, found, chosen, taken.epoch)
        blanked.append(found.doc[gone])
        parts.append(_shifted(found.select(~gone), row))
        row += chosen.size
    columns = [concatenate([part.columns()[index] for part in parts]) for index in range(5)]
    return Preview(
        step=taken.step,
        epoch=taken.epoch,
        start=taken.start,
        end=taken.end,
        positions=taken.positions,
        segments=Segments(
            sample=columns[0], doc=columns[1], start=columns[2], end=columns[3], offset=columns[4]
        ),
        blanked=np.unique(concatenate(blanked)),
    )


def _shifted(segments: Segments, row: int) -> Segments:
    return Segments(
        sample=segments.sample + row,
        doc=segments.doc,
        start=segments.start,
        end=segments.end,
        offset=segments.offset,
    )
