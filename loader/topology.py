"""Who reads what: data-parallel ranks, their replicas, and the split of a step's samples."""

from __future__ import annotations

from dataclasses import dataclass

from .arrays import Int64Array
from .errors import TopologyError

MOST_PROCESSES = 1 << 17
"""More ranks and replicas than any job has; a journal is looked for under the name of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One process's place among the data-parallel ranks.

    Tensor, pipeline and context peers read the same samples: they are `replicas` of one `dp_rank`.
    """

    dp_rank: int = 0
    dp_size: int = 1
    replica: int = 0
    replicas: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.dp_rank < self.dp_size:
            raise ValueError(f"dp_rank {self.dp_rank} is outside 0..{self.dp_size - 1}")
        if not 0 <= self.replica < self.replicas:
            raise ValueError(f"replica {self.replica} is outside 0..{self.replicas - 1}")
        if self.processes > MOST_PROCESSES:
            raise ValueError(
                f"{self.dp_size} ranks with {self.replicas} replicas are {self.processes} "
                f"processes; {MOST_PROCESSES} are the most"
            )

    @property
    def processes(self) -> int:
        """Number of processes in the job."""
        return self.dp_size * self.replicas

    def check(self, batch: int, micros: int) -> None:
        """Refuse a global batch that does not split evenly.

        Raises:
            TopologyError: naming the nearest valid batch sizes.
        """
        if micros < 1:
            raise TopologyError(f"micros is {micros}; a step has at least one micro-batch")
        unit = self.dp_size * micros
        if batch >= 1 and batch % unit == 0:
            return
        below = batch // unit * unit
        valid = f"{below} or {below + unit}" if below > 0 else f"{unit}"
        raise TopologyError(
            f"a global batch of {batch} samples does not split over {self.dp_size} data-parallel "
            f"ranks x {micros} micro-batches; the nearest valid batch is {valid}"
        )

    def slice(self, positions: Int64Array) -> Int64Array:
        """Return this rank's equal share of a step's positions, int64[batch / dp_size]."""
        share = positions.size // self.dp_size
        return positions[self.dp_rank * share : (self.dp_rank + 1) * share]
