"""From a cursor to the sample positions of each step, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np

from .arrays import Int64Array, concatenate
from .errors import TopologyError
from .exclusion import Exclusion
from .order import EpochOrder, Layout
from .schedule import BatchSchedule

EpochEnd = Literal["drop", "pad"]


class Place(NamedTuple):
    """A step boundary: the last completed step and where the next one takes its samples."""

    step: int
    epoch: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPositions:
    """The samples of one step, before the split over ranks.

    Attributes:
        step: the step, from 1.
        epoch: the epoch that all of its samples belong to.
        start, end: raw positions `[start, end)` that the step went through.
        positions: int64[batch], sample positions in order; -1 fills a padded last batch.
        dropped: surviving samples of the epoch before that were too few for a batch.
    """

    step: int
    epoch: int
    start: int
    end: int
    positions: Int64Array
    dropped: int = 0

    @property
    def after(self) -> Place:
        """Where the next step starts."""
        return Place(self.step, self.epoch, self.end)


class Walker:
    """Takes steps from a plan's order around a revision's holes.

    Args:
        layout: plan, geometry and lengths.
        exclusion: the revision in force.
        schedule: global batch, in samples, per step.
        epochs: number of epochs to walk; None goes on for ever.
        end: what to do with an epoch's last samples that fill no batch.
    """

    def __init__(
        self,
        layout: Layout,
        exclusion: Exclusion,
        schedule: BatchSchedule,
        *,
        epochs: int | None = 1,
        end: EpochEnd = "drop",
    ) -> None:
        if end not in get_args(EpochEnd):
            raise ValueError(f"end is {end!r}, not one of {get_args(EpochEnd)}")
        self.layout = layout
        self.exclusion = exclusion
        self.schedule = schedule
        self.epochs = epochs
        self.end = end
        # A walk looks at one epoch and one window at a time; the second is for look-back.
        self.order = lru_cache(maxsize=2)(self._order)
        self.survivors = lru_cache(maxsize=2)(self._window_survivors)

    def take(self, place: Place) -> StepPositions | None:
        """Return the step after `place`, or None where the last epoch has ended.

        Raises:
            TopologyError: an epoch has fewer samples than one batch, so no step is ever complete.
        """
        step, epoch, start = place.step + 1, place.epoch, place.position
        size, dropped = self.schedule.size_at(step), 0
        while self.epochs is None or epoch < self.epochs:
            positions, end = self._collect(epoch, start, size)
            if positions.size == size or (self.end == "pad" and positions.size):
                return StepPositions(
                    step=step,
                    epoch=epoch,
                    start=start,
                    end=end,
                    positions=_padded(positions, size),
                    dropped=dropped,
                )
            if start == 0:
                remedy = "use a smaller batch or end='pad'" if positions.size else "release some"
                raise TopologyError(
                    f"epoch {epoch} has {positions.size} samples left after exclusion, fewer than "
                    f"the batch of {size}; {remedy}"
                )
            epoch, start, dropped = epoch + 1, 0, int(positions.size)
        return None

    def count(self, epoch: int, start: int = 0) -> int:
        """Return the number of surviving samples of `epoch` from raw position `start` on.

        Exact; reads the lengths of only those windows that the revision touches.
        """
        order = self.order(epoch)
        total = 0
        for window in range(order.window_of(start), order.windows):
            low, high = (int(edge) for edge in order.window_starts[window : window + 2])
            if start <= low and not self.exclusion.touches(order, window):
                total += high - low
            else:
                survivors = self.survivors(epoch, window)
                total += int(survivors.size - np.searchsorted(survivors, start))
        return total

    def seek(self, place: Place, step: int) -> Place | None:
        """Return the boundary before `step`, reached from `place` without reading data.

        Whole windows that the revision does not touch are jumped over. None where the walk ends
        before `step`.
        """
        while place.step < step - 1:
            taken = self.take(place)
            if taken is None:
                return None
            place = self._jump(taken.after, step - 1)
        return place

    def _jump(self, place: Place, limit: int) -> Place:
        """Go forward by whole steps inside one untouched window, at most to step `limit`."""
        order = self.order(place.epoch)
        window = order.window_of(place.position)
        if window == order.windows or (
            self.exclusion.mode == "compact" and self.exclusion.touches(order, window)
        ):
            return place
        size = self.schedule.size_at(place.step + 1)
        same = next(
            (first - 1 for first, _ in self.schedule.pairs if first > place.step + 1), limit
        )
        room = (int(order.window_starts[window + 1]) - place.position) // size
        steps = max(0, min(room, limit - place.step, same - place.step))
        return Place(place.step + steps, place.epoch, place.position + steps * size)

    def _collect(self, epoch: int, start: int, size: int) -> tuple[Int64Array, int]:
        """Return up to `size` surviving positions from `start` on, and where the search ended."""
        order = self.order(epoch)
        parts: list[Int64Array] = []
        missing, position = size, start
        while missing and (window := order.window_of(position)) < order.windows:
            survivors = self.survivors(epoch, window)
            first = int(np.searchsorted(survivors, position))
            part = survivors[first : first + missing]
            parts.append(part)
            missing -= part.size
            position = int(part[-1]) + 1 if not missing else int(order.window_starts[window + 1])
        return concatenate(parts), position

    def _order(self, epoch: int) -> EpochOrder:
        return EpochOrder(self.layout, epoch)

    def _window_survivors(self, epoch: int, window: int) -> Int64Array:
        return self.exclusion.survivors(self.order(epoch), window)


def _padded(positions: Int64Array, size: int) -> Int64Array:
    if positions.size == size:
        return positions
    return np.concatenate([positions, np.full(size - positions.size, -1, dtype=np.int64)])
