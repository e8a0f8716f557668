"""PyTorch: tensors from batches, and `DataLoader` workers that prepare steps.

Workers only prepare. The main process journals each step before it hands out its first
micro-batch, whatever the number of workers and however far they are ahead. `Batch` keeps numpy
arrays, so a trainer that needs nothing else can use `ShardLoader` without this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .batch import Batch
from .errors import MissingExtra, UsageError
from .prepared import PreparedStep
from .steps import StepSource
from .stream import ShardLoader
from .walk import Place

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info
except ImportError as error:
    raise MissingExtra(
        "this needs PyTorch; install it with: pip install 'shardward[torch]'"
    ) from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchBatch:
    """A micro-batch as tensors.

    Attributes:
        tokens: int64[n, length].
        loss_mask: bool[n, length].
        batch: the batch they come from, with segments, sources, positions and `cursor_after`.
    """

    tokens: torch.Tensor
    loss_mask: torch.Tensor
    batch: Batch

    @property
    def step(self) -> int:
        """Optimizer step, from 1."""
        return self.batch.step

    @property
    def is_last_micro(self) -> bool:
        """Whether the optimizer steps after this micro-batch."""
        return self.batch.micro + 1 == self.batch.micros

    def segment_ids(self) -> torch.Tensor:
        """Return int32[n, length]; see `Batch.segment_ids`."""
        return torch.from_numpy(self.batch.segment_ids()).to(self.tokens.device)

    def position_ids(self) -> torch.Tensor:
        """Return int32[n, length]; see `Batch.position_ids`."""
        return torch.from_numpy(self.batch.position_ids()).to(self.tokens.device)

    def pin_memory(self) -> TorchBatch:
        """Return the batch with its tensors copied to memory that a GPU copies from by itself."""
        return replace(self, tokens=self.tokens.pin_memory(), loss_mask=self.loss_mask.pin_memory())

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> TorchBatch:
        """Return the batch with its tensors on `device`."""
        return replace(
            self,
            tokens=self.tokens.to(device, non_blocking=non_blocking),
            loss_mask=self.loss_mask.to(device, non_blocking=non_blocking),
        )


def to_torch(batch: Batch) -> TorchBatch:
    """Return `batch` as tensors; tokens are widened to the int64 that embeddings take."""
    return TorchBatch(
        tokens=torch.from_numpy(batch.tokens.astype(np.int64)),
        loss_mask=torch.from_numpy(batch.loss_mask),
        batch=batch,
    )


class StepDataset(IterableDataset[PreparedStep]):
    """Prepared steps of a source; worker k of n makes every n-th, so that they come in order.

    Args:
        source: what decides the steps.
        place: the boundary to start from.
    """

    def __init__(self, source: StepSource, place: Place) -> None:
        self._source = source
        self._place = place

    def __iter__(self) -> Iterator[PreparedStep]:
        worker = get_worker_info()
        if worker is None:
            return self._source.steps(self._place)
        return self._source.steps(self._place, offset=worker.id, stride=worker.num_workers)


class TorchLoader:
    """An iterator of `TorchBatch`, one per micro-batch, over `ShardLoader` or its workers.

    Args:
        loader: not iterated yet. Its `observe`, `state_dict` and `checkpoint` stay the way to
            report steps and save cursors.
        num_workers: processes that prepare steps; 0 uses the loader's own threads.
        pin_memory: hand out pinned tensors where there is a GPU.
        options: passed on to `torch.utils.data.DataLoader`, such as prefetch_factor or
            multiprocessing_context.

    Raises:
        UsageError: an option that would regroup or reorder steps.
    """

    def __init__(
        self,
        loader: ShardLoader,
        *,
        num_workers: int = 0,
        pin_memory: bool = False,
        **options: Any,
    ) -> None:
        clash = {"batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn"} & set(options)
        if clash:
            raise UsageError(
                f"{sorted(clash)[0]} is decided by the plan and the loader; leave it out"
            )
        self.loader = loader
        # Not left to DataLoader, which knows nothing to pin in a prepared step.
        self._pins = pin_memory and torch.cuda.is_available()
        self._micro_batches: Iterator[Batch] = iter(())
        self._steps: Iterator[PreparedStep] | None = None
        if num_workers:
            dataset = StepDataset(loader.source, loader.place)
            self._steps = iter(
                DataLoader(
                    dataset,
                    batch_size=None,
                    num_workers=num_workers,
                    collate_fn=_same,
                    **options,
                )
            )

    def __iter__(self) -> TorchLoader:
        return self

    def __next__(self) -> TorchBatch:
        batch = to_torch(self._next())
        return batch.pin_memory() if self._pins else batch

    def _next(self) -> Batch:
        if self._steps is None:
            return next(self.loader)
        batch = next(self._micro_batches, None)
        if batch is None:
            began = time.perf_counter()
            try:
                step = next(self._steps)
            except StopIteration:
                self.loader.ended()
                raise
            self._micro_batches = self.loader.deliver(step, time.perf_counter() - began)
            batch = next(self._micro_batches)
        return batch

    def __len__(self) -> int:
        """Number of batches to the end of the last epoch."""
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the cursor of the last completed step."""
        return self.loader.state_dict()

    def close(self) -> None:
        """Let the workers go and close the loader."""
        self._steps = None
        self.loader.close()


def _same(step: Any) -> Any:
    return step
