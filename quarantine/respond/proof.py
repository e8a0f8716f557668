"""Proof from the record: what was delivered after a skip is the old order less the holes.

Nothing is asked of the code that delivered: expected samples come from the plan and the manifest,
delivered ones from the ledger, and token digests are worked out again from the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ...loader.digest import add_digests, sample_digest
from ...loader.errors import IncidentError
from ...loader.order import EpochOrder, Layout
from ...loader.packing import WindowTable
from ...loader.plan import Plan
from ...loader.revision import Revision

Int64 = npt.NDArray[np.int64]
# The tokens of one document, without its separator.
Tokens = Callable[[int], npt.NDArray[Any]]
Rows = tuple[tuple[int, int, int], ...]
MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeliveredStep:
    """One step of one branch piece as the ledger has it, all ranks together.

    `positions` int64[n] in rank order; `sample_position`, `doc`, `token_start`, `token_end`
    int64[k] are the segments; `digest` is the sum over ranks.
    """

    step: int
    epoch: int
    start: int
    end: int
    mode: str
    digest: int
    positions: Int64
    sample_position: Int64
    doc: Int64
    token_start: Int64
    token_end: Int64

    def pieces(self) -> dict[int, Rows]:
        """Return (doc, from, to) per sample position; positions without a segment included."""
        found: dict[int, list[tuple[int, int, int]]] = {int(p): [] for p in self.positions}
        columns = (self.sample_position, self.doc, self.token_start, self.token_end)
        for position, *row in zip(*(c.tolist() for c in columns), strict=True):
            found.setdefault(position, []).append((row[0], row[1], row[2]))
        return {position: tuple(rows) for position, rows in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofCheck:
    """One statement, whether it holds, how many things were looked at, and the first failures."""

    name: str
    holds: bool
    checked: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All statements about steps `first`..`last` of branch piece `piece`."""

    piece: int
    first: int
    last: int
    checks: tuple[ProofCheck, ...]

    @property
    def holds(self) -> bool:
        """Whether every statement holds."""
        return all(check.holds for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the attachment `proof`."""
        checks = [
            {"name": c.name, "holds": c.holds, "checked": c.checked, "note": c.note}
            for c in self.checks
        ]
        return {
            "piece": self.piece,
            "first": self.first,
            "last": self.last,
            "holds": self.holds,
            "checks": checks,
        }


def prove(
    steps: Sequence[DeliveredStep],
    *,
    piece: int,
    layout: Layout,
    revision: Revision,
    before: Sequence[DeliveredStep] = (),
    tokens: Tokens | None = None,
) -> Proof:
    """Return the proof for consecutive `steps` delivered under `revision`.

    Args:
        steps: oldest first.
        piece: their branch piece.
        layout: plan, geometry and lengths.
        revision: what the branch had to leave out.
        before: steps of the superseded branch, for the comparison record against record.
        tokens: reads a document's tokens; without it digests are not worked out again.

    Raises:
        IncidentError: there are no steps.
    """
    if not steps:
        raise IncidentError(f"the ledger has no delivered step of branch piece {piece} to prove")
    expected = _Expected(layout, revision)
    checks = [
        _nothing_excluded(steps, revision, layout.plan.plan_id),
        _no_gap(steps),
        _old_order(steps, expected),
        _old_pieces(steps, expected),
    ]
    if before:
        checks.append(_as_before(steps, before, revision, layout.plan.plan_id))
    if tokens is not None:
        checks.append(_digests(steps, expected, tokens))
    return Proof(piece=piece, first=steps[0].step, last=steps[-1].step, checks=tuple(checks))


class _Expected:
    """What the plan and the revision say must be delivered."""

    def __init__(self, layout: Layout, revision: Revision) -> None:
        self.layout = layout
        self.plan: Plan = layout.plan
        self._gone = revision.documents
        self._skips = [s for s in revision.skips if s.plan_id == layout.plan.plan_id]
        self._order = lru_cache(maxsize=2)(lambda epoch: EpochOrder(layout, epoch))
        self._window = lru_cache(maxsize=3)(self._table)

    def samples(self, step: DeliveredStep) -> Iterator[tuple[int, Rows, tuple[int, ...]]]:
        """Yield (position, delivered pieces, their offsets) over the step's raw range, in order."""
        order = self._order(step.epoch)
        for position in range(step.start, step.end):
            table = self._window(step.epoch, order.window_of(position))
            whole = table.segments(np.array([position], np.int64))
            keep = ~np.isin(whole.doc, self._gone)
            if self._skipped(step.epoch, position):
                keep[:] = False
            if keep.any() or step.mode == "hold":
                part = whole.select(keep)
                rows = zip(part.doc.tolist(), part.start.tolist(), part.end.tolist(), strict=True)
                yield position, tuple(rows), tuple(part.offset.tolist())

    def _table(self, epoch: int, window: int) -> WindowTable:
        return self._order(epoch).window(window)

    def _skipped(self, epoch: int, position: int) -> bool:
        return any(s.epoch == epoch and s.start <= position < s.end for s in self._skips)


def _nothing_excluded(
    steps: Sequence[DeliveredStep], revision: Revision, plan_id: str
) -> ProofCheck:
    bad: list[str] = []
    skips = [s for s in revision.skips if s.plan_id == plan_id]
    for step in steps:
        hits = np.unique(step.doc[np.isin(step.doc, revision.documents)])
        bad += [f"document {d} at step {step.step}" for d in hits.tolist()]
        for skip in skips:
            inside = (step.sample_position >= skip.start) & (step.sample_position < skip.end)
            if skip.epoch == step.epoch and inside.any():
                bad.append(f"a skipped position at step {step.step}")
    checked = sum(step.doc.size for step in steps)
    return _check("no excluded document or position was delivered", bad, checked)


def _no_gap(steps: Sequence[DeliveredStep]) -> ProofCheck:
    bad = [
        f"step {later.step} starts at {later.epoch}:{later.start} after {now.epoch}:{now.end}"
        for now, later in pairwise(steps)
        if later.step != now.step + 1
        or (later.epoch, later.start) not in ((now.epoch, now.end), (now.epoch + 1, 0))
    ]
    return _check("the steps' raw ranges follow one another without a gap", bad, len(steps))


def _old_order(steps: Sequence[DeliveredStep], expected: _Expected) -> ProofCheck:
    bad, checked = [], 0
    for step in steps:
        wanted = [position for position, _, _ in expected.samples(step)]
        found = [p for p in step.positions.tolist() if p >= 0]
        checked += len(wanted)
        if found != wanted:
            missing = sorted(set(wanted) - set(found))[:MOST_NAMED]
            extra = sorted(set(found) - set(wanted))[:MOST_NAMED]
            bad.append(f"step {step.step}: missing {missing}, not expected {extra}, or reordered")
    return _check("the surviving samples came in the old order, each exactly once", bad, checked)


def _old_pieces(steps: Sequence[DeliveredStep], expected: _Expected) -> ProofCheck:
    bad, checked = [], 0
    for step in steps:
        found = step.pieces()
        for position, rows, _ in expected.samples(step):
            checked += 1
            if found.get(position) != rows:
                bad.append(f"position {position} at step {step.step}")
    return _check("each sample held its old pieces less the excluded ones", bad, checked)


def _as_before(
    steps: Sequence[DeliveredStep],
    before: Sequence[DeliveredStep],
    revision: Revision,
    plan_id: str,
) -> ProofCheck:
    old = {(s.epoch, p): rows for s in before for p, rows in s.pieces().items()}
    gone = set(revision.documents.tolist())
    spans = [(s.epoch, s.start, s.end) for s in revision.skips if s.plan_id == plan_id]
    bad, checked = [], 0
    for step in steps:
        for position, rows in step.pieces().items():
            if (step.epoch, position) in old:
                checked += 1
                skipped = any(e == step.epoch and a <= position < b for e, a, b in spans)
                was = old[step.epoch, position]
                if rows != (() if skipped else tuple(r for r in was if r[0] not in gone)):
                    bad.append(f"position {position} at step {step.step}")
    name = "samples of both branches agree, record against record, less the excluded pieces"
    return _check(name, bad, checked)


def _digests(steps: Sequence[DeliveredStep], expected: _Expected, tokens: Tokens) -> ProofCheck:
    bad = []
    widest = max(step.positions.size for step in steps)
    for step in steps:
        total = 0
        for position, rows, offsets in expected.samples(step):
            total = add_digests(
                total, _sample_digest(expected.plan, position, rows, offsets, tokens)
            )
        if total != step.digest and step.digest != _padded(
            expected.plan, total, widest - step.positions.size, tokens
        ):
            bad.append(f"step {step.step}: {step.digest:032x} recorded, {total:032x} worked out")
    return _check("the digests agree with the corpus", bad, len(steps))


def _padded(plan: Plan, total: int, rows: int, tokens: Tokens) -> int:
    """Return the digest with the masked rows that fill an epoch's last batch."""
    empty = _sample_digest(plan, -1, (), (), tokens)
    return add_digests(total, *([empty] * rows))


def _sample_digest(
    plan: Plan, position: int, rows: Rows, offsets: tuple[int, ...], tokens: Tokens
) -> int:
    length = sum(end - start for _, start, end in rows) if plan.seq_len is None else plan.seq_len
    row = np.full(length, plan.pad, np.uint32)
    for (doc, start, end), offset in zip(rows, offsets, strict=True):
        body = tokens(doc)
        if plan.separator is not None and end > len(body):
            body = np.append(body.astype(np.uint32), np.uint32(plan.separator))
        row[offset : offset + end - start] = body[start:end]
    columns = np.asarray(rows, np.int64).reshape(-1, 3)
    return sample_digest(position, columns[:, 0], columns[:, 1], columns[:, 2], row)


def _check(name: str, bad: Sequence[str], checked: int) -> ProofCheck:
    note = "; ".join(bad[:MOST_NAMED])
    if len(bad) > MOST_NAMED:
        note += f"; and {len(bad) - MOST_NAMED} more"
    return ProofCheck(name=name, holds=not bad, checked=int(checked), note=note)
