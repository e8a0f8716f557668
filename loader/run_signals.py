"""Making one decision of many ranks' signals, so that a NaN on one rank is a NaN for all.

Each rank gathers what all ranks report (an all-gather of the trainer's own, for example
`torch.distributed.all_gather_object`) and combines it here: the same input gives the same numbers
everywhere, so every rank journals, skips or stops alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import UsageError

Signals = Mapping[str, float]
Gather = Callable[[Signals], Sequence[Signals]]
"""Returns the signals of all ranks, in the order of ranks, on every rank."""

NONFINITE_RANKS = "nonfinite_ranks"


def numbers(signals: Mapping[str, Any]) -> dict[str, float]:
    """Return the signals as plain numbers, those that are None left out.

    Raises:
        UsageError: a value is not one number; its name is in the message.
    """
    found: dict[str, float] = {}
    for name, value in signals.items():
        if value is None:
            continue
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"the signal {name!r} has a name that cannot be written ({error.reason}); "
                "give it another"
            ) from error
        try:
            found[name] = value if isinstance(value, int) else float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"the signal {name} is a {type(value).__name__}, not one number ({error}); "
                "reduce it to a scalar first"
            ) from error
    return found


def reduce_signals(
    ranks: Sequence[Signals], *, weights: Sequence[float] | None = None
) -> dict[str, float]:
    """Return one value per signal: the weighted mean, or NaN if any rank's is not finite.

    Args:
        ranks: the signals of each rank, in the order of ranks; a signal may be missing on some.
        weights: of each rank, such as its target tokens; equal by default.

    Returns:
        The signals that any rank has, in the order of first sight, and `nonfinite_ranks`, the
        number of ranks with a value that is not finite.

    Raises:
        ValueError: weights are negative, or not one per rank.
    """
    shares = [1.0] * len(ranks) if weights is None else list(weights)
    if len(shares) != len(ranks) or any(share < 0 for share in shares):
        raise ValueError(
            f"{len(shares)} weights were given for {len(ranks)} ranks; "
            "give one that is not negative for each"
        )
    names = dict.fromkeys(name for signals in ranks for name in signals)
    found = {name: _mean(name, ranks, shares) for name in names}
    bad = sum(not all(map(math.isfinite, signals.values())) for signals in ranks)
    return {**found, NONFINITE_RANKS: float(bad)}


def _mean(name: str, ranks: Sequence[Signals], shares: Sequence[float]) -> float:
    pairs = [
        (signals[name], share)
        for signals, share in zip(ranks, shares, strict=True)
        if name in signals
    ]
    if not all(math.isfinite(value) for value, _ in pairs):
        return math.nan
    total = math.fsum(share for _, share in pairs)
    if total == 0:
        return math.fsum(value for value, _ in pairs) / len(pairs)
    return math.fsum(value * share for value, share in pairs) / total
