"""Where the bad block goes, so that the run meets it in its second half; asked of the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...loader.arrays import UInt32Array
from ...loader.errors import CorpusError
from ...loader.geometry import Geometry
from ...loader.order import EpochOrder, Layout
from ...loader.tokenizers import ByteTokenizer
from .salt import Salt
from .scale import Scale
from .texts import Text

TARGET = 0.55
LOWEST, HIGHEST = 0.5, 0.6
GUARD_WINDOWS = 2

Blocks = tuple[tuple[Text, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The corpus as blocks, and when the bad one is due.

    Attributes:
        blocks: documents of every block, in manifest order.
        steps: length of the run.
        bad_block: ordinal of the salted block, None without salt.
        first_step, last_step: when its window is consumed, 0 without salt.
    """

    blocks: Blocks
    steps: int
    bad_block: int | None = None
    first_step: int = 0
    last_step: int = 0


def cut_blocks(texts: Sequence[Text], size: int) -> Blocks:
    """Return `texts` in blocks of `size` documents, the last one maybe shorter."""
    return tuple(tuple(texts[low : low + size]) for low in range(0, len(texts), size))


def place(blocks: Blocks, salt: Salt, *, scale: Scale, seed: int) -> Placement:
    """Put the salt's block where the order consumes it at 50 to 60 % of the run.

    The order's key depends on the seed and the number of blocks, so the ranks of the block order
    are tried with the salt in them until the window starts in the second half. The run is made
    longer where even that is past 60 %.

    Raises:
        CorpusError: the corpus is too small for the run.
    """
    for rank in range(GUARD_WINDOWS, len(blocks)):
        tried = _with_salt(blocks, salt, rank=rank, scale=scale, seed=seed)
        if tried.first_step >= LOWEST * scale.steps:
            return tried
    raise too_small(blocks, scale)


def too_small(blocks: Blocks, scale: Scale) -> CorpusError:
    """Return the error for a corpus that cannot feed the run."""
    size = sum(len(text.text.encode()) for block in blocks for text in block)
    return CorpusError(
        f"the corpus holds {size / 1e6:.2f} MB in {sum(map(len, blocks))} documents, a run of "
        f"{scale.steps} steps and the search in it need {_needed(scale) / 1e6:.1f} MB; give more "
        "text with --corpus"
    )


def large_enough(blocks: Blocks, scale: Scale) -> bool:
    """Return whether the corpus feeds the run with some to spare."""
    size = sum(len(text.text.encode()) for block in blocks for text in block)
    return size >= _needed(scale) and len(blocks) > 2 * GUARD_WINDOWS + scale.shard_blocks


def _needed(scale: Scale) -> int:
    return int(1.25 * scale.steps * scale.tokens_per_step)


def _with_salt(blocks: Blocks, salt: Salt, *, rank: int, scale: Scale, seed: int) -> Placement:
    order = _order([*blocks, salt.block], scale, seed).block_order
    bad = int(order[rank])
    placed = [list(block) for block in (*blocks[:bad], salt.block, *blocks[bad:])]
    _scatter(placed, salt.scattered, order, rank=rank, scale=scale, seed=seed)
    starts = _order(placed, scale, seed).window_starts
    first = int(starts[rank]) // scale.batch + 1
    last = (int(starts[rank + 1]) - 1) // scale.batch + 1
    steps = scale.steps if first <= HIGHEST * scale.steps else round(first / TARGET)
    return Placement(
        blocks=tuple(tuple(block) for block in placed),
        steps=steps,
        bad_block=bad,
        first_step=first,
        last_step=last,
    )


def _scatter(
    blocks: list[list[Text]],
    texts: Sequence[Text],
    order: np.ndarray[tuple[int], np.dtype[np.int64]],
    *,
    rank: int,
    scale: Scale,
    seed: int,
) -> None:
    """Spread `texts` over blocks due later, in shards that the window and its neighbours miss."""
    near = order[max(0, rank - GUARD_WINDOWS) : rank + GUARD_WINDOWS + 1] // scale.shard_blocks
    later = order[rank + GUARD_WINDOWS + 1 :]
    allowed = later[~np.isin(later // scale.shard_blocks, near)]
    if not allowed.size:
        raise too_small(tuple(tuple(block) for block in blocks), scale)
    generator = np.random.default_rng([0x5CA7, seed])
    chosen = generator.permutation(allowed)
    for number, text in enumerate(texts):
        block = blocks[int(chosen[number % chosen.size])]
        block.insert(int(generator.integers(len(block) + 1)), text)


def _order(blocks: Sequence[Sequence[Text]], scale: Scale, seed: int) -> EpochOrder:
    """Return epoch 0's order of `blocks`, as the loader will compute it from the manifest."""
    sizes = [[len(text.text.encode()) for text in block] for block in blocks]
    lengths = np.array([size for block in sizes for size in block], np.uint32)
    geometry = Geometry(
        block_documents=np.array([len(block) for block in sizes], np.int64),
        block_tokens=np.array([sum(block) for block in sizes], np.int64),
    )
    identity = ByteTokenizer().identity
    assert identity.separator is not None
    plan = scale.plan(
        fingerprint="0" * 64, seed=seed, separator=identity.separator, pad=identity.pad
    )

    def read(low: int, high: int) -> UInt32Array:
        return lengths[low:high]

    return EpochOrder(Layout(plan, geometry, read), 0)
