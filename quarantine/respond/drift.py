"""Evidence that an evaluation harness drifted, and not the model: from `confirm --eval`.

The healthy checkpoint was evaluated again with today's harness. Where that gives other numbers than
the run logged when it stood there, the harness changed; where the scene is as good as the healthy
checkpoint under one harness, the weights were not hurt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import IncidentError
from ..diagnose.confirm import HELDOUT_RISE
from ..diagnose.series import Series

if TYPE_CHECKING:
    from .incident import Incident

EVALUATIONS = "evaluations"
PREFIXES = ("eval/", "heldout/", "")


def evaluations_json(results: Mapping[str, Mapping[str, Series]]) -> dict[str, Any]:
    """Return, for "healthy" and "scene", the step and the value of each metric."""
    return {
        name: {
            "step": max((int(each.steps[-1]) for each in metrics.values()), default=0),
            "values": {metric: float(each.values[-1]) for metric, each in sorted(metrics.items())},
        }
        for name, metrics in results.items()
    }


def drift_evidence(incident: Incident, series: Mapping[str, Series]) -> dict[str, Any]:
    """Return the frozen evidence for an exit because the harness drifted.

    Args:
        incident: its present round must have evaluated both checkpoints.
        series: the telemetry of the branch that spiked, with what was logged at the time.

    Returns:
        evaluations, `then_and_now` (metric, step, logged, now, drifted) and `worse`, the metrics by
        which the scene is worse than the healthy checkpoint.

    Raises:
        IncidentError: nothing was evaluated, or the numbers speak for hurt weights.
    """
    event = incident.last("confirm") or incident.last("attempt")
    if event is None or EVALUATIONS not in event.evidence:
        raise IncidentError(
            f"a drift of the harness needs evidence: run incident confirm {incident.id} "
            "--eval CMD, which evaluates a healthy checkpoint and the scene with one harness"
        )
    stored = incident.evidence(event, EVALUATIONS)
    items = incident.evidence(event, "checklist")["items"]
    names = {f"eval/{metric}" for metric in stored["scene"]["values"]}
    worse = [item["signal"] for item in items if item["signal"] in names and item["agrees"]]
    compared = _then_and_now(stored["healthy"], series)
    if worse and not any(row["drifted"] for row in compared):
        raise IncidentError(
            f"the evaluations do not show a drift: by {', '.join(worse)} the scene is worse than "
            "the healthy checkpoint, and the healthy one gives the numbers of its time; go on with "
            "the response, or dismiss it as something else"
        )
    return {EVALUATIONS: stored, "then_and_now": compared, "worse": worse}


def _then_and_now(healthy: Mapping[str, Any], series: Mapping[str, Series]) -> list[dict[str, Any]]:
    """Compare each metric with what the run logged of it at the healthy step or last before it."""
    rows = []
    for metric, now in healthy["values"].items():
        logged = next((series[p + metric] for p in PREFIXES if p + metric in series), None)
        if logged is None:
            continue
        before = np.flatnonzero((logged.steps <= healthy["step"]) & np.isfinite(logged.values))
        if before.size:
            then = float(logged.values[before[-1]])
            rows.append(
                {
                    "metric": metric,
                    "step": int(logged.steps[before[-1]]),
                    "logged": then,
                    "now": now,
                    "drifted": not abs(now - then) <= HELDOUT_RISE * abs(then),
                }
            )
    return rows
