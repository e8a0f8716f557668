"""Evaluating the scene and a healthy checkpoint, to tell a hurt model from a hurt dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...loader.errors import IncidentError
from ...loader.lineage import owner
from ..diagnose.series import Series
from .checkpoints import journalled_checkpoints
from .command import Spec
from .rewind import Checkpoint, plan_rewind

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Incident


def evaluation_specs(run: Run, incident: Incident) -> dict[str, Spec]:
    """Return what to evaluate: "healthy" before the onset and "scene" at or after it.

    Raises:
        IncidentError: the run has no checkpoint on one of the two sides.
    """
    opened = incident.opening().summary
    onset, spans = opened["onset"], run.lineage(opened.get("piece"))
    known = [
        c
        for c in journalled_checkpoints(run)
        if (span := owner(spans, c.step)) is not None and span.piece == c.piece
    ]
    after = [c for c in known if c.step >= onset]
    if not after:
        raise IncidentError(
            f"no checkpoint lies at or after the onset at step {onset}; save one of the scene, "
            "or confirm without an evaluation"
        )
    healthy = plan_rewind(known, spans, onset=onset, head_step=onset).checkpoint
    return {"healthy": _spec(run, healthy), "scene": _spec(run, after[0])}


def merge_evaluations(results: Mapping[str, Mapping[str, Series]]) -> dict[str, Series]:
    """Return one series per evaluated signal, called eval/NAME, over both checkpoints."""
    names = {name for each in results.values() for name in each}
    return {
        f"eval/{name}": Series(
            name=f"eval/{name}",
            steps=np.concatenate([each[name].steps for each in results.values() if name in each]),
            values=np.concatenate([each[name].values for each in results.values() if name in each]),
        )
        for name in sorted(names)
    }


def _spec(run: Run, checkpoint: Checkpoint) -> Spec:
    return Spec(
        kind="eval",
        run=str(run.path.resolve()),
        checkpoint=checkpoint.path,
        cursor=checkpoint.cursor,
        first=checkpoint.step,
        last=checkpoint.step,
    )
