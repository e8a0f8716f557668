"""How many steps an order holds, told from counts alone."""

from __future__ import annotations

from .errors import UsageError
from .schedule import BatchSchedule
from .walk import EpochEnd, Place, Walker


def last_step(walker: Walker, place: Place) -> int:
    """Return the last step of the walk's last epoch, reached from `place`; exact.

    Lengths are read for those windows only that the revision touches.

    Raises:
        UsageError: the epochs have no end.
    """
    if walker.epochs is None:
        raise UsageError("epochs have no end, so neither have steps; give a number of epochs")
    step, start = place.step, place.position
    for epoch in range(place.epoch, walker.epochs):
        step = _consume(walker.count(epoch, start), step, walker.schedule, walker.end)
        start = 0
    return step


def _consume(samples: int, step: int, schedule: BatchSchedule, end: EpochEnd) -> int:
    """Return the step after which fewer than a batch of `samples` are left."""
    while samples >= (size := schedule.size_at(step + 1)):
        change = next((first for first, _ in schedule.pairs if first > step + 1), None)
        steps = samples // size if change is None else min(samples // size, change - step - 1)
        step, samples = step + steps, samples - steps * size
    return step + 1 if samples and end == "pad" else step
