"""Data-parallel training with plain DDP over gloo: each rank reads its slice of every step.

Usage: torchrun --standalone --nproc-per-node 2 examples/ddp_gloo.py MANIFEST RUN STEPS
MANIFEST is what `shardward corpus index` made of a text corpus. RUN is made by rank 0 if it is not
there yet, while the other ranks wait. STEPS are taken per start.

The id that torchrun gives each start (`--standalone`, or `--rdzv-id` on several nodes) tells the
ranks that they belong together, so they share one branch piece of the run. Started again at another
number of ranks, the job goes on in the same order, as long as the batch of 24 divides.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from shardward.loader import Manifest, Run, ShardLoader, Topology
from shardward.loader.torch import TorchLoader

BATCH = 24


def open_run(path: str, manifest: Manifest, rank: int) -> Run:
    """Open the run at `path` on every rank; the first one makes it if there is none."""
    if rank == 0 and not (Path(path) / "run.json").exists():
        plan = manifest.plan(seed=1, seq_len=128)
        Run.create(path, plan=plan, manifest_path=manifest.path)
    distributed.barrier()
    return Run.open(path)


def gather(signals: Mapping[str, float]) -> list[Mapping[str, float]]:
    """Return the signals of all ranks, in their order."""
    every: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(every, dict(signals))
    return every


def main(manifest_path: str, run_path: str, steps: int) -> None:
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    manifest = Manifest.load(manifest_path)
    run = open_run(run_path, manifest, rank)
    checkpoint = Path(run_path) / "checkpoint.pt"
    model = torch.nn.Sequential(torch.nn.Embedding(258, 32), torch.nn.Linear(32, 258))
    cursor = None
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        cursor = saved["cursor"]
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    topology = Topology(dp_rank=rank, dp_size=ranks)

    with ShardLoader(
        manifest, run.plan(), run=run, batch=BATCH, topology=topology, cursor=cursor
    ) as loader:
        for batch in TorchLoader(loader):
            logits = parallel(batch.tokens[:, :-1])
            targets, mask = batch.tokens[:, 1:], batch.loss_mask[:, 1:]
            total = torch.nn.functional.cross_entropy(logits[mask], targets[mask], reduction="sum")
            # DDP averages over ranks, but blanking makes their shares unequal: weigh by tokens.
            loss = total * ranks / max(batch.batch.global_target_tokens, 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            # All ranks record the mean, and learn here if they are not on one batch.
            loader.observe(batch.step, loss=loss.item(), reduce=gather)
            if batch.step % steps == 0:
                break
        saved_cursor = loader.checkpoint(batch.step, checkpoint)
    distributed.barrier()  # every rank's record is durable before the checkpoint appears
    if rank == 0:
        torch.save({"model": model.state_dict(), "cursor": saved_cursor}, checkpoint)
        print(f"ranks {ranks} step {batch.step}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
