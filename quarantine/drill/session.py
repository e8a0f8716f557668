"""What the phases of one drill share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...loader.manifest import Manifest
from ...loader.plan import Plan
from ...loader.run import Run
from ..diagnose.config import MonitorConfig
from ..diagnose.series import Series
from ..ledger import Ledger
from .directory import Directory
from .narrator import Narrator
from .scale import Scale
from .trainer import Trainer

ACTOR = "drill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One drill after its corpus was indexed.

    `steps` is the length of the run, `heldout` the evaluation tokens by source.
    """

    directory: Directory
    scale: Scale
    seed: int
    steps: int
    manifest: Manifest
    plan: Plan
    run: Run
    heldout: dict[str, NDArray[np.int64]]
    narrator: Narrator

    @property
    def monitor(self) -> MonitorConfig:
        """The monitor's scale for a run this short."""
        return MonitorConfig.for_short_run(self.steps)

    def trainer(self) -> Trainer:
        """Return an untrained trainer; every call gives the same weights."""
        return Trainer(
            self.scale,
            vocabulary=self.manifest.header.tokenizer.vocabulary,
            steps=self.steps,
            seed=self.seed,
            source_names=self.manifest.source_names,
        )


def signals(ledger: Ledger, *names: str, branch: int | None = None) -> dict[str, Series]:
    """Return telemetry of a branch from the ledger, by name; all of it without `names`."""
    table = ledger.telemetry(*names, branch=branch)
    found = np.array(table["name"].to_pylist(), dtype=object)
    steps, values = table["step"].to_numpy(), table["value"].to_numpy()
    return {
        str(name): Series(
            name=str(name),
            steps=steps[found == name].astype(np.int64),
            values=values[found == name].astype(np.float64),
        )
        for name in sorted(set(found.tolist()))
    }


def by_step(series: Series, first: int = 1, last: int | None = None) -> dict[int, float]:
    """Return the values of a series by step, within `first`..`last`."""
    pairs = zip(series.steps.tolist(), series.values.tolist(), strict=True)
    return {s: v for s, v in pairs if s >= first and (last is None or s <= last)}
