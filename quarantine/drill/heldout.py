"""Held-out tokens by source: the plan's hold-out, which training never sees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ...loader.holdout_reader import held_out
from ...loader.manifest import Manifest
from ...loader.plan import Plan

MOST_SEQUENCES = 8


def heldout_tokens(manifest: Manifest, plan: Plan) -> dict[str, NDArray[np.int64]]:
    """Return up to `MOST_SEQUENCES` sequences of each source's held-out text.

    Returns:
        Source name → int64[n, seq_len], n >= 1; a source with too little held-out text is left
        out.
    """
    assert plan.seq_len is not None
    separator = [] if plan.separator is None else [plan.separator]
    streams: dict[str, list[NDArray[np.int64]]] = {}
    for document in held_out(manifest, plan):
        tokens = np.append(document.tokens.astype(np.int64), separator).astype(np.int64)
        streams.setdefault(document.source, []).append(tokens)
    return dict(_cut(streams, plan.seq_len))


def _cut(
    streams: dict[str, list[NDArray[np.int64]]], length: int
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    for source, parts in sorted(streams.items()):
        stream = np.concatenate(parts)
        whole = min(MOST_SEQUENCES, stream.size // length)
        if whole:
            yield source, stream[: whole * length].reshape(whole, length)
