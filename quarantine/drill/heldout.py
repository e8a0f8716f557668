"""Held-out tokens by source: the plan's hold-out, which training never sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...loader.manifest import Manifest
from ...loader.plan import Plan

MOST_SEQUENCES = 8


def heldout_tokens(manifest: Manifest, plan: Plan) -> dict[str, NDArray[np.int64]]:
    """Return up to `MOST_SEQUENCES` sequences of each source's held-out text.

    Returns:
        Source name → int64[n, seq_len], n >= 1; a source with too little held-out text is left
        out.
    """
    assert plan.holdout is not None
    assert plan.seq_len is not None
    separator = [] if plan.separator is None else [plan.separator]
    table = manifest.documents(plan.holdout.members(manifest.documents_count), columns=("text",))
    streams: dict[str, list[int]] = {}
    limit = MOST_SEQUENCES * plan.seq_len
    for text, source in zip(table["text"].to_pylist(), table["source"].to_pylist(), strict=True):
        stream = streams.setdefault(source, [])
        if len(stream) < limit:
            stream.extend([*text.encode(), *separator])
    return {
        source: np.array(stream[: len(stream) // plan.seq_len * plan.seq_len], np.int64)[
            :limit
        ].reshape(-1, plan.seq_len)
        for source, stream in sorted(streams.items())
        if len(stream) >= plan.seq_len
    }
