"""Telemetry for confirming and watching: from the ledger, as series and as values by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import MissingExtra
from ..diagnose.events import KINDS, Event
from ..diagnose.series import Series
from .curves import curves_json, curves_png

if TYPE_CHECKING:
    from ..ledger.ledger import Ledger
    from .incident import Incident

PICTURED = ("loss", "grad_norm", "clip_rate")


def ledger_series(
    ledger: Ledger, branch: int | None = None, *, last: int | None = None
) -> dict[str, Series]:
    """Return every signal of a history (the head's by default) as a series, up to step `last`."""
    rows = ledger.telemetry(branch=branch)
    steps, values = rows["step"].to_numpy(), rows["value"].to_numpy()
    names = np.array(rows["name"].to_pylist(), dtype=object)
    inside = np.ones(steps.size, bool) if last is None else steps <= last
    return {
        name: Series(
            name=name,
            steps=steps[chosen].astype(np.int64),
            values=values[chosen].astype(np.float64),
        )
        for name in sorted(set(names[inside].tolist()))
        if (chosen := inside & (names == name)).any()
    }


def by_step(series: Mapping[str, Series]) -> dict[str, dict[int, float]]:
    """Return the values of each signal by step, without what the log itself superseded.

    Where a log steps back to step s, the run was rewound: its earlier rows from s on are of a
    branch that was left.
    """
    found: dict[str, dict[int, float]] = {}
    for name, each in series.items():
        values: dict[int, float] = {}
        for step, value in zip(each.steps.tolist(), each.values.tolist(), strict=True):
            while values and next(reversed(values)) >= step:
                values.popitem()
            values[step] = value
        found[name] = values
    return found


def standing(series: Mapping[str, Series]) -> dict[str, Series]:
    """Return the series of a log without the rows that it superseded; see `by_step`."""
    return {
        name: Series(
            name=name,
            steps=np.fromiter(values.keys(), np.int64, len(values)),
            values=np.fromiter(values.values(), np.float64, len(values)),
        )
        for name, values in by_step(series).items()
    }


def panels(
    series: Mapping[str, Series], *, first: int, last: int
) -> dict[str, list[list[float | None]]]:
    """Return the points of each signal in steps `first`..`last`, frozen as JSON."""
    frozen: dict[str, list[list[float | None]]] = {}
    for name, each in series.items():
        pairs = zip(each.steps.tolist(), each.values.tolist(), strict=True)
        points = [[s, v if np.isfinite(v) else None] for s, v in pairs if first <= s <= last]
        if points:
            frozen[name] = points
    return frozen


def panel_pictures(
    series: Mapping[str, Series], *, onset: int, detected: int, first: int, last: int
) -> dict[str, bytes]:
    """Return the panels as a PNG under the name "panels"; nothing without matplotlib."""
    shown = {
        name: {s: v for s, v in values.items() if first <= s <= last}
        for name, values in by_step(series).items()
        if name in PICTURED
    }
    report = {
        "curves": curves_json({"run": {name: values for name, values in shown.items() if values}}),
        "detection": {"onset": onset, "detected": detected},
    }
    try:
        return {"panels": curves_png(report)}
    except MissingExtra:
        return {}


def event_of(incident: Incident) -> Event:
    """Return the monitor's event that opened the incident, as far as it was stored."""
    opened = incident.opening()
    stored: dict[str, Any] = incident.evidence(opened, "event")
    kind = opened.summary["kind"]
    return Event(
        number=1,
        kind=kind if kind in KINDS else "spike",
        onset=opened.summary["onset"],
        detected=opened.summary["detected"],
        end=stored.get("end", stored.get("recovered_step")),
        peak=_number(stored.get("peak")),
        peak_step=stored.get("peak_step") or opened.summary["detected"],
        z=_number(stored.get("z", stored.get("score"))),
        baseline=_number(stored.get("baseline")),
        signals=tuple(stored.get("signals", ("loss",))),
        moved=tuple((name, step) for name, step in stored.get("moved", ())),
        drift_since=stored.get("drift_since"),
        page=True,
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
