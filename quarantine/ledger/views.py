"""Which part of a run's history a question is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...loader.errors import NotFound
from ...loader.lineage import Span

if TYPE_CHECKING:
    from ...loader.run import Run

_OPEN = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A history: that of the head (default), of a piece, of a piece up to a step, or everything."""

    piece: int | None = None
    step: int | None = None
    everything: bool = False

    def spans(self, run: Run) -> tuple[Span, ...]:
        """Return the steps that each piece contributes, oldest first.

        Raises:
            NotFound: there is no such piece.
        """
        if self.everything:
            return tuple(
                Span(piece=item.piece, first=item.first_step, last=None) for item in run.pieces()
            )
        return run.lineage(self.piece, self.step)


EFFECTIVE = View()
ALL = View(everything=True)


def view_of(branch: int | View | None) -> View:
    """Return the view that `branch` stands for: a view, a piece's number, or None = effective."""
    if isinstance(branch, View):
        return branch
    return EFFECTIVE if branch is None else View(piece=branch)


def at_checkpoint(run: Run, text: str) -> View:
    """Return the history of a checkpoint written as `PIECE:STEP`, or `STEP` on the head's lineage.

    Raises:
        NotFound: it is neither, or outside the history.
    """
    piece, _, step = text.rpartition(":")
    if not step.isdigit() or (piece and not piece.isdigit()):
        raise NotFound(f"{text!r} is no checkpoint; write PIECE:STEP, for example 2:400")
    if max(len(step), len(piece)) > len(str(_OPEN)) or int(step) > _OPEN:
        raise NotFound(f"{text!r} is no checkpoint; steps go up to 2^63 - 1")
    if piece:
        return View(piece=int(piece), step=int(step))
    for span in run.lineage():
        if int(step) in span:
            return View(piece=span.piece, step=int(step))
    raise NotFound(f"step {step} is not in the history of the head; write PIECE:STEP")


def condition(spans: tuple[Span, ...], table: str = "") -> str:
    """Return the SQL condition that keeps the rows of `spans`; numbers only, so safe to embed."""
    prefix = f"{table}." if table else ""
    parts = [
        f"({prefix}piece = {span.piece} AND {prefix}step BETWEEN {span.first} "
        f"AND {_OPEN if span.last is None else span.last})"
        for span in spans
    ]
    return f"({' OR '.join(parts)})" if parts else "false"


def window(spans: tuple[Span, ...], first: int, last: int) -> tuple[Span, ...]:
    """Return the part of `spans` in steps `first` to `last`, both included."""
    cut = [
        Span(
            piece=span.piece,
            first=max(span.first, first),
            last=last if span.last is None else min(span.last, last),
        )
        for span in spans
    ]
    return tuple(span for span in cut if span.last is not None and span.first <= span.last)
