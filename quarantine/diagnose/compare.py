"""Two runs side by side: do they see the same data, and do they spike at the same steps?

How high a loss is, is mostly a property of its batch: published runs on the same data have
residuals with a rank correlation above .98, on other data about .01. Coincidence of events
between runs on the same data then tests whether the data did it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .events import Event
from .evidence import Twin
from .series import Series

TREND_POINTS = 33
LEAST_COMMON = 64
SAME_DATA = 0.5
OTHER_DATA = 0.15
NEAR_POINTS = 3
LEAST_INSIDE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two runs have in common.

    Attributes:
        common_points: Steps that both logged, with finite losses.
        correlation: Rank correlation of their residuals from a rolling median, or None.
        same_data: Whether they saw the same batches; None where it cannot be said.
        coinciding: Onsets in the first run at which the second has an event too.
        alone: Onsets in the first run at which the second has none.
        unclear: Onsets in the first run about which the second's log cannot say: it has too few
            points there, as where it logs every tenth step, or too few before, as where it
            begins at a checkpoint just before.
    """

    common_points: int
    correlation: float | None
    same_data: bool | None
    coinciding: tuple[int, ...]
    alone: tuple[int, ...]
    unclear: tuple[int, ...] = ()

    def twin(self, onset: int) -> Twin | None:
        """Return the evidence for the event at `onset`, None where the runs cannot say."""
        if self.same_data is None or onset not in (*self.coinciding, *self.alone):
            return None
        return Twin(same_data=self.same_data, coincides=onset in self.coinciding)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {
            "common_points": self.common_points,
            "correlation": self.correlation,
            "same_data": self.same_data,
            "coinciding": list(self.coinciding),
            "alone": list(self.alone),
            "unclear": list(self.unclear),
        }


def compare(
    first: Mapping[str, Series],
    second: Mapping[str, Series],
    first_events: Sequence[Event],
    second_events: Sequence[Event],
    *,
    least_before: int = LEAST_COMMON,
    warmup: int = 0,
) -> Comparison:
    """Return what two runs have in common, judged by their losses and their events.

    `least_before` is how many points the second's monitor needs before it judges, and `warmup` the
    last step that it does not judge.
    """
    steps, ours, theirs = _common(first["loss"], second["loss"])
    correlation = _correlation(ours, theirs)
    pages = [event for event in first_events if event.page]
    pages = [event for event in pages if len(steps) and steps[0] <= event.onset <= steps[-1]]
    reach = NEAR_POINTS * _spacing(steps)
    found: dict[str, list[int]] = {"coinciding": [], "alone": [], "unclear": []}
    for event in pages:
        both = any(
            other.onset - reach <= event.onset <= max(other.detected, other.onset) + reach
            for other in second_events
            if other.page
        )
        shows = event.onset > warmup and _could_show(
            event, first["loss"], second["loss"], least_before
        )
        found["coinciding" if both else "alone" if shows else "unclear"].append(event.onset)
    return Comparison(
        common_points=len(steps),
        correlation=correlation,
        same_data=_same(correlation),
        coinciding=tuple(found["coinciding"]),
        alone=tuple(found["alone"]),
        unclear=tuple(found["unclear"]),
    )


def _could_show(event: Event, ours: Series, theirs: Series, least_before: int) -> bool:
    """Whether the other log has the points that it takes to see such an event."""
    last = max(event.detected, event.end or 0)
    here, there = (
        int(((each.steps >= event.onset) & (each.steps <= last)).sum()) for each in (ours, theirs)
    )
    before = int((theirs.steps < event.onset).sum())
    return there >= min(here, LEAST_INSIDE) and before >= least_before


def _common(
    first: Series, second: Series
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    ours, theirs = _latest(first), _latest(second)
    steps = np.array(sorted(ours.keys() & theirs.keys()), dtype=np.int64)
    return (
        steps,
        np.array([ours[step] for step in steps.tolist()], dtype=np.float64),
        np.array([theirs[step] for step in steps.tolist()], dtype=np.float64),
    )


def _latest(series: Series) -> dict[int, float]:
    """Return the last finite value of every step."""
    finite = np.isfinite(series.values)
    return dict(zip(series.steps[finite].tolist(), series.values[finite].tolist(), strict=True))


def _correlation(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float | None:
    if len(ours) < max(LEAST_COMMON, TREND_POINTS):
        return None
    left, right = _ranks(_residuals(ours)), _ranks(_residuals(theirs))
    if left.std() == 0 or right.std() == 0:
        return None
    return float(np.corrcoef(left, right)[0, 1])


def _residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
    half = TREND_POINTS // 2
    padded = np.pad(values, half, mode="edge")
    trend = np.median(np.lib.stride_tricks.sliding_window_view(padded, TREND_POINTS), axis=1)
    return np.asarray(values - trend)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of `values`, ties sharing the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[place], dtype=np.float64)


def _same(correlation: float | None) -> bool | None:
    if correlation is None or OTHER_DATA <= correlation < SAME_DATA:
        return None
    return correlation >= SAME_DATA


def _spacing(steps: NDArray[np.int64]) -> int:
    return int(np.median(np.diff(steps))) if len(steps) > 1 else 1
