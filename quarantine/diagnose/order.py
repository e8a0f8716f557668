"""Rows of a log in the order of their steps.

A run that was restarted logs steps again that it had logged before; that is its history, and is
kept. Rows that are merely out of order (several writers, a table that was sorted by something
else) are sorted, and rows of one step in a row are taken together; either is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...loader.errors import FormatError
from .series import Series

# A run is hardly restarted more often than at every twentieth point.
POINTS_PER_RESTART = 20
FEW = 3


def in_order(
    series: Mapping[str, Series], path: Path | str
) -> tuple[dict[str, Series], tuple[str, ...]]:
    """Return `series` with their rows in order, and in words what was done to them.

    Raises:
        FormatError: all losses have one and the same step; the message names `path`.
    """
    steps, notes = series["loss"].steps, []
    if len(steps) > 1 and int(steps.min()) == int(steps.max()):
        raise FormatError(
            f"{path} logs {len(steps)} losses, all of them at step {int(steps[0])}; name the "
            "column that counts the steps with --step"
        )
    found = dict(series)
    back = int((np.diff(steps) < 0).sum())
    if is_unsorted(steps, back):
        notes.append(f"the rows are out of order ({back} steps go back): sorted by step")
        found = {name: _sorted(each) for name, each in found.items()}
    twice = int((np.diff(found["loss"].steps) == 0).sum())
    if twice:
        notes.append(f"{twice} rows repeat the step before them: a step counts once, by their mean")
        found = {name: _merged(each) for name, each in found.items()}
    return found, tuple(notes)


def is_unsorted(steps: NDArray[np.int64], back: int) -> bool:
    """Whether `steps`, of which `back` are below the one before, are no history of restarts.

    A restarted run has logged some steps twice, and does not restart at every other point.
    """
    if back == 0:
        return False
    many = back > max(FEW, len(steps) // POINTS_PER_RESTART)
    return many or len(np.unique(steps)) == len(steps)


def _sorted(series: Series) -> Series:
    places = np.argsort(series.steps, kind="stable")
    return replace(series, steps=series.steps[places], values=series.values[places])


def _merged(series: Series) -> Series:
    """Return `series` with neighbouring rows of one step as their mean (NaN if one is)."""
    first = np.flatnonzero(np.diff(series.steps, prepend=series.steps[0] - 1))
    if not len(series) or len(first) == len(series):
        return series
    counts = np.diff(first, append=len(series))
    with np.errstate(invalid="ignore", over="ignore"):
        values = np.add.reduceat(series.values, first) / counts
    return replace(series, steps=series.steps[first], values=values)
