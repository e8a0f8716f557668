"""Rows of a log in the order of their steps.

A run that was restarted logs steps again that it had logged before; that is its history, and is
kept. Rows that are merely out of order (several writers, a table that was sorted by something
else) are sorted, and rows of one step in a row are taken together; either is said.
"""

from __future__ import annotations

from collections import deque
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
RECENT = 1 << 20
LARGEST = 2**63 - 1


class Order:
    """Learns in one pass, and little memory, in what order the losses of a log stand.

    A restarted run has logged some steps twice, and does not restart at every other point; rows
    that go back in any other way are out of order. Among a million rows it is known exactly
    whether a step was logged twice; in longer logs it is looked for around each step back, and a
    run that went back by more than a million rows is taken for restarted.
    """

    def __init__(self) -> None:
        self.count = self.back = self.twice = 0
        self.least, self.largest = LARGEST, -1
        self._recent: deque[NDArray[np.int64]] = deque()
        self._held = 0
        self._again = self._far = False

    def add(self, steps: NDArray[np.int64]) -> None:
        """Take the steps, int64 [n], of the next losses."""
        if not len(steps):
            return
        last = self._recent[-1][-1:] if self._recent else steps[:0]
        gaps = np.diff(steps, prepend=last)
        back = int((gaps < 0).sum())
        self.back += back
        self.twice += int((gaps == 0).sum())
        least, self.least = self.least, min(self.least, int(steps.min()))
        self.largest = max(self.largest, int(steps.max()))
        self.count += len(steps)
        self._recent.append(steps)
        self._held += len(steps)
        self._again = self._again or self.twice > 0
        if back and not self._again and self.count > RECENT:
            self._look(int(steps.min()), least)
        while self._held - len(self._recent[0]) >= RECENT:
            self._held -= len(self._recent.popleft())

    def _look(self, lowest: int, least: int) -> None:
        recent = np.concatenate(self._recent)
        self._again = len(np.unique(recent)) < len(recent)
        before = recent[: -len(self._recent[-1])]
        self._far = self._far or (len(before) > 0 and least < lowest < int(before.min()))

    def refuse_one_step(self, path: Path | str) -> None:
        """Refuse a log that has one and the same step for all its losses."""
        if self.count > 1 and self.least == self.largest:
            raise FormatError(
                f"{path} logs {self.count} losses, all of them at step {self.least}; name the "
                "column that counts the steps with --step"
            )

    @property
    def is_unsorted(self) -> bool:
        """Whether the rows are out of order, and are no history of restarts."""
        if self.back == 0:
            return False
        if self.back > max(FEW, self.count // POINTS_PER_RESTART):
            return True
        if not self._again and self.count <= RECENT:
            steps = np.concatenate(self._recent)
            self._again = len(np.unique(steps)) < len(steps)
        return not (self._again or self._far)

    def notes(self) -> tuple[str, ...]:
        """Return in words what has to be done."""
        words = []
        if self.is_unsorted:
            words.append(f"the rows are out of order ({self.back} steps go back): sorted by step")
        if self.twice:
            words.append(_repeated(self.twice))
        return tuple(words)


def in_order(
    series: Mapping[str, Series], path: Path | str
) -> tuple[dict[str, Series], tuple[str, ...]]:
    """Return `series` with their rows in order, and in words what was done to them.

    Raises:
        FormatError: all losses have one and the same step; the message names `path`.
    """
    order, found = Order(), dict(series)
    order.add(series["loss"].steps)
    order.refuse_one_step(path)
    notes = order.notes()
    if order.is_unsorted:
        found = {name: _sorted(each) for name, each in found.items()}
        notes = notes[:1]
    twice = int((np.diff(found["loss"].steps) == 0).sum())
    if twice:
        found = {name: _merged(each) for name, each in found.items()}
        notes = (*notes[: order.is_unsorted], _repeated(twice))
    return found, notes


def _repeated(rows: int) -> str:
    return f"{rows} rows repeat the step before them: a step counts once, by their mean"


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
