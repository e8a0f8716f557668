"""Compile or load the kernels before they are needed, and say so where it takes long."""

from __future__ import annotations

from collections.abc import Callable
from threading import Timer

import numpy as np

from .band_scan import agreeing_rows, rows_sharing_a_band, value_set
from .columns import chunk_of
from .features import measure
from .signature import shingle_set, sign

PATIENCE = 1.0
"""Seconds after which a step is told of: on an idle machine loading takes less, compiling more."""
_TEXT = b"one two three four five six seven"


def warm(tell: Callable[[str], object]) -> None:
    """Bring every kernel to life; `tell` hears of each step that is not done at once.

    The compiled code is kept on disk, so this takes its time once after an installation.
    """
    for place, (what, step) in enumerate(_STEPS, start=1):
        said = (
            f"loading or compiling kernels, {place} of {len(_STEPS)}: {what}; compiled code is "
            "kept, so this is shorter the next time"
        )
        timer = Timer(PATIENCE, tell, (said,))
        timer.daemon = True
        timer.start()
        try:
            step()
        finally:
            timer.cancel()
            timer.join()


def _compare() -> None:
    low = sign(chunk_of([_TEXT])).low
    agreeing_rows(low, np.zeros(1, dtype=np.int64), low, 1)


def _scan() -> None:
    values = np.arange(8, dtype=np.uint32)
    rows_sharing_a_band((values,), (value_set(values),))


_STEPS: tuple[tuple[str, Callable[[], object]], ...] = (
    ("signatures", lambda: sign(chunk_of([_TEXT]))),
    ("features", lambda: measure(chunk_of([_TEXT]))),
    ("shingles", lambda: shingle_set(_TEXT)),
    ("comparison", _compare),
    ("scan", _scan),
)
