"""How many steps an order holds, told from counts alone: exact, or estimated with its error.

What a revision passes over depends on the lengths in the windows it touches. Where it was counted
when the revision was published, the numbers are read. Reading a few hundred windows' lengths takes
a second; a revision of a million documents touches most windows of a large corpus, and then a
seeded sample of them is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import UsageError
from .passed import CountsReader, no_counts, touched_windows
from .permutation import Permutation, derive_key
from .walk import Place, Walker

EXACT_WINDOWS = 256
CONFIDENCE = 2.0
"""Standard errors in the stated error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """The last step of a walk.

    Attributes:
        last_step: counted from step 1.
        error: the true value lies within this many steps, with 95 % confidence; 0 is exact.
    """

    last_step: int
    error: int

    @property
    def exact(self) -> bool:
        """Whether the last step is known and not estimated."""
        return self.error == 0


def count_steps(
    walker: Walker,
    place: Place,
    *,
    counts: CountsReader = no_counts,
    windows: int = EXACT_WINDOWS,
) -> StepEstimate:
    """Return the last step of the walk's last epoch, reached from `place`.

    Args:
        walker: the order, the revision and the schedule.
        place: where the walk starts.
        counts: returns what the revision passes over in an epoch, where that was stored.
        windows: touched windows per epoch whose lengths may be read where it was not.

    Raises:
        UsageError: the epochs have no end.
    """
    if walker.epochs is None:
        raise UsageError("epochs have no end, so neither have steps; give a number of epochs")
    low = high = step = place.step
    start, sampled = place.position, False
    for epoch in range(place.epoch, walker.epochs):
        samples, error = _survivors(walker, epoch, start, counts, windows)
        step, low, high = (
            _consume(walker, count, before)
            for count, before in (
                (samples, step),
                (max(0, samples - error), low),
                (samples + error, high),
            )
        )
        start = 0
        sampled = sampled or error > 0
    return StepEstimate(last_step=step, error=max(int(sampled), high - step, step - low))


def _survivors(
    walker: Walker, epoch: int, start: int, counts: CountsReader, windows: int
) -> tuple[int, int]:
    """Return (samples that take a slot from position `start` on, error)."""
    order, exclusion = walker.order(epoch), walker.exclusion
    if exclusion.mode == "hold":
        return max(0, order.positions - start), 0
    first, stored = order.window_of(start), counts(epoch)
    if stored is not None and stored.fits(order):
        if first == order.windows:
            return 0, 0
        here = walker.survivors(epoch, first)
        behind = order.positions - int(order.window_starts[first + 1])
        ahead = behind - stored.between(first + 1, order.windows)
        return ahead + int(here.size - np.searchsorted(here, start)), 0
    touched = [window for window in touched_windows(order, exclusion) if window >= first]
    if len(touched) <= windows:
        return walker.count(epoch, start), 0
    key = derive_key(order.layout.plan.seed, epoch, len(touched))
    chosen = Permutation(len(touched), key).forward(np.arange(windows, dtype=np.int64))
    sizes = np.diff(order.window_starts)
    passed = np.array(
        [sizes[touched[n]] - exclusion.survivors(order, touched[n]).size for n in chosen.tolist()]
    )
    total = len(touched) * float(passed.mean())
    # Sampling without replacement: the variance shrinks with the share that was looked at.
    share = 1 - windows / len(touched)
    error = CONFIDENCE * len(touched) * float(passed.std()) * (share / windows) ** 0.5
    # Equal samples do not prove that the windows nobody looked at are equal too.
    return max(0, order.positions - start - round(total)), max(1, int(np.ceil(error)))


def _consume(walker: Walker, samples: int, step: int) -> int:
    """Return the step after which fewer than a batch of `samples` are left."""
    step, left = walker.schedule.advance(step, samples)
    return step + 1 if left and walker.end == "pad" else step
