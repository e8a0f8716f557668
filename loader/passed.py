"""How many samples of each window a revision passes over: a pure function of plan and revision.

Counted once, when a revision is published, these numbers let a loader tell its length and find any
later step at once; without them the lengths of every window that the revision touches are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arrays import Int64Array
from .errors import FormatError, IntegrityError
from .exclusion import Exclusion
from .formats import Json, canonical_json, check_format, sha256_hex
from .order import EpochOrder

FORMAT = "shardward.passed"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassedCounts:
    """What `compact` passes over in one epoch.

    Attributes:
        revision: digest of the revision.
        plan_id: of the plan that lays the samples out.
        epoch: from 0.
        positions: samples of the epoch before exclusion.
        windows: int64[n], windows with a sample that is passed over, strictly increasing.
        passed: int64[n], how many in each, at least 1.
    """

    revision: str
    plan_id: str
    epoch: int
    positions: int
    windows: Int64Array
    passed: Int64Array

    def __post_init__(self) -> None:
        if self.windows.shape != self.passed.shape or self.windows.ndim != 1:
            raise ValueError("windows and passed are flat and of one length")
        if self.windows.size and (
            int(self.windows[0]) < 0
            or int(self.passed.min()) < 1
            or bool((np.diff(self.windows) <= 0).any())
        ):
            raise ValueError("windows increase from 0 and pass over at least one sample each")
        if self.epoch < 0 or sum(self.passed.tolist()) > self.positions:
            raise ValueError("an epoch is not negative and passes over no more than it has")

    def between(self, first: int, last: int) -> int:
        """Return how many samples the windows first..last-1 pass over."""
        low, high = np.searchsorted(self.windows, (first, last))
        return int(self.passed[low:high].sum())

    def survivors_before(self, order: EpochOrder) -> Int64Array:
        """Return the number of surviving samples before each window, int64[windows + 1]."""
        passed = np.zeros(order.windows + 1, np.int64)
        passed[self.windows + 1] = self.passed
        survivors: Int64Array = order.window_starts - np.cumsum(passed)
        return survivors

    def fits(self, order: EpochOrder) -> bool:
        """Return whether the counts can be of this order."""
        last = int(self.windows[-1]) if self.windows.size else -1
        return self.positions == order.positions and last < order.windows

    def to_json(self) -> dict[str, object]:
        """Return the counts as JSON, with a digest of all the rest."""
        body = self._body()
        return {**body, "digest": sha256_hex(canonical_json(body))}

    def _body(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "revision": self.revision,
            "plan_id": self.plan_id,
            "epoch": self.epoch,
            "positions": self.positions,
            "windows": self.windows.tolist(),
            "passed": self.passed.tolist(),
        }

    @classmethod
    def from_json(cls, value: Json, *, where: str) -> PassedCounts:
        """Return the counts in `value`.

        Raises:
            FormatError: unknown version, or malformed.
            IntegrityError: the digest is not that of the content.
        """
        check_format(value, name=FORMAT, version=VERSION, where=where)
        try:
            if not all(isinstance(value[name], str) for name in ("revision", "plan_id")):
                raise TypeError("revision and plan_id are digests")
            counts = cls(
                revision=value["revision"],
                plan_id=value["plan_id"],
                epoch=value["epoch"],
                positions=value["positions"],
                windows=np.array(value["windows"], dtype=np.int64),
                passed=np.array(value["passed"], dtype=np.int64),
            )
            found, said = counts.to_json(), value["digest"]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"{where} is malformed: {error}") from error
        if found != dict(value):
            raise IntegrityError(f"{where} says digest {said}, its content has {found['digest']}")
        return counts


CountsReader = Callable[[int], PassedCounts | None]
"""Returns what is known about an epoch, None where nothing was counted."""


def no_counts(epoch: int) -> None:
    """Know nothing about any epoch."""
    del epoch


def touched_windows(order: EpochOrder, exclusion: Exclusion) -> list[int]:
    """Return the windows in which `exclusion` takes anything out; reads no lengths."""
    return [window for window in range(order.windows) if exclusion.touches(order, window)]


def count_passed(
    order: EpochOrder,
    exclusion: Exclusion,
    *,
    plan_id: str,
    windows: list[int],
    advance: Callable[[int], None] | None = None,
) -> PassedCounts:
    """Return the counts of one epoch, reading the lengths of `windows`.

    Args:
        order: the epoch.
        exclusion: the revision as the plan sees it, in `compact` mode.
        plan_id: of the order's plan.
        windows: as `touched_windows` gave them.
        advance: called with 1 after each window.
    """
    passed = []
    for window in windows:
        passed.append(int(exclusion.passed(order.window(window), order.epoch).sum()))
        if advance is not None:
            advance(1)
    counts = np.array(passed, dtype=np.int64)
    return PassedCounts(
        revision=exclusion.revision.digest,
        plan_id=plan_id,
        epoch=order.epoch,
        positions=order.positions,
        windows=np.array(windows, dtype=np.int64)[counts > 0],
        passed=counts[counts > 0],
    )
