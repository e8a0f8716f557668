"""Which rows of a log are of the run that was resumed, and which of the branch that was left."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import numpy as np

from ...loader.lineage import lineage
from ...loader.pieces import Piece
from ...loader.run import Run
from ..diagnose.signals import read_series
from .incident import Incident
from .watchplan import Series


def opened_since(incident: Incident, run: Run) -> Piece | None:
    """Return the first branch piece of the run's history that a trainer opened after the rewind."""
    back, pieces = incident.require("rewind").summary, run.pieces()
    before = {span.piece for span in lineage(pieces, back["piece"])}
    new = {span.piece for span in run.lineage()} - before
    return next((piece for piece in pieces if piece.piece in new), None)


def of_resumed_run(
    signals: Mapping[str, Series], log: Path, incident: Incident, run: Run
) -> dict[str, Series]:
    """Return the signals of a log without the steps that the branch that was left has there.

    A log that nobody wrote to since the new branch was opened, or since the rewind, has nothing of
    it. Until it is opened, neither has a log that reaches back to the checkpoint and never stepped
    back.

    Args:
        signals: values of `log` by step.
        log: the file, for its time and its order of steps.
        incident: rewound in this round.
        run: its run.
    """
    rewind, opened = incident.require("rewind"), opened_since(incident, run)
    step = int(rewind.summary["step"])
    begins = min((min(values) for values in signals.values() if values), default=0)
    since = datetime.fromisoformat(rewind.time if opened is None else opened.created)
    written = log.stat().st_mtime >= since.timestamp()
    if written and (opened is not None or begins > step or _steps_back(log)):
        return dict(signals)
    return {
        name: {at: value for at, value in values.items() if at <= step}
        for name, values in signals.items()
    }


def _steps_back(log: Path) -> bool:
    return any(bool((np.diff(each.steps) <= 0).any()) for each in read_series(log).values())
