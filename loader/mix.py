"""How far a plan's batches are from an even mix of the corpus's sources, told before training.

For a step that holds n documents, x_s of them from source s with share p_s in the corpus, the
squared distance is sum_s (x_s / n - p_s)^2. If documents were drawn independently it would be
sum_s p_s (1 - p_s) / n on average. The mix ratio is the mean of observed over expected: 1 is as
good as independent draws, and a corpus sorted by source under too small a window is far above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .arrays import Int64Array
from .manifest import WINDOW_TOKENS, Manifest
from .order import EpochOrder, Layout
from .plan import Plan

WARN_RATIO = 4.0
"""Above this, the deviation of a batch's mix is more than twice that of independent draws."""
SAMPLED_WINDOWS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What a plan's batches look like.

    Attributes:
        window_blocks: W of the plan.
        batch: samples per step.
        ratio: observed over expected squared distance, 1 for independent draws.
        worst_distance: largest total variation distance of a step from the corpus, 0 to 1.
        steps, windows: how many were looked at.
        window_tokens: tokens of the largest window, what a process holds twice.
        read_amplification: tokens decoded by all ranks per token delivered.
        suggested_window_blocks: smallest doubled W that is not warned about; None if this W is
            fine or none within 64M tokens is.
    """

    window_blocks: int
    batch: int
    ratio: float
    worst_distance: float
    steps: int
    windows: int
    window_tokens: int
    read_amplification: float
    suggested_window_blocks: int | None

    @property
    def warning(self) -> str | None:
        """One sentence with the remedy when batches are far from the corpus's mix."""
        if self.ratio <= WARN_RATIO:
            return None
        found = self.suggested_window_blocks
        remedy = (
            "write the corpus in smaller or shuffled blocks"
            if found is None
            else f"plan window_blocks={found}"
        )
        return (
            f"batches are {self.ratio:.1f} times as far from the corpus's mix of sources as "
            f"independent draws, over {WARN_RATIO:g}; {remedy}"
        )


def measure_mix(
    manifest: Manifest, plan: Plan, *, batch: int, ranks: int = 1, epoch: int = 0
) -> Mix:
    """Return the mix of a plan's batches; reads lengths and source codes, no shard.

    Args:
        manifest: the corpus.
        plan: made for it.
        batch: samples per step.
        ranks: data-parallel ranks, each of which decodes every window.
        epoch: which order to look at.
    """
    ratio, worst, steps, windows = _distance(manifest, plan, batch, epoch)
    layout = Layout(plan, manifest.geometry(), manifest.lengths)
    return Mix(
        window_blocks=plan.window_blocks,
        batch=batch,
        ratio=ratio,
        worst_distance=worst,
        steps=steps,
        windows=windows,
        window_tokens=_largest(layout.block_stream, plan.window_blocks),
        read_amplification=ranks * manifest.header.tokens / max(int(layout.block_stream.sum()), 1),
        suggested_window_blocks=None
        if ratio <= WARN_RATIO
        else _suggest(manifest, plan, batch, epoch),
    )


def _suggest(manifest: Manifest, plan: Plan, batch: int, epoch: int) -> int | None:
    tokens, blocks = manifest.geometry().block_tokens, manifest.header.blocks
    window = plan.window_blocks
    while window < blocks:
        window = min(2 * window, blocks)
        if _largest(tokens, window) > WINDOW_TOKENS:
            return None
        wider = replace(plan, window_blocks=window)
        if _distance(manifest, wider, batch, epoch)[0] <= WARN_RATIO:
            return window
    return None


def _largest(tokens: Int64Array, window: int) -> int:
    return int(np.sort(tokens)[::-1][:window].sum())


def _distance(
    manifest: Manifest, plan: Plan, batch: int, epoch: int
) -> tuple[float, float, int, int]:
    """Return (ratio, worst total variation distance, steps, windows)."""
    codes = manifest.sources(0, manifest.header.documents)
    kinds = len(manifest.source_names)
    share = np.bincount(codes, minlength=kinds) / codes.size
    order = EpochOrder(Layout(plan, manifest.geometry(), manifest.lengths), epoch)
    chosen = np.unique(np.linspace(0, order.windows - 1, SAMPLED_WINDOWS).astype(np.int64))
    squared, expected, worst, steps = 0.0, 0.0, 0.0, 0
    for window in chosen.tolist():
        counts = _counts(order, window, codes.astype(np.int64), batch, kinds)
        documents = counts.sum(axis=1, keepdims=True)
        off = counts / np.maximum(documents, 1) - share
        squared += float((off**2).sum())
        expected += float((share * (1 - share)).sum() * (1 / np.maximum(documents, 1)).sum())
        worst = max(worst, float(np.abs(off).sum(axis=1).max(initial=0.0)) / 2)
        steps += len(counts)
    return (squared / expected if expected else 1.0), worst, steps, len(chosen)


def _counts(
    order: EpochOrder, window: int, codes: Int64Array, batch: int, kinds: int
) -> NDArray[np.float64]:
    """Return documents per step and source within a window, float64[steps, kinds]."""
    table = order.window(window)
    positions = np.arange(table.first_position, table.end_position)
    segments = table.segments(positions)
    step = segments.sample // batch
    # A window's last batch reaches into the next window; it counts only if it is nearly whole.
    whole = max(1, positions.size // batch) if positions.size else 0
    inside = step < whole
    flat = step[inside] * kinds + codes[segments.doc[inside]]
    return np.bincount(flat, minlength=whole * kinds).reshape(whole, kinds).astype(np.float64)
