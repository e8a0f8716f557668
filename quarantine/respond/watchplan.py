"""The watch after a resume: what is looked at, how long, and what is a recurrence. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ...loader.errors import IncidentError

LOSS = "loss"
MAD_TO_SIGMA = 1.4826
# A level this far over the old trend at the window's end is not "back on the trend".
SMALLEST_SPREAD = 0.004


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Bounds of one signal: `ceiling` for single steps, `level` for the end of the window."""

    signal: str
    ceiling: float
    level: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ceiling) and math.isfinite(self.level)):
            raise IncidentError(f"the thresholds of {self.signal} must be finite numbers")

    def to_json(self) -> dict[str, Any]:
        """Return the threshold as a JSON object."""
        return {"signal": self.signal, "ceiling": self.ceiling, "level": self.level}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPlan:
    """Watch steps `first`..`last`; roll back when `rollback_after` steps in a row are over."""

    first: int
    last: int
    thresholds: tuple[Threshold, ...]
    rollback_after: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last or self.rollback_after < 1 or not self.thresholds:
            raise IncidentError(
                f"a watch over steps {self.first} to {self.last} with "
                f"{len(self.thresholds)} thresholds and roll-back after {self.rollback_after} "
                "steps watches nothing"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return {
            "first": self.first,
            "last": self.last,
            "thresholds": [t.to_json() for t in self.thresholds],
            "rollback_after": self.rollback_after,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> WatchPlan:
        """Return the plan `to_json` gave, perhaps edited since.

        Raises:
            IncidentError: a field is missing or of the wrong type.
        """
        try:
            return cls(
                first=int(value["first"]),
                last=int(value["last"]),
                thresholds=tuple(
                    Threshold(
                        signal=str(t["signal"]),
                        ceiling=float(t["ceiling"]),
                        level=float(t["level"]),
                    )
                    for t in value["thresholds"]
                ),
                rollback_after=int(value.get("rollback_after", 2)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise IncidentError(f"the watch plan is malformed ({error})") from error

    def describe(self) -> str:
        """Return the plan as one sentence."""
        bounds = "; ".join(
            f"{t.signal} over {t.ceiling:.4g} is a strike, its median must end below {t.level:.4g}"
            for t in self.thresholds
        )
        return (
            f"watch steps {self.first} to {self.last}: {bounds}; "
            f"{self.rollback_after} strikes in a row roll back"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchResult:
    """`verdict` is clear, recurrence or running; `strikes` are (step, signal, value).

    A recurrence has an `onset` and the step at which it was `detected`.
    """

    verdict: str
    seen_to: int
    strikes: tuple[tuple[int, str, float], ...]
    levels: Mapping[str, float]
    reason: str
    onset: int | None = None
    detected: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object; values that are not finite become strings."""
        return {
            "verdict": self.verdict,
            "seen_to": self.seen_to,
            "strikes": [
                {"step": s, "signal": name, "value": v if math.isfinite(v) else str(v)}
                for s, name, v in self.strikes
            ],
            "levels": {k: v for k, v in self.levels.items() if math.isfinite(v)},
            "reason": self.reason,
        }


Series = Mapping[int, float]


def generate_watch_plan(
    before: Mapping[str, Series],
    *,
    resume_step: int,
    length: int = 500,
    sigmas: float = 6.0,
    signals: Sequence[str] = ("loss", "grad_norm"),
    rollback_after: int = 2,
) -> WatchPlan:
    """Return a plan whose thresholds come from the healthy steps `before` the onset.

    `ceiling` is median + `sigmas` robust standard deviations, `level` median + 3 of them. The
    spread is floored at 0.4 % of the level, since rounded logs collapse it. Signals other than the
    loss have heavy tails: their ceiling is not below the largest healthy value.

    Raises:
        IncidentError: no signal has eight finite values to learn from.
    """
    thresholds = []
    for signal in signals:
        values = [v for v in before.get(signal, {}).values() if math.isfinite(v)]
        if len(values) >= 8:
            middle = median(values)
            spread = MAD_TO_SIGMA * median(abs(v - middle) for v in values)
            spread = max(spread, SMALLEST_SPREAD * abs(middle))
            ceiling = middle + sigmas * spread
            if signal != LOSS:
                ceiling = max(ceiling, *values)
            thresholds.append(Threshold(signal=signal, ceiling=ceiling, level=middle + 3 * spread))
    if not thresholds:
        raise IncidentError(
            f"none of {', '.join(signals)} has eight healthy values before the onset; "
            "give the watch plan by hand"
        )
    return WatchPlan(
        first=resume_step + 1,
        last=resume_step + length,
        thresholds=tuple(thresholds),
        rollback_after=rollback_after,
    )


def evaluate_watch(
    plan: WatchPlan, signals: Mapping[str, Series], *, final: bool = False
) -> WatchResult:
    """Return how the watch stands, given each signal's values by step.

    With `final` the run is over: what was seen is all there will be, and it is judged.

    A loss that is not finite is a strike; another signal that is not finite counts as not logged,
    as in the monitor, since a loss scale that is searched for overflows. Where the loss is watched
    too, another signal makes a recurrence only beside a loss over its level: gradient norms strike
    twice in a row on healthy runs. The verdict is `running` until every watched signal was logged
    at or after the last step.

    Raises:
        IncidentError: the run is over and nothing that is watched was seen.
    """
    witness = _risen_loss(plan, signals)
    judged = [
        _judge(plan, each, signals.get(each.signal, {}), witness if each.signal != LOSS else None)
        for each in plan.thresholds
    ]
    strikes = tuple(strike for each in judged for strike in each.strikes)
    levels = {each.signal: each.level for each in judged}
    slowest = min(judged, key=lambda each: each.seen_to)

    def result(verdict: str, reason: str, from_to: tuple[int, int] | None = None) -> WatchResult:
        onset, detected = from_to or (None, None)
        return WatchResult(
            verdict=verdict,
            seen_to=slowest.seen_to,
            strikes=strikes,
            levels=levels,
            reason=reason,
            onset=onset,
            detected=detected,
        )

    struck = [each for each in judged if each.struck]
    if struck:
        first = min(struck, key=lambda each: each.struck or (0, 0))
        return result("recurrence", f"{first.signal} struck again", first.struck)
    if slowest.seen_to < plan.last and not final:
        return result("running", _to_come(plan, slowest))
    if all(math.isnan(each.level) for each in judged):
        named = ", ".join(levels)
        if final:
            raise IncidentError(
                f"none of {named} was logged in steps {plan.first} to {plan.last}, so the watch "
                "saw nothing and cannot end; let the run go on, or leave the incident (escalate)"
            )
        return result("running", f"{named} was not logged in steps {plan.first} to {plan.last}")
    high = [each for each in judged if each.high and (each.signal == LOSS or witness is None)]
    if high:
        named = ", ".join(each.signal for each in high)
        reason = f"{named} did not come back to the trend before the onset"
        return result("recurrence", reason, min(each.high or (0, 0) for each in high))
    ended = max(each.seen_to for each in judged)
    early = f" to step {ended}, where the run ended" if final and ended < plan.last else ""
    return result("clear", f"no recurrence, back on the trend{early}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """One signal: `struck` and `high` are (onset, last step), None where it is not so."""

    signal: str
    strikes: tuple[tuple[int, str, float], ...]
    level: float
    seen_to: int
    struck: tuple[int, int] | None
    high: tuple[int, int] | None


def _to_come(plan: WatchPlan, slowest: _Judged) -> str:
    if slowest.seen_to < plan.first:
        return f"waits for the first {slowest.signal} of step {plan.first} or later"
    return f"{slowest.signal} was seen to step {slowest.seen_to} of {plan.last}"


def _risen_loss(plan: WatchPlan, signals: Mapping[str, Series]) -> set[int] | None:
    """Return the steps at which the loss is over its level; None if the loss is not watched."""
    for threshold in plan.thresholds:
        if threshold.signal == LOSS:
            series = signals.get(LOSS, {})
            return {step for step, loss in series.items() if not loss <= threshold.level}
    return None


def _judge(
    plan: WatchPlan, threshold: Threshold, series: Series, witness: set[int] | None
) -> _Judged:
    name = threshold.signal
    values = [
        (s, v)
        for s, v in sorted(series.items())
        if plan.first <= s <= plan.last and (name == LOSS or math.isfinite(v))
    ]
    bad = [(s, v) for s, v in values if not (math.isfinite(v) and v <= threshold.ceiling)]
    level = _level(values)
    return _Judged(
        signal=name,
        strikes=tuple((s, name, v) for s, v in bad),
        level=level,
        # A log of every k-th step may have no row at the last step, but has one after it.
        seen_to=min(max([plan.first - 1, *series]), plan.last),
        struck=next(
            (
                row
                for row in _rows([s for s, _ in values], {s for s, _ in bad}, plan.rollback_after)
                if witness is None or any(row[0] - 1 <= s <= row[1] + 1 for s in witness)
            ),
            None,
        ),
        high=_high(values, threshold.level) if level > threshold.level else None,
    )


def _level(values: Sequence[tuple[int, float]]) -> float:
    """Return the median at the end; infinite if nothing there is finite, NaN without values."""
    tail = [v for _, v in values[-_quarter(values) :] if math.isfinite(v)]
    return median(tail) if tail else math.inf if values else math.nan


def _high(values: Sequence[tuple[int, float]], level: float) -> tuple[int, int]:
    """Return where the signal last left the trend, in quarters from the end, and its last step."""
    size = _quarter(values)
    start = max(len(values) - size, 0)
    while start > 0 and _level(values[max(start - size, 0) : start]) > level:
        start = max(start - size, 0)
    return values[start][0], values[-1][0]


def _quarter(values: Sequence[tuple[int, float]]) -> int:
    return max(3, len(values) // 4)


def _rows(steps: Sequence[int], bad: set[int], wanted: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each stretch of at least `wanted` bad points in a row.

    Logged points count, since logs may skip steps.
    """
    row: list[int] = []
    for step in [*steps, None]:
        if step in bad and step is not None:
            row.append(step)
        else:
            if len(row) >= wanted:
                yield row[0], row[-1]
            row = []
