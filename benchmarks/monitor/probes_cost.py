"""What probes cost a training step of a model of about ten million parameters, on the CPU.

    python benchmarks/monitor/probes_cost.py [--steps 20]

Prints one JSON object for each sampling interval: processor time of a step with and without.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

from shardward.quarantine.diagnose.probes import Probes

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH, ROWS = 320, 5, 8, 512, 128, 4


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        parts = self.qkv(self.norms[0](x)).view(n, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    """Eight blocks, ten million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def seconds(every: int | None, steps: int) -> float:
    """Return the processor seconds of a step, probed every `every` steps or not at all."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    probes = Probes(model, optimizer, every=every or steps * 10)
    started = 0.0
    for step in range(-2, steps):
        if step == 0:
            started = time.process_time()
        tokens = torch.randint(0, VOCABULARY, (ROWS, LENGTH))
        with probes.step(step + 1):
            logits = model(tokens)
            probes.logits(logits)
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            probes.gradients()
            optimizer.step()
        probes.values()
    return (time.process_time() - started) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = sum(each.numel() for each in Model().parameters())
    plain = seconds(None, options.steps)
    for every in (10, 1):
        probed = seconds(every, options.steps)
        result = {
            "test": "probe cost",
            "parameters": size,
            "every": every,
            "plain_seconds": round(plain, 4),
            "probed_seconds": round(probed, 4),
            "overhead": round(probed / plain - 1, 4),
            "machine": platform.machine(),
            "command": " ".join(sys.argv),
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
