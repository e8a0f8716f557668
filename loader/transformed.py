"""A step's micro-batches through the user's transform; what it raises names the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .batch import Batch
from .errors import ShardwardError
from .plan import Plan
from .sample_seed import Transform, sample_seeds

_NAMED_POSITIONS = 8


def transformed(
    batches: Sequence[Batch],
    transform: Transform,
    plan: Plan,
    fail: Callable[[ShardwardError], None],
) -> Iterator[Batch]:
    """Yield each micro-batch as `transform` returns it.

    Args:
        batches: all micro-batches of a step.
        transform: the user's.
        plan: gives the seeds.
        fail: told before an error leaves here. The step stands as delivered, so a loader that went
            on would pass over what is left of it without a word.

    Raises:
        ShardwardError: the transform raised, or returned something else than a batch.
    """
    for batch in batches:
        try:
            made = transform(batch, sample_seeds(plan, batch.epoch, batch.positions))
            if not isinstance(made, Batch):
                raise TypeError(f"it returned a {type(made).__name__}, not a Batch")
        except BaseException as error:  # a transform is the user's code and may raise anything
            failure = ShardwardError(f"{_place(batch)}: {error!r}; {_REMEDY}")
            failure.__cause__ = error
            fail(failure)
            if isinstance(error, Exception):
                raise failure from error
            raise
        yield made


_REMEDY = "mend the transform, then make a new loader from the last checkpoint"


def _place(batch: Batch) -> str:
    positions = batch.positions.tolist()
    named = ", ".join(map(str, positions[:_NAMED_POSITIONS]))
    others = len(positions) - _NAMED_POSITIONS
    more = f" and {others} more" if others > 0 else ""
    return (
        f"the transform failed at step {batch.step}, micro-batch {batch.micro + 1} of "
        f"{batch.micros}, on the samples at positions {named}{more} of epoch {batch.epoch}"
    )
