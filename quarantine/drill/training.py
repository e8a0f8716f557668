"""Phase 3 and every later stretch of training: a plain loop around the public loader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...loader.stream import ShardLoader
from ..diagnose.events import Event
from ..diagnose.monitor import Monitor
from .narrator import Advance
from .trainer import Trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one stretch of training came to: its last step and the page that stopped it, if any."""

    last_step: int
    page: Event | None


def train(
    trainer: Trainer,
    loader: ShardLoader,
    *,
    until: int,
    heldout: Mapping[str, NDArray[np.int64]],
    checkpoints: Path | None,
    monitor: Monitor | None,
    advance: Advance,
) -> Stretch:
    """Train up to step `until`; after a page, go on for `scale.reaction` steps and stop.

    Args:
        checkpoints: where every `scale.checkpoint_every` steps are saved; None saves nothing.
        monitor: judges every step; None watches nothing.
    """
    scale, stop, last = trainer.scale, until, 0
    for batch in loader:
        last = batch.step
        signals, samples = trainer.step(batch)
        if last % scale.checkpoint_every == 0:
            signals |= trainer.evaluate(heldout)
        loader.observe(last, sample_loss=samples, reduce=None, **signals)
        if checkpoints is not None and last % scale.checkpoint_every == 0:
            save(trainer, loader, checkpoints)
        if monitor is not None:
            monitor.update(last, loss=signals["loss"], grad_norm=signals["grad_norm"])
            if monitor.pages:
                stop = min(until, monitor.pages[0].detected + scale.reaction)
        advance(1, f"loss {signals['loss']:.2f}")
        if last >= stop:
            break
    return Stretch(
        last_step=last, page=monitor.pages[0] if monitor is not None and monitor.pages else None
    )


def save(trainer: Trainer, loader: ShardLoader, directory: Path) -> Path:
    """Save a checkpoint of the last completed step and record it in the run."""
    cursor = loader.state_dict()
    step = int(cursor["step"])
    path = directory / f"step-{step:06d}-piece-{loader.piece}.pt"
    trainer.save(path, cursor)
    loader.checkpoint(step, path.name)
    return path
