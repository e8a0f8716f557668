"""Every stretch of training: a plain loop around the public loader, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...loader.run import Run
from ...loader.stream import ShardLoader
from ..diagnose.events import Event
from ..diagnose.monitor import Monitor
from ..respond.checkpoints import newer_checkpoint, start_of
from ..respond.rewind import Checkpoint
from .narrator import Advance
from .trainer import Trainer

Heard = Callable[[int, Mapping[str, float]], None]
"""Told of a completed step and its signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one stretch of training came to: its last step and the page that stopped it, if any."""

    last_step: int
    page: Event | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"last_step": self.last_step, "page": self.page and self.page.to_json()}


def train(
    trainer: Trainer,
    loader: ShardLoader,
    *,
    until: int,
    heldout: Mapping[str, NDArray[np.int64]],
    checkpoints: Path | None,
    monitor: Monitor | None,
    advance: Advance,
    heard: Heard | None = None,
) -> Stretch:
    """Train up to step `until`; after a page, go on for `scale.reaction` steps and stop.

    Args:
        trainer: holds the weights of the step before the loader's first.
        loader: yields one batch a step.
        until: last step.
        heldout: evaluation tokens by source.
        checkpoints: where every `scale.checkpoint_every` steps are saved; None saves nothing.
        monitor: judges every step; None watches nothing.
        advance: hears of progress.
        heard: hears of every step.
    """
    scale, last = trainer.scale, 0
    for batch in loader:
        last = batch.step
        signals, samples = trainer.step(batch)
        at_checkpoint = last % scale.checkpoint_every == 0
        if at_checkpoint:
            signals |= trainer.evaluate(heldout)
        loader.observe(last, sample_loss=samples, reduce=None, **signals)
        if monitor is not None:
            monitor.update(last, loss=signals["loss"], grad_norm=signals["grad_norm"])
        if checkpoints is not None and at_checkpoint:
            save(trainer, loader, checkpoints, monitor)
        if heard is not None:
            heard(last, signals)
        advance(1, f"loss {signals['loss']:.2f}")
        if last >= stop_after(monitor, until, scale.reaction):
            break
    return Stretch(last_step=last, page=page_of(monitor))


def page_of(monitor: Monitor | None) -> Event | None:
    """Return the first page, if there is one."""
    return monitor.pages[0] if monitor is not None and monitor.pages else None


def stop_after(monitor: Monitor | None, until: int, reaction: int) -> int:
    """Return the last step: `until`, or `reaction` steps after the first page."""
    page = page_of(monitor)
    return until if page is None else min(until, page.detected + reaction)


def save(
    trainer: Trainer, loader: ShardLoader, directory: Path, monitor: Monitor | None = None
) -> Path:
    """Save a checkpoint of the last completed step and record it in the run."""
    cursor = loader.state_dict()
    step = int(cursor["step"])
    path = directory / f"step-{step:06d}-piece-{loader.piece}.pt"
    trainer.save(path, cursor, None if monitor is None else monitor.state_dict())
    loader.checkpoint(step, path.name)
    return path


def newest_checkpoint(run: Run) -> Checkpoint | None:
    """Return where a run that was stopped goes on: its newest checkpoint, or its start.

    None where nothing was trained yet.
    """
    start = start_of(run)
    if start is None:
        return None
    return newer_checkpoint(run, start) or start
