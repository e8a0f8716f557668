"""What probes cost a training step of a model of about ten million parameters, on the CPU.

    python benchmarks/monitor/probes_cost.py [--steps 20]

Prints one JSON object for each sampling interval, and for the package trainscope at its defaults
where it is installed: processor time of a step with and without, one beside the other.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

import torch
from small_model import Model
from torch import Tensor
from torch.nn import functional

from shardward.quarantine.diagnose.probes import Probes

Update = Callable[[], Any]
SIZES = {"vocabulary": 512, "width": 320, "heads": 5, "depth": 8}
LENGTH, ROWS = 128, 4


class Probed:
    """Probes of this project at every `every`-th step."""

    def __init__(self, model: Model, optimizer: torch.optim.Optimizer, every: int) -> None:
        self.probes = Probes(model, optimizer, every=every)

    def step(self, step: int, forward: Callable[[], tuple[Tensor, Tensor]], update: Update) -> None:
        with self.probes.step(step):
            logits, loss = forward()
            self.probes.logits(logits)
            loss.backward()
            self.probes.gradients()
            update()
        self.probes.values()


class Plain:
    """No probes at all."""

    def step(self, step: int, forward: Callable[[], tuple[Tensor, Tensor]], update: Update) -> None:
        forward()[1].backward()
        update()


class TrainScope:
    """The package trainscope, as shipped, writing to a folder that is thrown away."""

    def __init__(self, model: Model, optimizer: torch.optim.Optimizer, folder: str) -> None:
        config = import_module("trainscope.core.config").TrainScopeConfig(run_dir=folder)
        scope = import_module("trainscope").TrainScope
        self.scope = scope(model, optimizer, config=config).attach()

    def step(self, step: int, forward: Callable[[], tuple[Tensor, Tensor]], update: Update) -> None:
        loss = forward()[1]
        loss.backward()
        self.scope.step(loss.item(), batch_index=step)
        update()


class Trained:
    """A model in training, with its watcher, and the processor time that its steps took."""

    def __init__(self, kind: str, folder: str) -> None:
        torch.manual_seed(0)
        self.model = Model(**SIZES)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.watcher: Any = Plain()
        if kind.startswith("every"):
            self.watcher = Probed(self.model, self.optimizer, int(kind.split()[1]))
        elif kind == "trainscope":
            self.watcher = TrainScope(self.model, self.optimizer, folder)
        self.seconds = 0.0

    def step(self, step: int, tokens: Tensor) -> None:
        """Take one step, and count its time if it is not one of those to warm up."""

        def forward() -> tuple[Tensor, Tensor]:
            logits = self.model(tokens)
            targets = tokens[:, 1:].flatten()
            return logits, functional.cross_entropy(logits[:, :-1].flatten(0, 1), targets)

        started = time.process_time()
        self.optimizer.zero_grad()
        self.watcher.step(step, forward, self.optimizer.step)
        if step > 0:
            self.seconds += time.process_time() - started


def pair(kind: str, steps: int, folder: str) -> tuple[float, float]:
    """Return the seconds of a plain step and of one that is watched, taken in turn."""
    runs = (Trained("plain", folder), Trained(kind, folder))
    for step in range(-2, steps + 1):
        tokens = torch.randint(0, SIZES["vocabulary"], (ROWS, LENGTH))
        for run in runs:
            run.step(step, tokens)
    return runs[0].seconds / steps, runs[1].seconds / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", default="every 10,every 1,trainscope")
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = sum(each.numel() for each in Model(**SIZES).parameters())
    kinds = [kind for kind in options.only.split(",") if kind != "trainscope" or find_spec(kind)]
    with TemporaryDirectory() as folder:
        for kind in kinds:
            plain, watched = pair(kind, options.steps, folder)
            result = {
                "test": "probe cost",
                "parameters": size,
                "probed": kind,
                "plain_seconds": round(plain, 4),
                "probed_seconds": round(watched, 4),
                "overhead": round(watched / plain - 1, 4),
                "machine": platform.machine(),
                "command": " ".join(sys.argv),
            }
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
