"""Batch sizes over a run: constant, or changing at given steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSchedule:
    """Global batch size per step, as `(first step, samples)` pairs in increasing order."""

    pairs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        firsts = [first for first, _ in self.pairs]
        if not firsts or firsts[0] != 1 or firsts != sorted(set(firsts)):
            raise ValueError(f"a schedule starts at step 1 and its steps increase, not {firsts}")
        if min(size for _, size in self.pairs) < 1:
            raise ValueError("a global batch holds at least one sample")

    @classmethod
    def of(cls, batch: SupportsIndex | Sequence[tuple[int, int]] | BatchSchedule) -> BatchSchedule:
        """Return `batch` as a schedule; an integer is the same size at every step."""
        if isinstance(batch, BatchSchedule):
            return batch
        if isinstance(batch, SupportsIndex):
            return cls(pairs=((1, index(batch)),))
        try:
            pairs = tuple((index(first), index(size)) for first, size in batch)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"a batch is a number of samples, or (first step, samples) pairs, not {batch!r}"
            ) from error
        return cls(pairs=pairs)

    def size_at(self, step: int) -> int:
        """Return the global batch, in samples, of `step`."""
        return self.pairs[bisect_right(self.pairs, step, key=lambda pair: pair[0]) - 1][1]

    def sizes(self) -> tuple[int, ...]:
        """Return every size that the schedule uses."""
        return tuple(size for _, size in self.pairs)

    def advance(self, step: int, samples: int, *, last: int | None = None) -> tuple[int, int]:
        """Return (step, samples left) after as many whole steps as `samples` fill.

        Args:
            step: the last step done.
            samples: surviving samples ahead.
            last: go no further than this step.
        """
        while (last is None or step < last) and samples >= (size := self.size_at(step + 1)):
            ends = [first - 1 for first, _ in self.pairs if first > step + 1][:1]
            ends += [] if last is None else [last]
            steps = min([samples // size, *(end - step for end in ends)])
            step, samples = step + steps, samples - steps * size
        return step, samples
