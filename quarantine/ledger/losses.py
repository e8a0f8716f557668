"""What damage to the journals took from the record, for those who ask about steps.

`check` names every problem. An answer needs less: whether there is damage in the history that it
is about, and which steps it lacks for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...loader.journal import iter_journal
from ...loader.journal_lookup import is_torn
from ...loader.lineage import Span
from ...loader.run import Run
from ...loader.run_locks import is_written
from .database import Database
from .ingest import unread

SHOWN = 3
_NAME = re.compile(r"p\d+-r\d+-x\d+\.swj")
Steps = tuple[int, int | None]
"""The first and the last of some steps; None where nobody knows the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Bytes of a journal that hold no record any more.

    Attributes:
        journal: its name.
        places: (first, end) offsets of the bytes.
        steps: the steps that the journal should have and has no record of.
        torn: it only ends in the beginning of a record, as that of a writer that was killed.
    """

    journal: str
    places: tuple[tuple[int, int], ...]
    steps: tuple[Steps, ...]
    torn: bool = False

    def owner(self) -> tuple[int, int, int]:
        """Return piece, rank and replica of the process that wrote the journal."""
        piece, rank, replica = (int(part[1:]) for part in self.journal[: -len(".swj")].split("-"))
        return piece, rank, replica

    def within(self, spans: Iterable[Span]) -> Loss | None:
        """Return the loss with those of its steps that lie in `spans`; None if it touches none."""
        piece = self.owner()[0]
        own = [span for span in spans if span.piece == piece]
        steps = tuple(found for span in own for one in self.steps for found in _common(one, span))
        return replace(self, steps=steps) if own and (steps or not self.torn) else None

    def words(self) -> str:
        """Return in words what is damaged, and which steps are not known for that."""
        (first, end), more = self.places[0], len(self.places) - 1
        where = f"bytes {first} to {end}" + (f" and {more} more places" if more else "")
        if self.torn:
            return (
                f"journal {self.journal} ends in half a record, {where}, as of a writer that was "
                f"killed: whether it was given step {self.steps[0][0]} is not known"
            )
        if not self.steps:
            return (
                f"journal {self.journal} is damaged at {where}: it lacks no step between those it "
                "has, but reports of losses, completed steps or checkpoints may be gone"
            )
        known = ", ".join(map(_range, self.steps[:SHOWN]))
        rest = f" and {len(self.steps) - SHOWN} more ranges" if len(self.steps) > SHOWN else ""
        return (
            f"journal {self.journal} is damaged at {where}: what rank {self.owner()[1]} was "
            f"given in {known}{rest} is not known"
        )


def losses(database: Database, run: Run, spans: tuple[Span, ...]) -> tuple[Loss, ...]:
    """Return what was lost of the history `spans`, journals that lack steps first.

    Only of what has been read; a tail that is being written is no loss.
    """
    found = [loss.within(spans) for loss in _damaged(database, run)]
    return tuple(sorted(filter(None, found), key=lambda loss: (not loss.steps, loss.journal)))


def _damaged(database: Database, run: Run) -> Iterator[Loss]:
    places: dict[str, list[tuple[int, int]]] = {}
    for journal, first, end in database.rows(
        "SELECT journal, first_byte, end_byte FROM journal_damage ORDER BY journal, first_byte"
    ):
        places.setdefault(journal, []).append((first, end))
    behind = {path: (read, size) for path, read, size in unread(database, run)}
    tails = {
        path.name: (read, size, is_torn(path, read))
        for path, (read, size) in behind.items()
        if (part := next(iter_journal(path, read), None)) is not None and part.end == read
    }
    growing = {path.name for path in behind} - set(tails)
    # Half a record is what a reader sees of one that is being written.
    quiet = any(torn for _, _, torn in tails.values()) and is_written(run.path)
    for journal in filter(_NAME.fullmatch, sorted({*places, *tails})):
        read, size, torn = tails.get(journal, (0, 0, False))
        tail = [(read, size)] if size and not (torn and quiet) else []
        found = [*places.get(journal, []), *tail]
        if found:
            only_torn = bool(tail) and torn and len(found) == 1
            loss = Loss(journal=journal, places=tuple(found), steps=(), torn=only_torn)
            steps = _steps(database, run, loss, open_end=bool(tail), growing=journal in growing)
            yield replace(loss, steps=steps)


def _steps(
    database: Database, run: Run, loss: Loss, *, open_end: bool, growing: bool
) -> tuple[Steps, ...]:
    """Return the steps that the journal has no record of, though it, or a later piece, should.

    Args:
        database, run: whose journals they are.
        loss: of the journal.
        open_end: nobody knows what its last bytes held.
        growing: it has records that are still to be read.
    """
    piece, rank, replica = loss.owner()
    mine = f"piece = {piece} AND rank = {rank} AND replica = {replica}"
    pieces = run.pieces()
    before = pieces[piece - 1].fork_step if piece <= len(pieces) else 0
    gaps: list[Steps] = database.rows(
        f"SELECT before + 1, step - 1 FROM (SELECT step, lag(step, 1, {before}) "  # noqa: S608
        f"OVER (ORDER BY step) AS before FROM (SELECT DISTINCT step FROM deliveries WHERE {mine})) "
        "WHERE step > before + 1 ORDER BY step"
    )
    ((last, reported),) = database.rows(
        f"SELECT (SELECT coalesce(max(step), {before}) FROM deliveries WHERE {mine}), "  # noqa: S608
        f"(SELECT coalesce(max(step), 0) FROM completions WHERE {mine})"
    )
    forks = [item.fork_step for item in pieces if item.parent == piece and not growing]
    if open_end:
        gaps.append((last + 1, last + 1 if loss.torn else None))
    elif (end := max([reported, *forks])) > last:
        gaps.append((last + 1, end))
    return tuple(gaps)


def _common(steps: Steps, span: Span) -> Iterator[Steps]:
    first = max(steps[0], span.first)
    ends = [last for last in (steps[1], span.last) if last is not None]
    last = min(ends, default=None)
    if last is None or first <= last:
        yield first, last


def _range(steps: Steps) -> str:
    first, last = steps
    if last is None:
        return f"step {first} and after, if any"
    return f"step {first}" if first == last else f"steps {first} to {last}"
