"""Evidence that an evaluation harness drifted, and not the model: from `confirm --eval`.

A drift is claimed of the harness, so the model must be beyond suspicion: its training loss did not
diverge and the scene is no worse than the healthy checkpoint under one harness. And the harness
must be caught: it judges the healthy checkpoint worse today than the run logged at its time. The
training loss is no evaluation, whatever a harness calls its metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import IncidentError
from ..diagnose.confirm import HELDOUT_PREFIXES, HELDOUT_RISE
from ..diagnose.directions import Direction, harm_of
from ..diagnose.series import Series
from .command import Spec

if TYPE_CHECKING:
    from .incident import Incident

EVALUATIONS = "evaluations"
PREFIXES = ("eval/", "heldout/")


def evaluations_json(
    results: Mapping[str, Mapping[str, Series]],
    specs: Mapping[str, Spec],
    worse: Mapping[str, Direction],
) -> dict[str, Any]:
    """Return, for "healthy" and "scene", the checkpoint's step and the value of each metric.

    `worse` is kept beside them: whether higher or lower is worse, as a person said it.
    """
    if not results:
        return {}
    found: dict[str, Any] = {
        name: {
            "step": specs[name].first,
            "values": {metric: float(each.values[-1]) for metric, each in sorted(metrics.items())},
        }
        for name, metrics in results.items()
    }
    return {**found, "worse": dict(worse)}


def drift_evidence(incident: Incident, series: Mapping[str, Series]) -> dict[str, Any]:
    """Return the frozen evidence for an exit because the harness drifted.

    Args:
        incident: its present round must have evaluated both checkpoints.
        series: the telemetry of the branch that spiked, with what was logged at the time.

    Returns:
        evaluations and `then_and_now` (metric, step, logged, now, drifted).

    Raises:
        IncidentError: nothing was evaluated, the numbers speak for hurt weights, or they lack what
            shows a drift; the message says which.
    """
    event = incident.last("confirm") or incident.last("attempt")
    if event is None or EVALUATIONS not in event.evidence:
        raise IncidentError(
            f"a drift of the harness needs evidence: run incident confirm {incident.id} "
            "--eval CMD, which evaluates a healthy checkpoint and the scene with one harness"
        )
    stored = incident.evidence(event, EVALUATIONS)
    # Numbers that JSON lacks were stored as words.
    healthy = {name: float(value) for name, value in stored["healthy"]["values"].items()}
    scene = {name: float(value) for name, value in stored["scene"]["values"].items()}
    harm = {name: harm_of(f"eval/{name}", stored.get("worse", {})) for name in healthy}
    items = incident.evidence(event, "checklist")["items"]
    _check_unhurt(healthy, scene, harm, next(i for i in items if i["signal"] == "loss"))
    compared, missing = _then_and_now(healthy, stored["healthy"]["step"], harm, series)
    if not any(row["drifted"] for row in compared):
        raise IncidentError(
            f"the evaluations do not show a drift of the harness: {'; '.join(missing)}; go on with "
            "the response, or dismiss it as something else"
        )
    return {EVALUATIONS: stored, "then_and_now": compared}


def _check_unhurt(
    healthy: Mapping[str, float],
    scene: Mapping[str, float],
    harm: Mapping[str, int | None],
    training_loss: Mapping[str, Any],
) -> None:
    """Refuse a drift where the model itself is hurt, or nothing shows that it is not."""
    remedy = "go on with the response, or dismiss it as something else"
    endless = [f"{name} is {value}" for name, value in scene.items() if not math.isfinite(value)]
    if endless:
        raise IncidentError(f"the scene is hurt: its evaluation {', '.join(endless)}; {remedy}")
    if training_loss["agrees"]:
        raise IncidentError(
            "the training loss itself diverged, which no evaluation harness does: "
            f"{training_loss['note']}; {remedy}"
        )
    worse = [
        f"{name} ({scene[name]:g} against {value:g})"
        for name, value in healthy.items()
        if name in scene and _is_worse(value, scene[name], harm[name])
    ]
    if worse:
        raise IncidentError(
            f"under one harness the scene is worse than the healthy checkpoint by "
            f"{', '.join(worse)}, so the weights are hurt; {remedy}"
        )
    unsure = [f"the scene was not evaluated by {name}" for name in healthy if name not in scene]
    unsure += [
        f"the healthy checkpoint is not finite by {name}"
        for name, value in healthy.items()
        if not math.isfinite(value)
    ]
    if unsure:
        raise IncidentError(
            f"nothing shows that the weights are unhurt: {'; '.join(unsure)}; mend the harness and "
            "run incident confirm --eval again"
        )


def _then_and_now(
    healthy: Mapping[str, float],
    step: int,
    harm: Mapping[str, int | None],
    series: Mapping[str, Series],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare each metric with the evaluation that the run logged at `step`.

    Returns the comparisons, and in words why a metric shows no drift.
    """
    rows, missing = [], []
    for metric, now in healthy.items():
        then = _logged(metric, step, series)
        if then is None:
            missing.append(
                f"the run logged no evaluation {metric} (as eval/{metric} or heldout/{metric}) at "
                f"step {step}, where the healthy checkpoint stands"
            )
            continue
        drifted = _is_worse(then, now, harm[metric])
        rows.append(
            {"metric": metric, "step": step, "logged": then, "now": now, "drifted": drifted}
        )
        if harm[metric] is None:
            missing.append(
                f"nothing says which way {metric} is worse: confirm again with --worse "
                f"{metric}=higher or {metric}=lower"
            )
        elif not drifted:
            missing.append(
                f"the healthy checkpoint's {metric} is {now:g} today and was {then:g} at its time, "
                "which is no worse"
            )
    return rows, missing


def _logged(metric: str, step: int, series: Mapping[str, Series]) -> float | None:
    """Return what an evaluation by `metric` gave at `step`, as the run logged it."""
    names = [prefix + metric for prefix in PREFIXES]
    if metric.startswith(HELDOUT_PREFIXES):
        names.append(metric)
    for name in names:
        if name in series:
            each = series[name]
            found = each.values[(each.steps == step) & np.isfinite(each.values)]
            if found.size:
                return float(found[-1])
    return None


def _is_worse(before: float, after: float, harm: int | None) -> bool:
    """Whether `after` is clearly worse; `harm` as in `directions.harm_of`."""
    return harm is not None and harm * (after - before) > HELDOUT_RISE * abs(before)
