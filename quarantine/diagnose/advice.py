"""Let it recover, or rewind? What an event has cost so far against what a rewind costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .confirm import HELDOUT_PREFIXES
from .directions import harm_of
from .events import Event
from .series import Series

LASTING = 0.01
AFTER_POINTS = 32
LEAST_AFTER = 8
# As the monitor ends an event.
CALM_Z, CALM_POINTS = 2.5, 3
LEAST_NOISE = 0.004


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do about an event, and why."""

    action: Literal["let it recover", "rewind", "wait"]
    reasons: tuple[str, ...]


def advise(event: Event, series: Mapping[str, Series], *, rewind_steps: int = 100) -> Advice:
    """Return whether to rewind or to let the run recover.

    A loss that came back to its trend and a held-out loss that did not suffer argue for letting
    it be; a divergence, a loss that is not finite or a level that stayed higher argue for the
    rewind, whose cost is `rewind_steps` plus the steps since the onset. An event without an end
    has ended where the losses that `series` has since then show it.
    """
    event = event if event.end is not None else event.changed(end=_end(event, series))
    if event.kind in ("divergence", "nonfinite") and event.end is None:
        return Advice(action="rewind", reasons=(f"a {event.kind} does not heal by itself",))
    if event.end is None:
        return Advice(action="wait", reasons=("the event is still going on",))
    lasting = _lasting_damage(event, series)
    if lasting:
        return Advice(action="rewind", reasons=tuple(lasting))
    cost = rewind_steps + max(event.end - event.onset, 1)
    back = f"the loss was back on its trend after {event.end - event.onset} steps"
    return Advice(
        action="let it recover", reasons=(back, f"a rewind would cost about {cost} steps")
    )


def _end(event: Event, series: Mapping[str, Series]) -> int | None:
    """Return the first of as many calm losses in a row as end an event, None without them."""
    loss = series.get("loss")
    if loss is None:
        return None
    before = loss.between(0, event.onset - 1)[-AFTER_POINTS:]
    later = loss.steps >= event.detected
    if len(before) < LEAST_AFTER or not later.any():
        return None
    level = float(np.median(before))
    spread = 1.4826 * float(np.median(np.abs(before - level)))
    calm = loss.values[later] < level + CALM_Z * max(spread, LEAST_NOISE * abs(level))
    runs = np.convolve(calm, np.ones(CALM_POINTS), "valid") == CALM_POINTS
    return int(loss.steps[later][: len(runs)][runs][0]) if runs.any() else None


def _lasting_damage(event: Event, series: Mapping[str, Series]) -> list[str]:
    assert event.end is not None
    reasons = []
    loss = series.get("loss")
    if loss is not None:
        before, after = _levels(loss, event.onset, event.end)
        if before and after and after > before * (1 + LASTING):
            reasons.append(f"the loss stayed at {after:.4g}, above the {before:.4g} before")
    for name, each in sorted(series.items()):
        if not name.startswith(HELDOUT_PREFIXES):
            continue
        earlier = each.between(0, event.onset - 1)
        later = each.between(event.end, int(each.steps.max(initial=0)))
        harm = harm_of(name, {})
        if harm is None or not len(earlier) or not len(later):
            continue
        if harm * (later[0] - earlier[-1]) > LASTING * abs(earlier[-1]):
            reasons.append(f"{name} went from {earlier[-1]:.4g} to {later[0]:.4g}")
    return reasons


def _levels(loss: Series, onset: int, end: int) -> tuple[float | None, float | None]:
    finite = np.isfinite(loss.values)
    before = loss.values[(loss.steps < onset) & finite][-AFTER_POINTS:]
    after = loss.values[(loss.steps >= end) & finite][:AFTER_POINTS]
    if len(before) < LEAST_AFTER or len(after) < LEAST_AFTER:
        return None, None
    return float(np.median(before)), float(np.median(after))
