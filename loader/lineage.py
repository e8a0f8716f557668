"""Lineage: which branch piece owns which steps of the run that produced a checkpoint.

A parent owns steps up to and including a child's fork step, the child those after it. A piece may
fork more than once, and a grandchild may fork before its parent's own first step was lived through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import NotFound
from .pieces import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Steps `first` to `last` (both included; None = open) that `piece` owns in a lineage."""

    piece: int
    first: int
    last: int | None

    def __contains__(self, step: int) -> bool:
        return self.first <= step and (self.last is None or step <= self.last)


def lineage(pieces: Sequence[Piece], piece: int, last: int | None = None) -> tuple[Span, ...]:
    """Return the spans that lead to `piece` at step `last` (None = its end), oldest first.

    A piece whose steps are all cut away has no span.

    Raises:
        NotFound: there is no such piece.
    """
    by_number = {item.piece: item for item in pieces}
    spans: list[Span] = []
    number: int | None = piece
    while number is not None:
        if number not in by_number:
            raise NotFound(
                f"there is no piece {number}, the run has {len(pieces)}; "
                "see `shardward ledger timeline`"
            )
        item = by_number[number]
        if last is None or last >= item.first_step:
            spans.append(Span(piece=number, first=item.first_step, last=last))
        last = item.fork_step if last is None else min(last, item.fork_step)
        number = item.parent
    return tuple(reversed(spans))


def leaves_at(pieces: Sequence[Piece], spans_of: int, last: int | None, piece: int) -> int | None:
    """Return the last step of `piece` in the lineage of (`spans_of`, `last`).

    None stands for "open": the lineage ends in `piece` and is still growing. A piece outside the
    lineage gives -1, since no step of it is left.
    """
    by_number = {item.piece: item for item in pieces}
    number: int | None = spans_of
    while number is not None and number != piece:
        item = by_number[number]
        last = item.fork_step if last is None else min(last, item.fork_step)
        number = item.parent
    return last if number == piece else -1


def owner(spans: Sequence[Span], step: int) -> Span | None:
    """Return the span that owns `step`, or None if the lineage does not reach it."""
    return next((span for span in spans if step in span), None)
