"""Do ranks that must hold the same parameters hold the same bits?

The checksum is the sum of the parameters' bit patterns modulo 2^63, so one flipped bit changes
it, whatever the flip does to the values.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

_INTEGERS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def parameter_checksum(model: nn.Module) -> Tensor:
    """Return the checksum of all parameters on this rank, an int64 tensor of one element.

    Each parameter's sum is weighed by its place, so that swapped parameters differ too.
    """
    torch = import_module("torch")
    total = None
    for place, parameter in enumerate(model.parameters(), start=1):
        local = parameter.detach()
        local = local.to_local() if hasattr(local, "to_local") else local
        bits = local.contiguous().view(getattr(torch, _INTEGERS[local.element_size()]))
        part = bits.sum(dtype=torch.int64) * (2 * place + 1)
        total = part if total is None else total + part
    return torch.zeros(1, dtype=torch.int64) if total is None else total.reshape(1)


def differing_ranks(checksum: Tensor, group: Any = None) -> list[int]:
    """Return the ranks of `group` whose checksum is not that of the majority; see `odd_ones`.

    A collective: every rank of the group calls it. Without torch.distributed it returns none.
    """
    torch = import_module("torch")
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return []
    gathered = [torch.zeros_like(checksum) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(gathered, checksum, group=group)
    return odd_ones([int(each) for each in gathered])


def odd_ones(checksums: list[int]) -> list[int]:
    """Return the ranks that differ from the majority; all of them where there is no majority."""
    common = max(checksums, key=checksums.count)
    if checksums.count(common) * 2 <= len(checksums):
        return list(range(len(checksums)))
    return [rank for rank, checksum in enumerate(checksums) if checksum != common]
