"""The largest attention logit, measured on what attention is really given.

A hook on the query and key projections lies: under QK-norm or rotary embeddings the logits are
made of other tensors. So the inputs of `scaled_dot_product_attention` are looked at, where they
pass through Python; inside a compiled graph or a fused kernel they do not, and `Probes.attention`
takes them from the model instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import Tensor

QUERIES = 64
KEYS_AT_ONCE = 4096


def largest_logit(
    query: Tensor,
    key: Tensor,
    *,
    scale: float | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    queries: int = QUERIES,
) -> Tensor:
    """Return the largest unmasked logit over sampled queries, a 0-d tensor on their device.

    Args:
        query: [batch, heads, length, width], after norm and rotary embedding.
        key: [batch, key heads, keys, width]; fewer heads are shared (grouped queries).
        scale: 1 / sqrt(width) if None.
        mask: boolean (True is seen) or additive, as `scaled_dot_product_attention` takes it.
        causal: whether a query sees only keys up to its own place.
        queries: how many queries, evenly spread and with the last, are looked at.

    It is a lower bound of the maximum over all queries, and exact when there are no more than
    `queries`. Keys are taken in chunks, so memory stays small.
    """
    query, key = query.detach(), key.detach()
    length, keys = query.shape[-2], key.shape[-2]
    rows = _spread(length, queries)
    chosen = query[..., rows, :].float() * (scale or 1 / math.sqrt(query.shape[-1]))
    if key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    best = None
    for first in range(0, keys, KEYS_AT_ONCE):
        part = slice(first, min(first + KEYS_AT_ONCE, keys))
        logits = chosen @ key[..., part, :].float().transpose(-1, -2)
        logits = _masked(logits, rows, part, mask)
        if causal:
            logits = _causal(logits, rows, part)
        top = logits.amax()
        best = top if best is None else best.maximum(top)
    assert best is not None
    return best


def _spread(length: int, queries: int) -> list[int]:
    if length <= queries:
        return list(range(length))
    return sorted({round(index * (length - 1) / (queries - 1)) for index in range(queries)})


def _masked(logits: Tensor, rows: list[int], part: slice, mask: Tensor | None) -> Tensor:
    if mask is None:
        return logits
    seen = mask[..., part]
    if mask.shape[-2] != 1:
        seen = seen[..., rows, :]
    if seen.dtype.is_floating_point:
        return logits + seen.float()
    return logits.masked_fill(seen.logical_not(), -math.inf)


def _causal(logits: Tensor, rows: list[int], part: slice) -> Tensor:
    places = logits.new_tensor(rows).unsqueeze(-1)
    columns = logits.new_tensor(range(part.start, part.stop)).unsqueeze(0)
    return logits.masked_fill(columns > places, -math.inf)


def intercept(
    report: Callable[[Tensor], None], failed: Callable[[Exception], None]
) -> AbstractContextManager[Any]:
    """Return a context in which each call of `scaled_dot_product_attention` is measured.

    `report` is given the largest logit of each call, `failed` the error where one cannot be
    measured (ragged or empty inputs): the call itself goes on.
    """
    overrides = import_module("torch.overrides")
    attention = import_module("torch.nn.functional").scaled_dot_product_attention

    def look(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is attention:
            try:
                top = _of_call(*args, **given)
            except Exception as error:  # whatever torch raises, the call itself goes on
                failed(error)
            else:
                report(top)
        return func(*args, **given)

    mode = type("AttentionMode", (overrides.TorchFunctionMode,), {"__torch_function__": look})
    found: AbstractContextManager[Any] = mode()
    return found


def _of_call(  # noqa: PLR0917  the signature of scaled_dot_product_attention
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    del value, dropout_p, enable_gqa
    return largest_logit(query, key, scale=scale, mask=attn_mask, causal=is_causal)
