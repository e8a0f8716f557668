"""Finding a later step at once, from what each window is known to pass over."""

from __future__ import annotations

import numpy as np

from .errors import IntegrityError
from .passed import CountsReader, PassedCounts
from .walk import Place, Walker


def leap(walker: Walker, place: Place, step: int, counts: CountsReader) -> Place | None:
    """Return the boundary before `step`, as `Walker.seek` does; None where the walk ends first.

    Epochs with stored counts take two windows' lengths, the others are walked.

    Raises:
        TopologyError: an epoch has fewer samples than one batch.
        IntegrityError: the counts are not those of a window.
    """
    while place.step < step - 1:
        if walker.epochs is not None and place.epoch >= walker.epochs:
            return None
        order, stored = walker.order(place.epoch), counts(place.epoch)
        if walker.exclusion.mode == "hold" or stored is None or not stored.fits(order):
            return walker.seek(place, step)
        before = stored.survivors_before(order)
        done = _survivors_to(walker, place, stored)
        left = int(before[-1]) - done
        reached, rest = walker.schedule.advance(place.step, left, last=step - 1)
        if reached == step - 1:
            return Place(
                reached, place.epoch, _end_of(walker, place.epoch, done + left - rest, stored)
            )
        if rest and walker.end == "pad":
            reached, rest = reached + 1, 0
            if reached == step - 1:
                return Place(reached, place.epoch, order.positions)
        if reached == place.step and place.position == 0:
            walker.take(place)  # raises: no batch fits this epoch
        place = Place(reached, place.epoch + 1, 0)
    return place


def _survivors_to(walker: Walker, place: Place, stored: PassedCounts) -> int:
    """Return how many samples before `place` in its epoch survive."""
    order = walker.order(place.epoch)
    before, window = stored.survivors_before(order), order.window_of(place.position)
    if window == order.windows:
        return int(before[-1])
    here = walker.survivors(place.epoch, window)
    return int(before[window] + np.searchsorted(here, place.position))


def _end_of(walker: Walker, epoch: int, count: int, stored: PassedCounts) -> int:
    """Return the position after the `count`-th surviving sample of the epoch, the first being 1."""
    before = stored.survivors_before(walker.order(epoch))
    window = int(np.searchsorted(before, count)) - 1
    here = walker.survivors(epoch, window)
    expected = int(before[window + 1] - before[window])
    if here.size != expected:
        raise IntegrityError(
            f"window {window} of epoch {epoch} has {here.size} surviving samples, the stored "
            f"counts of revision {stored.revision[:12]} say {expected}; remove them from the run's "
            "revisions/passed and publish again"
        )
    return int(here[count - int(before[window]) - 1]) + 1
