"""The loss of each source in a batch, from the loss of each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.batch import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray


def source_map(batch: Batch) -> NDArray[np.int64]:
    """Return int64[n, length]: the source code of each token, -1 where no piece lies."""
    codes = np.full(batch.tokens.shape, -1, dtype=np.int64)
    ends = batch.segments.offset + batch.segments.tokens()
    for row, first, last, code in zip(
        batch.segments.sample.tolist(),
        batch.segments.offset.tolist(),
        ends.tolist(),
        batch.sources.tolist(),
        strict=True,
    ):
        codes[row, first:last] = code
    return codes


def source_losses(
    token_loss: Any, batch: Batch, names: Sequence[str], *, shift: int = 1
) -> dict[str, float]:
    """Return {"loss/NAME": mean, "share/NAME": share of tokens} for the sources in `batch`.

    Args:
        token_loss: [n, length - shift], an array or a tensor; one loss for each target token.
        batch: the micro-batch it was computed from.
        names: source names by code, as in the manifest.
        shift: how far a target is from its position: 1 for the next token.

    Raises:
        ValueError: the shape of `token_loss` does not fit the batch.
    """
    losses = _array(token_loss)
    codes = source_map(batch)[:, shift:]
    if losses.shape != codes.shape:
        raise ValueError(
            f"token_loss has shape {losses.shape}, the batch's targets have {codes.shape}; "
            "give one loss for each target token, not their mean"
        )
    counted = (codes >= 0) & batch.loss_mask[:, shift:]
    totals = np.bincount(codes[counted], weights=losses[counted], minlength=len(names))
    counts = np.bincount(codes[counted], minlength=len(names))
    return _named(totals, counts, names)


def _named(totals: Any, counts: Any, names: Sequence[str]) -> dict[str, float]:
    every = max(int(counts.sum()), 1)
    found: dict[str, float] = {}
    for name, total, count in zip(names, totals.tolist(), counts.tolist(), strict=True):
        if count:
            found[f"loss/{name}"] = total / count
        found[f"share/{name}"] = count / every
    return found


def _array(value: Any) -> NDArray[np.float64]:
    if hasattr(value, "detach"):
        value = value.detach().float().cpu().numpy()
    return np.asarray(value, dtype=np.float64)


def merged(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the losses of a step from those of its micro-batches, weighed by their shares."""
    shares: dict[str, float] = {}
    losses: dict[str, float] = {}
    for part in parts:
        for key, share in part.items():
            kind, _, name = key.partition("/")
            if kind != "share":
                continue
            shares[name] = shares.get(name, 0.0) + share / len(parts)
            losses[name] = losses.get(name, 0.0) + share * part.get(f"loss/{name}", 0.0)
    result = {f"share/{name}": share for name, share in shares.items()}
    for name, share in shares.items():
        if share > 0:
            result[f"loss/{name}"] = losses[name] / len(parts) / share
    return result
