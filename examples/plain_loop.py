"""The shortest training loop that can be asked what it ate.

Usage: python examples/plain_loop.py CORPUS_DIR WORK_DIR [STEPS]
CORPUS_DIR holds Parquet, Arrow or JSONL shards with a `text` column. Started again, the loop goes
on after its last checkpoint; `shardward ledger step N --run WORK_DIR/run` tells what fed step N.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from shardward.loader import Manifest, Run, ShardLoader, build_manifest
from shardward.loader.torch import TorchLoader


def main(corpus: str, work: Path, steps: int = 20) -> None:
    work.mkdir(parents=True, exist_ok=True)
    index, checkpoint = work / "manifest", work / "checkpoint.pt"
    manifest = Manifest.load(index) if index.exists() else build_manifest([corpus], index)
    if (work / "run").exists():
        run = Run.open(work / "run")
    else:
        plan = manifest.plan(seed=1, seq_len=128)
        run = Run.create(work / "run", plan=plan, manifest_path=index)
    model = torch.nn.Sequential(torch.nn.Embedding(258, 64), torch.nn.Linear(64, 258))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    cursor = None
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        cursor = saved["cursor"]

    with ShardLoader(manifest, run.plan(), run=run, batch=8, epochs=None, cursor=cursor) as loader:
        last = (cursor or {"step": 0})["step"] + steps
        for batch in TorchLoader(loader):
            logits = model(batch.tokens[:, :-1])
            targets, mask = batch.tokens[:, 1:], batch.loss_mask[:, 1:]
            loss = torch.nn.functional.cross_entropy(logits[mask], targets[mask])
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loader.observe(batch.step, loss=loss.item(), grad_norm=norm.item())
            if batch.step % 10 == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(
                    {**state, "cursor": loader.checkpoint(batch.step, checkpoint)}, checkpoint
                )
            if batch.step == last:
                print(f"step {batch.step} loss {loss.item():.3f}")
                break


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *(int(steps) for steps in sys.argv[3:4]))
