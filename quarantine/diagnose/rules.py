"""What a rule says, and the arithmetic that several rules share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .confirm import last_step as last_known
from .events import Event
from .evidence import Evidence
from .series import Series

REFERENCE_POINTS = 128
# No rise that pages stays below this many standard deviations.
CALM = 1.0
# A loss this many standard deviations over its level has clearly left it.
CLEAR = 5.0
LEAST_NOISE = 0.004
NOISE_POINTS = 32
RECENT = 5
# Rows at most so many steps apart hide no cause that grows.
CLOSE = 2
# Context moves with the step itself; what the model does in answer moves at the onset too.
CONTEXT = {"replicas": "checksum_mismatch", "loss scale": "loss_scale", "source shares": "share"}
MODEL = {
    "attention logits": "attention_logit",
    "output logits": "output_lse",
    "rare embedding rows": "rare_update_ratio",
    "update ratios": "update_ratio",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """One statement for (positive weight) or against (negative) a cause, in log odds.

    It is `direct` where it was seen in the cause itself, such as a rate that rose, and not in
    what the loss did, by elimination, or in what may as well be an effect.
    """

    cause: str
    weight: float
    text: str
    direct: bool = True


Rule = Callable[[Evidence], Iterator[Voice]]


def say(cause: str, weight: float, text: str, *, direct: bool = True) -> Voice:
    """Return a voice."""
    return Voice(cause=cause, weight=weight, text=text, direct=direct)


def last_step(evidence: Evidence) -> int:
    """Return the last step of the event that is known so far."""
    return last_known(evidence.event)


def loss_left(evidence: Evidence) -> int:
    """Return the first step at which the loss is clearly off its level.

    The onset may lie before it: another signal led, or a point that happened to be high. What
    caused the event was there before this step, and what is seen from it on may be its effect.
    """
    found = _loss_off(evidence)
    return evidence.event.onset if found is None or not len(found) else int(found[0])


def loss_stayed(evidence: Evidence) -> bool:
    """Whether the loss is known and was never clearly off its level, nor paged for."""
    found = _loss_off(evidence)
    paged = math.isfinite(evidence.event.z)  # an event that a person opened has no height
    return found is not None and not len(found) and not paged


def _loss_off(evidence: Evidence) -> NDArray[np.int64] | None:
    """Return the steps of the event at which the loss is off its level, None if it is not known."""
    event, loss = evidence.event, evidence.series.get("loss")
    noise = None if loss is None else noise_before(loss, event.onset, NOISE_POINTS)
    level = None if loss is None else level_before(loss, event.onset, NOISE_POINTS)
    if loss is None or noise is None or level is None:
        return None
    # An event that a person opened has no baseline.
    level = event.baseline if math.isfinite(event.baseline) else level
    height = CLEAR * max(noise, LEAST_NOISE * abs(level))
    inside = (loss.steps >= event.onset) & (loss.steps <= last_step(evidence))
    steps, values = loss.steps[inside], loss.values[inside]
    return steps[~np.isfinite(values) | (values > level + height)] if len(steps) else None


def measures_nothing(event: Event) -> bool:
    """Whether the event is a loss that fell to nothing or froze, and so is no rise."""
    return event.kind == "divergence" and event.peak_step == event.detected and event.z < CALM


def level_before(series: Series, step: int, points: int = REFERENCE_POINTS) -> float | None:
    """Return the median of the last finite values before `step`; None below four of them."""
    values = series.values[(series.steps < step) & np.isfinite(series.values)][-points:]
    return float(np.median(values)) if len(values) >= 4 else None


def noise_before(series: Series, step: int, points: int = REFERENCE_POINTS) -> float | None:
    """Return the robust standard deviation of the last finite values before `step`."""
    values = series.values[(series.steps < step) & np.isfinite(series.values)][-points:]
    if len(values) < 4:
        return None
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def row_before(evidence: Evidence, step: int) -> int | None:
    """Return the last step before `step` at which the loss was logged, None if there is none."""
    loss = evidence.series.get("loss")
    before = None if loss is None else loss.steps[loss.steps < step]
    return None if before is None or not len(before) else int(before.max())


def of_kind(evidence: Evidence, prefix: str) -> list[Series]:
    """Return the series of one kind, such as those of each layer."""
    return [each for name, each in evidence.series.items() if name.split("/")[0] == prefix]


def stood(series: Series, onset: int, last: int, points: int = 64) -> bool:
    """Whether the values of the steps up to `last` are like the `points` before them."""
    earlier = series.between(0, onset - RECENT - 1)[-points:]
    late = series.between(onset - RECENT, last)
    if len(earlier) < 8 or not len(late):
        return True
    middle, reach = float(np.median(earlier)), float(np.ptp(earlier))
    return bool(np.abs(late - middle).max() <= 2 * reach + 0.05 * abs(middle) + 1e-12)
