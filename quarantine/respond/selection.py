"""From what a person names on the command line to one scope with its documents resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from ...loader.errors import NotFound, UsageError
from ...loader.order import EpochOrder, Layout
from .corpus import (
    check_documents,
    content_scope,
    document_facts,
    shard_documents,
    source_documents,
)
from .scopes import PositionRange, Scope
from .window import StepSource

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ...loader.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was named; exactly one field is filled.

    `suspects` are those of an incident, `found` what a file of findings names. `steps` and
    `positions` are "FIRST-LAST" (steps, both included) and "EPOCH:START-END" (raw positions, END
    not included); `copies_of` is a document whose exact copies are meant.
    """

    documents: tuple[int, ...] = ()
    content: str | None = None
    copies_of: int | None = None
    positions: str | None = None
    shard: str | None = None
    source: str | None = None
    steps: str | None = None
    suspects: bool = False
    found: bool = False

    def __post_init__(self) -> None:
        values = (
            self.documents or None,
            self.suspects or None,
            self.found or None,
            *(getattr(self, name) for name in _SINGLE),
        )
        filled = sum(value is not None for value in values)
        if filled != 1:
            raise UsageError(
                f"{filled} things are named; name exactly one of documents, content, copies, "
                "positions, shard, source, steps, suspects or a file of findings"
            )


StepRows = Callable[[int, int], Sequence[Mapping[str, Any]]]
"""From first and last step to rows with step, epoch, first_position, end_position."""
_SINGLE = ("content", "copies_of", "positions", "shard", "source", "steps")


def select(
    selection: Selection,
    manifest: Manifest,
    *,
    plan_id: str,
    ledger: StepSource | None = None,
    positions: StepRows | None = None,
) -> Scope:
    """Return the scope; content is searched for in the corpus, steps are asked of the ledger.

    Args:
        selection: what was named.
        manifest, plan_id: of the run.
        ledger: knows which documents the steps named were fed.
        positions: gives the rows of steps for `skip_scope`, where the scope shall name the
            positions of steps as well, so that a release gives back what was skipped.

    Raises:
        NotFound: the corpus has no such document, content, shard or source.
        UsageError: a range is malformed, or steps are named without a ledger.
    """
    if selection.documents:
        check_documents(manifest, selection.documents)
        return Scope.of_documents(selection.documents)
    if selection.content is not None:
        return content_scope(manifest, selection.content)
    if selection.copies_of is not None:
        facts = document_facts(manifest, selection.copies_of)
        return content_scope(manifest, facts.content or "")
    if selection.shard is not None or selection.source is not None:
        return _part(manifest, selection)
    if selection.positions is not None:
        return Scope(kind="positions", ranges=(parse_positions(selection.positions, plan_id),))
    return _steps(selection.steps or "", ledger, plan_id, positions)


def action_for(selection: Selection, asked: str | None) -> str:
    """Return what to do with what was named: positions are skipped, all else is quarantined.

    Raises:
        UsageError: positions shall be quarantined, condemned or suspected. No document would be
            left out: a position is a sample, which may hold pieces of several documents.
    """
    if selection.positions is None:
        return asked or "quarantine"
    if asked not in (None, "skip"):
        raise UsageError(
            f"positions cannot be put under {asked}, which is about documents; say --as skip to "
            "pass over them once, or name the documents: --doc, --steps, or ledger steps to find "
            "them"
        )
    return "skip"


def parse_positions(text: str, plan_id: str) -> PositionRange:
    """Return the range "EPOCH:START-END" names; UsageError when it is malformed."""
    epoch, _, rest = text.rpartition(":")
    start, _, end = rest.partition("-")
    try:
        return PositionRange(plan_id=plan_id, epoch=int(epoch or 0), start=int(start), end=int(end))
    except ValueError as error:
        raise UsageError(f"positions {text!r} are no range; write EPOCH:START-END") from error


def check_positions(scope: Scope, plan: Plan, manifest: Manifest) -> None:
    """Refuse ranges that go beyond the end of their epoch: no sample is there.

    Raises:
        NotFound: the message names the last position.
    """
    if not scope.ranges:
        return
    layout = Layout(plan, manifest.geometry(), manifest.lengths)
    for each in scope.ranges:
        positions = EpochOrder(layout, each.epoch).positions
        if each.end > positions:
            raise NotFound(
                f"epoch {each.epoch} has {positions} positions, so {each.start}-{each.end} go "
                f"beyond its end; name positions up to {positions}, which is not included"
            )


def parse_steps(text: str) -> tuple[int, int]:
    """Return (first, last) of "FIRST-LAST" or one step; UsageError when it is malformed."""
    first, _, last = text.partition("-")
    try:
        low, high = int(first), int(last or first)
    except ValueError as error:
        raise UsageError(f"steps {text!r} are no range; write FIRST-LAST") from error
    if not 1 <= low <= high:
        raise UsageError(f"steps {text!r} are no range; the first step is 1")
    return low, high


def window_scope(ledger: StepSource, first: int, last: int) -> Scope:
    """Return the scope of everything steps `first`..`last` were fed."""
    docs: set[int] = set()
    for step in range(first, last + 1):
        docs.update(pc.unique(ledger.step_documents(step)["doc"]).to_pylist())
    return Scope(kind="steps", value=f"{first}-{last}", documents=tuple(docs))


def skip_scope(steps: Sequence[Mapping[str, Any]], *, plan_id: str, first: int, last: int) -> Scope:
    """Return the scope that passes over the raw positions of `steps`, once.

    `steps` are rows with step, epoch, first_position, end_position, as the ledger has them.

    Raises:
        NotFound: a step of `first`..`last` is not among them.
    """
    by_step = {row["step"]: row for row in steps}
    missing = [step for step in range(first, last + 1) if step not in by_step]
    if missing:
        raise NotFound(f"step {missing[0]} is not recorded, so its positions cannot be skipped")
    ranges: list[PositionRange] = []
    for step in range(first, last + 1):
        row = by_step[step]
        epoch, start, end = row["epoch"], row["first_position"], row["end_position"]
        if ranges and (ranges[-1].epoch, ranges[-1].end) == (epoch, start):
            start = ranges.pop().start
        ranges.append(PositionRange(plan_id=plan_id, epoch=epoch, start=start, end=end))
    return Scope(kind="steps", value=f"{first}-{last}", ranges=tuple(ranges))


def _part(manifest: Manifest, selection: Selection) -> Scope:
    if selection.shard is not None:
        shard_documents(manifest, selection.shard)
        return Scope(kind="shard", value=selection.shard)
    source_documents(manifest, selection.source or "")
    return Scope(kind="source", value=selection.source or "")


def _steps(text: str, ledger: StepSource | None, plan_id: str, positions: StepRows | None) -> Scope:
    if ledger is None:
        raise UsageError("steps can only be named for a run with a ledger")
    first, last = parse_steps(text)
    scope = window_scope(ledger, first, last)
    if positions is None:
        return scope
    skipped = skip_scope(positions(first, last), plan_id=plan_id, first=first, last=last)
    return replace(scope, ranges=skipped.ranges)
