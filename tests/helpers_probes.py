"""A small model with everything that makes attention logits hard to see, and one rank of a run.

Run as `python helpers_probes.py RANK SIZE PORT DIRECTORY` it is one rank of a gloo group.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn
from torch.distributed import device_mesh, fsdp
from torch.nn import functional

from shardward.quarantine.diagnose.probes import Probes
from shardward.quarantine.diagnose.replicas import differing_ranks, parameter_checksum


class Block(nn.Module):
    """Attention with normalised and rotated queries and keys, and fewer key heads."""

    def __init__(self, width: int = 32, heads: int = 4, key_heads: int = 2) -> None:
        super().__init__()
        self.heads, self.key_heads, self.each = heads, key_heads, width // heads
        self.qkv = nn.Linear(width, (heads + 2 * key_heads) * self.each, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.seen: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        sizes = [self.heads * self.each, self.key_heads * self.each, self.key_heads * self.each]
        q, k, v = (
            part.view(n, length, -1, self.each).transpose(1, 2)
            for part in self.qkv(x * 50).split(sizes, dim=-1)
        )
        q, k = (rotated(functional.normalize(part, dim=-1)) for part in (q, k))
        self.seen = (q.detach(), k.detach())
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        added: Tensor = self.out(y.transpose(1, 2).reshape(n, length, -1))
        return x + added


def rotated(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2]).unsqueeze(-1) / 10.0 ** torch.arange(half)
    first, second = x[..., :half], x[..., half:]
    return torch.cat(
        [
            first * angle.cos() - second * angle.sin(),
            first * angle.sin() + second * angle.cos(),
        ],
        dim=-1,
    )


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(64, 32)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(32, 64, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(x)
        return out


def trained(model: nn.Module, probes: Probes, step: int) -> dict[str, float]:
    """Take one optimizer step and return what the probes say about it."""
    optimizer = probes._optimizer
    assert optimizer is not None
    tokens = torch.randint(0, 60, (2, 16), generator=torch.Generator().manual_seed(step))
    with probes.step(step):
        logits = model(tokens)
        probes.logits(logits)
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        probes.gradients()
        optimizer.step()
    return probes.values()


def rank(number: int, size: int, port: int, out: str) -> None:
    """One rank: probe under DDP and FSDP2, then flip a bit on the last rank."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=number, world_size=size
    )
    model = Model()
    parallel = nn.parallel.DistributedDataParallel(model)
    probes = Probes(model, torch.optim.AdamW(model.parameters(), lr=1e-3), every=1)
    wide = trained(parallel, probes, 1)
    same = differing_ranks(parameter_checksum(model))
    if number == size - 1:
        with torch.no_grad():
            model.head.weight.view(torch.int32)[0, 0] ^= 1 << 20
    flipped = differing_ranks(parameter_checksum(model))
    sharded = Model()
    fsdp.fully_shard(sharded, mesh=device_mesh.init_device_mesh("cpu", (size,)))
    probes = Probes(sharded, torch.optim.AdamW(sharded.parameters(), lr=1e-3), every=1)
    split = trained(sharded, probes, 1)
    torch.save((wide, same, flipped, split), f"{out}/{number}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    rank(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
