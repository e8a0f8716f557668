"""A logged signal: steps and values, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def rows_of(
    series: Mapping[str, Series], steps: NDArray[np.int64], rows: slice
) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (step, {name: value}) for `steps`, leaving out what was not logged there.

    `rows` is where `steps` lie in the series they come from; a series logged at the same steps
    is read by position, any other is searched.
    """
    columns = {name: _column(each, steps, rows) for name, each in series.items()}
    names = list(columns)
    for step, *row in zip(steps.tolist(), *columns.values(), strict=True):
        yield (
            step,
            {name: value for name, value in zip(names, row, strict=True) if value is not None},
        )


def _column(series: Series, steps: NDArray[np.int64], rows: slice) -> list[float | None]:
    if np.array_equal(series.steps[rows], steps):
        return list(series.values[rows].tolist())
    near = np.isin(series.steps, steps)
    known = dict(zip(series.steps[near].tolist(), series.values[near].tolist(), strict=True))
    return [known.get(step) for step in steps.tolist()]
