"""The watch after a resume: what is looked at, how long, and what is a recurrence. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ...loader.errors import IncidentError

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
    """`verdict` is clear, recurrence or running; `strikes` are (step, signal, value)."""

    verdict: str
    seen_to: int
    strikes: tuple[tuple[int, str, float], ...]
    levels: Mapping[str, float]
    reason: str

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
    spread is floored at 0.4 % of the level, since rounded logs collapse it.

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
            thresholds.append(
                Threshold(
                    signal=signal, ceiling=middle + sigmas * spread, level=middle + 3 * spread
                )
            )
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


def evaluate_watch(plan: WatchPlan, signals: Mapping[str, Series]) -> WatchResult:
    """Return how the watch stands, given each signal's values by step.

    A value that is not finite is a strike. The verdict is `running` until every watched signal
    has reached the last step.
    """
    strikes: list[tuple[int, str, float]] = []
    levels: dict[str, float] = {}
    seen, slowest = plan.last, ""
    for threshold in plan.thresholds:
        values = _inside(plan, signals.get(threshold.signal, {}))
        over = [not math.isfinite(v) or v > threshold.ceiling for _, v in values]
        strikes += [
            (s, threshold.signal, v) for (s, v), bad in zip(values, over, strict=True) if bad
        ]
        reached = values[-1][0] if values else plan.first - 1
        if reached < seen:
            seen, slowest = reached, threshold.signal
        tail = [v for _, v in values[-max(3, len(values) // 4) :] if math.isfinite(v)]
        levels[threshold.signal] = median(tail) if tail else math.inf
        if _in_a_row(over) >= plan.rollback_after:
            return _result("recurrence", seen, strikes, levels, f"{threshold.signal} struck again")
    if seen < plan.last:
        reason = f"{slowest} was seen to step {seen} of {plan.last}"
        return _result("running", seen, strikes, levels, reason)
    high = [t.signal for t in plan.thresholds if levels[t.signal] > t.level]
    if high:
        reason = f"{', '.join(high)} did not come back to the trend before the onset"
        return _result("recurrence", seen, strikes, levels, reason)
    return _result("clear", seen, strikes, levels, "no recurrence, back on the trend")


def _result(
    verdict: str,
    seen: int,
    strikes: Sequence[tuple[int, str, float]],
    levels: Mapping[str, float],
    reason: str,
) -> WatchResult:
    return WatchResult(
        verdict=verdict, seen_to=seen, strikes=tuple(strikes), levels=levels, reason=reason
    )


def _inside(plan: WatchPlan, series: Series) -> list[tuple[int, float]]:
    return sorted((s, v) for s, v in series.items() if plan.first <= s <= plan.last)


def _in_a_row(over: Sequence[bool]) -> int:
    """Return the longest run of True; logged points count, since logs may skip steps."""
    best = run = 0
    for bad in over:
        run = run + 1 if bad else 0
        best = max(best, run)
    return best
