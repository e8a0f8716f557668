"""What the trainer's side of one drill holds after its corpus was indexed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...loader.cursor import Cursor
from ...loader.manifest import Manifest
from ...loader.plan import Plan
from ...loader.run import Run
from ...loader.stream import ShardLoader
from ..diagnose.config import MonitorConfig
from ..diagnose.monitor import Monitor
from .directory import Directory
from .heldout import heldout_tokens
from .scale import Scale
from .trainer import RateFault, Trainer

FAULTY_FROM = (0.5, 0.6)
"""Share of the run in which the learning rate is raised, as the bad block is placed."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """One drill after its corpus was indexed.

    `steps` is the length of the run, `fault` what is wrong with the learning rate.
    """

    directory: Directory
    scale: Scale
    seed: int
    steps: int
    manifest: Manifest
    fault: RateFault | None

    @cached_property
    def plan(self) -> Plan:
        """The plan of the run."""
        tokenizer = self.manifest.header.tokenizer
        assert tokenizer.separator is not None
        return self.scale.plan(
            fingerprint=self.manifest.fingerprint,
            seed=self.seed,
            separator=tokenizer.separator,
            pad=tokenizer.pad,
        )

    @cached_property
    def run(self) -> Run:
        """The run, made if it is not there."""
        path = self.directory.run
        if (path / "run.json").exists():
            return Run.open(path)
        return Run.create(
            path,
            plan=self.plan,
            manifest_path=self.directory.manifest,
            run_id=f"drill-{self.seed}",
            context={"drill": {"seed": self.seed, "steps": self.steps}},
        )

    @cached_property
    def heldout(self) -> dict[str, NDArray[np.int64]]:
        """The evaluation tokens by source."""
        return heldout_tokens(self.manifest, self.plan)

    @property
    def monitor_config(self) -> MonitorConfig:
        """The monitor's scale for a run this short."""
        return MonitorConfig.for_short_run(self.steps)

    def monitor(self) -> Monitor:
        """Return a monitor that has seen nothing."""
        return Monitor(self.monitor_config)

    def trainer(self) -> Trainer:
        """Return an untrained trainer; every call gives the same weights."""
        return Trainer(
            self.scale,
            vocabulary=self.manifest.header.tokenizer.vocabulary,
            steps=self.steps,
            seed=self.seed,
            source_names=self.manifest.source_names,
            fault=self.fault,
        )

    def loader(self, *, cursor: Cursor | None, reason: Any) -> ShardLoader:
        """Return a loader of the run that goes on from `cursor`."""
        return ShardLoader(
            self.manifest,
            self.plan,
            run=self.run,
            batch=self.scale.batch,
            cursor=cursor,
            reason=reason,
        )


def rate_fault(scale: Scale, seed: int, steps: int) -> RateFault:
    """Return the step from which the learning rate is too high; it depends on the seed alone."""
    low, high = (round(share * steps) for share in FAULTY_FROM)
    step = int(np.random.default_rng([0x1EA4, seed]).integers(low, high + 1))
    return RateFault(step=step, factor=scale.rate_factor)
