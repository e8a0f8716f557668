"""The rules of other trainers and monitors, written anew from what their documentation says.

Each takes the losses and gradient norms (NaN where not logged) of a log, and returns the indices
at which it would call someone. Values that are not finite are handed over as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rule = Callable[[Array, Array], list[int]]


def six_sigma(loss: Array, gradient: Array, *, window: int = 128, sigmas: float = 6.0) -> list[int]:
    """Mean and deviation of the last 128 (OLMo-core, levanter, MaxText), the loss only."""
    found = []
    for index in range(window // 2, len(loss)):
        last = loss[max(0, index - window) : index]
        if loss[index] - last.mean() > sigmas * last.std(ddof=1):
            found.append(index)
    return found


def six_sigma_both(loss: Array, gradient: Array) -> list[int]:
    """The same on loss and gradient norm, either of which calls."""
    found = set(six_sigma(loss, gradient))
    if np.isfinite(gradient).any():
        found |= set(six_sigma(gradient, loss))
    return sorted(found)


def twice_the_mean(loss: Array, gradient: Array) -> list[int]:
    """Twice the mean of the last 100, four times in a row (LLM-Foundry)."""
    found, row = [], 0
    for index in range(100, len(loss)):
        row = row + 1 if loss[index] >= 2 * loss[index - 100 : index].mean() else 0
        if row >= 4:
            found.append(index)
    return found


def thrice_the_mean(loss: Array, gradient: Array) -> list[int]:
    """Three times the running mean of what was accepted (Lightning's spike detection)."""
    found, kept = [], list(loss[:1])
    for index in range(1, len(loss)):
        if loss[index] >= 3 * float(np.mean(kept[-10:])):
            found.append(index)
        else:
            kept.append(loss[index])
    return found


def ten_times_the_first(loss: Array, gradient: Array) -> list[int]:
    """Ten times the largest of the first hundred (Megatron-LM)."""
    top = np.nanmax(loss[:100])
    return [index for index in range(100, len(loss)) if loss[index] >= 10 * top]


def dual_average(loss: Array, gradient: Array) -> list[int]:
    """A fast average above three times a slow one, on loss or gradient norm, after 500 steps."""
    found = []
    for values in (loss, gradient):
        slow = fast = None
        for index, value in enumerate(values.tolist()):
            if not np.isfinite(value):
                continue
            slow = value if slow is None else 0.99 * slow + 0.01 * value
            fast = value if fast is None else 0.9 * fast + 0.1 * value
            if index > 500 and fast > 3 * slow:
                found.append(index)
    return sorted(set(found))


def spike_score(loss: Array, gradient: Array) -> list[int]:
    """Seven deviations from the mean of the last thousand (OLMo 2's spike score)."""
    found = []
    for index in range(1000, len(loss)):
        last = loss[index - 1000 : index]
        if abs(loss[index] - last.mean()) >= 7 * last.std():
            found.append(index)
    return found


RULES: dict[str, Rule] = {
    "OLMo-core 128/6": six_sigma,
    "OLMo-core 128/6 with gradient norm": six_sigma_both,
    "LLM-Foundry 2x of 100, 4 in a row": twice_the_mean,
    "Lightning 3x": thrice_the_mean,
    "Megatron 10x": ten_times_the_first,
    "dual average .99, 3x, 500": dual_average,
    "OLMo 2 spike score 1000/7": spike_score,
}
