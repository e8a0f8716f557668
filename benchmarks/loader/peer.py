"""How a peer's batches are measured, the same way for each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .meter import Meter, peak_memory_mb


def measure(batches: Iterator[Any], count: int) -> dict[str, Any]:
    """Return the rates of `count` batches; the first one and all that precedes it are not counted.

    That favours the peer: a shuffle buffer is filled and an order is made before the clock starts.
    """
    next(batches)
    meter, tokens = Meter(), 0
    for _ in range(count):
        made = next(batches)
        tokens += int(made.size)
    return {**meter.rates(tokens), "peak_mb": peak_memory_mb(), "dtype": str(made.dtype)}


def wait_for_one(batches: Iterator[Any], began: float) -> dict[str, Any]:
    """Return the seconds from `began` to the first batch."""
    made = next(batches)
    return {
        "total_s": round(time.perf_counter() - began, 4),
        "tokens": int(made.size),
        "peak_mb": peak_memory_mb(),
    }
