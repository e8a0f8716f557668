"""The drill's trainer: model, AdamW, schedule, and checkpoints that hold all of them."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...loader.batch import Batch
from ...loader.errors import FormatError, NotFound
from ...loader.files import publish_new
from .model import Transformer, token_losses
from .scale import Scale

CLIP_NORM = 1.0
BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
DECAY_SHARE = 0.2
LAST_SHARE = 0.1
LEAST_SOURCE_TOKENS = 256
FORMAT = "shardward.drill-checkpoint"
VERSION = 2


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Run torch with a fixed number of threads and deterministic kernels, then restore both."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFault:
    """A schedule that gives `factor` times the planned learning rate from `step` on."""

    step: int
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a checkpoint holds beside the trainer: the cursor, and the monitor's state or None."""

    cursor: dict[str, Any]
    monitor: dict[str, Any] | None


class Trainer:
    """A model in training.

    Args:
        scale: sizes and schedule.
        vocabulary: number of token ids.
        steps: length of the schedule.
        seed: of the initial weights.
        source_names: by source code, for the loss of each source.
        fault: what is wrong with the schedule, if anything.
    """

    def __init__(
        self,
        scale: Scale,
        *,
        vocabulary: int,
        steps: int,
        seed: int,
        source_names: tuple[str, ...],
        fault: RateFault | None = None,
    ) -> None:
        torch.manual_seed(seed)
        self.scale = scale
        self.source_names = source_names
        self.clip_norm = CLIP_NORM
        self.model = Transformer(scale, vocabulary)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=scale.learning_rate,
            betas=BETAS,
            weight_decay=WEIGHT_DECAY,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda step: learning_rate_share(step, scale.warmup, steps, fault),
        )

    def step(self, batch: Batch) -> tuple[dict[str, float], list[float]]:
        """Train on `batch`.

        Returns:
            Its signals (loss, grad_norm, lr, clip_rate, loss/SOURCE) and the mean loss of each
            sample.
        """
        tokens = torch.from_numpy(batch.tokens.astype(np.int64))
        mask = torch.from_numpy(batch.loss_mask[:, 1:].astype(np.float32))
        losses = token_losses(self.model, tokens)
        loss = (losses * mask).sum() / mask.sum().clamp(min=1.0)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm))
        rate = float(self.schedule.get_last_lr()[0])
        if math.isfinite(norm):
            self.optimizer.step()
        self.schedule.step()
        samples = (losses.detach() * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        by_source = self._source_losses(batch, losses.detach().numpy())
        signals = {
            "loss": float(loss.detach()),
            "grad_norm": norm,
            "lr": rate,
            "clip_rate": float(norm > self.clip_norm),
            **by_source,
        }
        return signals, samples.tolist()

    def _source_losses(self, batch: Batch, losses: NDArray[np.float32]) -> dict[str, float]:
        """Return the mean loss of every source with enough tokens in the batch."""
        codes = np.full(batch.tokens.shape, -1, np.int64)
        ends = batch.segments.offset + batch.segments.tokens()
        rows = zip(batch.segments.sample, batch.segments.offset, ends, batch.sources, strict=True)
        for row, low, high, code in rows:
            codes[row, low:high] = code
        codes = np.where(batch.loss_mask, codes, -1)[:, 1:]
        found = {}
        for code, name in enumerate(self.source_names):
            chosen = losses[codes == code]
            if chosen.size >= LEAST_SOURCE_TOKENS:
                found[f"loss/{name}"] = float(chosen.mean(dtype=np.float64))
        return found

    def scale_learning_rate(self, factor: float) -> None:
        """Multiply the rate that the schedule gives from here on."""
        self.schedule.base_lrs = [rate * factor for rate in self.schedule.base_lrs]

    @torch.no_grad()
    def evaluate(self, heldout: Mapping[str, NDArray[np.int64]]) -> dict[str, float]:
        """Return the held-out loss by source; values are int64[n, seq_len] tokens."""
        return {
            f"heldout_loss/{name}": float(token_losses(self.model, torch.from_numpy(tokens)).mean())
            for name, tokens in heldout.items()
        }

    def save(
        self, path: Path, cursor: Mapping[str, Any], monitor: Mapping[str, Any] | None = None
    ) -> None:
        """Publish everything a restart needs under the new name `path`.

        Args:
            path: of the checkpoint.
            cursor: of the last completed step.
            monitor: state of the monitor that watches the run.
        """
        buffer = io.BytesIO()
        torch.save(
            {
                "format": FORMAT,
                "version": VERSION,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(),
                "rng": torch.get_rng_state(),
                "clip_norm": self.clip_norm,
                "cursor": dict(cursor),
                "monitor": None if monitor is None else dict(monitor),
            },
            buffer,
        )
        publish_new(path, buffer.getvalue())

    def load(self, path: Path) -> Loaded:
        """Restore weights, optimizer, schedule, RNG and clip threshold from `path`.

        Raises:
            NotFound: there is no such checkpoint.
            FormatError: the file is no checkpoint of the drill.
        """
        if not path.is_file():
            raise NotFound(f"{path} is gone; rewind to another checkpoint")
        state = torch.load(path, weights_only=True)
        if (state.get("format"), state.get("version")) != (FORMAT, VERSION):
            raise FormatError(
                f"{path} is no {FORMAT} of version {VERSION}; give a checkpoint of the drill"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["rng"])
        self.clip_norm = state["clip_norm"]
        return Loaded(cursor=state["cursor"], monitor=state["monitor"])


def learning_rate_share(
    step: int, warmup: int, steps: int, fault: RateFault | None = None
) -> float:
    """Return the share of the peak rate at `step` (from 0): warm-up, plateau, linear decay."""
    rise = min(1.0, (step + 1) / warmup)
    left = (steps - step) / max(1.0, DECAY_SHARE * steps)
    share = rise * max(LAST_SHARE, min(1.0, left))
    return share * fault.factor if fault is not None and step + 1 >= fault.step else share
