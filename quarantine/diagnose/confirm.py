"""Do other signals agree that a run was hurt? A checklist, with "insufficient" as an answer.

A jump of the loss alone is a claim, not a finding: it is confirmed when the gradient norm, the
clip rate, the loss of a source or the held-out loss moved with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .directions import Direction, harm_of
from .events import Event
from .series import Series

Verdict = Literal["confirmed", "unconfirmed", "insufficient"]

SOURCE_PREFIX = "loss/"
HELDOUT = "heldout_loss"
HELDOUT_PREFIXES = ("heldout_loss", "heldout/", "eval/")
REFERENCE_POINTS = 64
LEAST_POINTS = 8
AGREES_Z = 5.0
GRADIENT_RATIO = 1.5
CLIP_RISE = 0.2
HELDOUT_RISE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One signal's answer: True (it agrees), False (it does not), None (it cannot say).

    `value` is the signal in the event (its extreme), `baseline` its level before it.
    """

    signal: str
    agrees: bool | None
    value: float | None
    baseline: float | None
    note: str

    def to_json(self) -> dict[str, Any]:
        """Return the check as JSON."""
        return {
            "signal": self.signal,
            "agrees": self.agrees,
            "value": self.value,
            "baseline": self.baseline,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Checklist:
    """All the answers, and what they amount to."""

    verdict: Verdict
    items: tuple[Check, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the checklist as JSON."""
        return {"verdict": self.verdict, "items": [item.to_json() for item in self.items]}


def confirm(
    event: Event,
    series: Mapping[str, Series],
    evals: Mapping[str, Series] | None = None,
    *,
    worse: Mapping[str, Direction] | None = None,
) -> Checklist:
    """Return which signals agree with `event`.

    Args:
        event: What the monitor reported.
        series: The run's telemetry by name: "loss", "grad_norm", "clip_rate" and, for each
            source, "loss/NAME".
        evals: Held-out metrics by name; those among `series` ("heldout_loss...") are used too.
        worse: Whether "higher" or "lower" is worse for a metric, where its name does not say
            (see `directions`); a metric of which neither is known cannot answer.

    The verdict is `confirmed` when the loss and at least one other signal agree,
    `unconfirmed` when others could answer and none agrees (or the loss itself does not), and
    `insufficient` when nothing but the loss could answer.
    """
    last = last_step(event)
    items = [
        _risen("loss", series.get("loss"), event.onset, last),
        _gradient(series.get("grad_norm"), event.onset, last),
        _clip_rate(series.get("clip_rate"), event.onset, last),
        _sources(series, event.onset, last),
    ]
    items += _heldout(series, evals or {}, event.onset, last, worse or {})
    return Checklist(verdict=_verdict(items), items=tuple(items))


def _verdict(items: list[Check]) -> Verdict:
    loss, others = items[0], items[1:]
    if loss.agrees is None or all(item.agrees is None for item in others):
        return "insufficient"
    if loss.agrees and any(item.agrees for item in others):
        return "confirmed"
    return "unconfirmed"


def _before(series: Series, onset: int) -> NDArray[np.float64]:
    earlier = series.values[(series.steps < onset) & np.isfinite(series.values)]
    return earlier[-REFERENCE_POINTS:]


def _unanswered(signal: str, note: str) -> Check:
    return Check(signal=signal, agrees=None, value=None, baseline=None, note=note)


def _risen(signal: str, series: Series | None, onset: int, last: int) -> Check:
    if series is None:
        return _unanswered(signal, "not logged")
    reference = _before(series, onset)
    logged = series.values[(series.steps >= onset) & (series.steps <= last)]
    if len(reference) < LEAST_POINTS or not len(logged):
        return _unanswered(signal, f"{len(reference)} points before the event are too few")
    level, noise = _level(reference)
    if not np.isfinite(logged).all():
        return Check(
            signal=signal, agrees=True, value=None, baseline=level, note="it is not finite"
        )
    value = float(logged.max())
    z = (value - level) / noise
    return Check(
        signal=signal,
        agrees=z > AGREES_Z,
        value=value,
        baseline=level,
        note=f"{z:.1f} standard deviations over its level before the event",
    )


def _level(reference: NDArray[np.float64]) -> tuple[float, float]:
    """Return the level before an event and the noise around it.

    The level is the median of the later half. A loss that falls fast early in a run would take its
    own fall for noise, so a falling line through the medians of both halves is taken off first; a
    rising one is not, since it may belong to the event.
    """
    half = len(reference) // 2
    early, late = float(np.median(reference[:half])), float(np.median(reference[half:]))
    fall = min(0.0, late - early) / (len(reference) / 2)
    flat = reference - fall * np.arange(len(reference))
    spread = 1.4826 * float(np.median(np.abs(flat - np.median(flat))))
    level = late if late < early else float(np.median(reference))
    return level, max(spread, 0.004 * abs(level), 1e-12)


def _gradient(series: Series | None, onset: int, last: int) -> Check:
    check = _risen("grad_norm", series, onset, last)
    if check.value is None or check.baseline is None or check.baseline <= 0:
        return check
    ratio = check.value / check.baseline
    return Check(
        signal="grad_norm",
        agrees=bool(check.agrees) and ratio >= GRADIENT_RATIO,
        value=check.value,
        baseline=check.baseline,
        note=f"{ratio:.1f} times its level before the event",
    )


def _clip_rate(series: Series | None, onset: int, last: int) -> Check:
    if series is None:
        return _unanswered("clip_rate", "not logged")
    reference, inside = _before(series, onset), series.between(onset, last)
    if len(reference) < LEAST_POINTS or not len(inside):
        return _unanswered("clip_rate", "too few points")
    before, during = float(reference.mean()), float(inside.mean())
    if before > 1 - CLIP_RISE:
        return Check(
            signal="clip_rate",
            agrees=None,
            value=during,
            baseline=before,
            note="nearly every step was clipped before, so it cannot rise",
        )
    return Check(
        signal="clip_rate",
        agrees=during - before >= CLIP_RISE,
        value=during,
        baseline=before,
        note=f"{during:.0%} of the steps clipped, {before:.0%} before",
    )


def last_step(event: Event) -> int:
    """Return the last step of an event as far as it is known."""
    return max(event.detected, event.end or 0)


def source_checks(series: Mapping[str, Series], onset: int, last: int) -> dict[str, Check]:
    """Return what the training loss of each source did in the event, by name of the source."""
    return {
        name[len(SOURCE_PREFIX) :]: _risen(name, each, onset, last)
        for name, each in series.items()
        if name.startswith(SOURCE_PREFIX)
    }


def _sources(series: Mapping[str, Series], onset: int, last: int) -> Check:
    checks = source_checks(series, onset, last)
    answered = {name: check for name, check in checks.items() if check.agrees is not None}
    if not answered:
        return _unanswered("source_loss", "not logged" if not checks else "too few points")
    moved = sorted(name for name, check in answered.items() if check.agrees)
    largest = max(answered.values(), key=_rise)
    note = f"{len(moved)} of {len(answered)} sources rose"
    return Check(
        signal="source_loss",
        agrees=bool(moved),
        value=largest.value,
        baseline=largest.baseline,
        note=f"{note}: {', '.join(moved[:5])}" if moved else note,
    )


def _rise(check: Check) -> float:
    if check.value is None or check.baseline is None:
        return math.inf
    return check.value - check.baseline


def _heldout(
    series: Mapping[str, Series],
    evals: Mapping[str, Series],
    onset: int,
    last: int,
    worse: Mapping[str, Direction],
) -> list[Check]:
    found = {name: each for name, each in series.items() if name.startswith(HELDOUT_PREFIXES)}
    found.update(evals)
    if not found:
        return [_unanswered(HELDOUT, "not logged")]
    return [
        _nearest(name, each, onset, last, harm_of(name, worse))
        for name, each in sorted(found.items())
    ]


def _nearest(name: str, series: Series, onset: int, last: int, harm: int | None) -> Check:
    """Compare the last evaluation before the event with the first one in or after it.

    `harm` is 1 for a metric that is worse when higher, -1 for one that is worse when lower.
    """
    if harm is None:
        return _unanswered(name, "nothing says whether high or low is worse for it")
    finite = np.isfinite(series.values)
    earlier = np.flatnonzero((series.steps < onset) & finite)
    later = np.flatnonzero((series.steps >= onset) & finite)
    if not len(earlier) or not len(later):
        side = "before" if not len(earlier) else "after"
        return _unanswered(name, f"no evaluation {side} step {onset}")
    before, after = float(series.values[earlier[-1]]), float(series.values[later[0]])
    first = int(series.steps[later[0]])
    worse = harm * (after - before) > HELDOUT_RISE * abs(before)
    if first > last + (last - onset) + 1 and not worse:
        return _unanswered(name, f"the next evaluation, at step {first}, is too late to tell")
    return Check(
        signal=name,
        agrees=worse,
        value=after,
        baseline=before,
        note=f"step {int(series.steps[earlier[-1]])} against step {first}",
    )
