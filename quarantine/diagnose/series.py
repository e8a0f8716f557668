"""A logged signal: steps and values, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One signal over steps; a step that did not log it is absent, a logged NaN is kept.

    `steps` is int64 [n], in the order of logging (a restart may step back); `values` is
    float64 [n].
    """

    name: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.steps.shape != self.values.shape or self.steps.ndim != 1:
            raise ValueError(
                f"series {self.name!r} has {self.steps.shape} steps and {self.values.shape} "
                "values; give two flat arrays of one length"
            )

    def __len__(self) -> int:
        return len(self.steps)

    def between(self, first: int, last: int) -> NDArray[np.float64]:
        """Return the finite values logged at steps first..last, both included."""
        inside = (self.steps >= first) & (self.steps <= last) & np.isfinite(self.values)
        return self.values[inside]
