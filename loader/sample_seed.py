"""Seeds for users' transforms: one per sample, the same at any world size and after any restart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .arrays import Int64Array, UInt64Array
from .batch import Batch
from .permutation import derive_key
from .plan import Plan

TRANSFORM_KEY = 4

Transform = Callable[[Batch, UInt64Array], Batch]
"""Takes a micro-batch and one seed per row, returns the micro-batch that the trainer gets.

It runs after the step is journalled. The step's digest is of the tokens before the transform: it
proves which documents were delivered, not what a transform made of them.
"""


def sample_seeds(plan: Plan, epoch: int, positions: Int64Array) -> UInt64Array:
    """Return `derive_key(seed, 4, epoch, position)` of each position, uint64[n].

    The positions of padded rows, -1, get a seed like any other.
    """
    key = np.uint64(derive_key(plan.seed, TRANSFORM_KEY, epoch))
    mixed = (key ^ positions.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    seeds: UInt64Array = mixed ^ (mixed >> np.uint64(31))
    return seeds
