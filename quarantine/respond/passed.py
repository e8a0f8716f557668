"""Counting what a published revision passes over, so that loaders know their length at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...loader.exclusion import Exclusion
from ...loader.order import EpochOrder, Layout
from ...loader.passed import count_passed, touched_windows
from ...loader.passed_store import load_passed, publish_passed

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ...loader.revision import Revision
    from ...loader.run import Run

WINDOWS = 1024
"""Windows counted without being asked: seconds, also where a window has 100,000 documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Which epochs' counts are stored now, and which would take more windows than allowed."""

    epochs: tuple[int, ...] = ()
    left: tuple[int, ...] = ()


def store_passed(
    run: Run,
    manifest: Manifest,
    revision: Revision,
    *,
    windows: int | None = WINDOWS,
    advance: Callable[[int], None] | None = None,
) -> Counted:
    """Store what `revision` passes over in each epoch that the run has ahead; safe to repeat.

    Args:
        run, manifest: which the revision is for.
        revision: published.
        windows: how many windows' lengths may be read in all; None for any number.
        advance: called with 1 after each window.
    """
    if not revision.number:
        return Counted()
    plan, room = run.plan(), windows
    layout = Layout(plan, manifest.geometry(), manifest.lengths)
    exclusion = Exclusion(revision, plan_id=plan.plan_id, mode="compact")
    stored, left = [], []
    for epoch in epochs_ahead(run):
        order = EpochOrder(layout, epoch)
        known = load_passed(run.path, revision, plan.plan_id, epoch)
        if known is None or not known.fits(order):
            touched = touched_windows(order, exclusion)
            if room is not None:
                if len(touched) > room:
                    left.append(epoch)
                    continue
                room -= len(touched)
            counts = count_passed(
                order, exclusion, plan_id=plan.plan_id, windows=touched, advance=advance
            )
            publish_passed(run.path, revision, counts)
        stored.append(epoch)
    return Counted(epochs=tuple(stored), left=tuple(left))


def epochs_ahead(run: Run) -> range:
    """Return the epochs from the head's on; of a run without an end, that one and the next.

    Raises:
        NotFound: the head stands in a piece that is not there.
    """
    head = run.head()
    if head is None:
        return range(1)
    run.lineage()  # refuses a head that stands nowhere
    first = int(head.cursor.get("epoch", 0))
    epochs = run.pieces()[head.piece - 1].terms.get("epochs")
    return range(first, epochs if isinstance(epochs, int) else first + 2)
