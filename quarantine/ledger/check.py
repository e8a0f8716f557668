"""What is wrong with a history: samples twice or missing, gaps, disagreements, damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...loader.lineage import Span
from .database import Database
from .views import condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding of the check; `serious` ones mean that the record cannot be trusted as it is."""

    kind: str
    serious: bool
    message: str
    piece: int | None = None
    step: int | None = None
    rank: int | None = None


def check(database: Database, spans: tuple[Span, ...], *, limit: int = 100) -> tuple[Problem, ...]:
    """Return up to `limit` problems of each kind in the history `spans`."""
    where = condition(spans)
    before = spans[0].first - 1 if spans else 0
    return tuple(
        problem
        for find in (
            _replicas,
            _ranks,
            _twice_recorded,
            _incomplete,
            partial(_missing_steps, before=before),
            _positions,
            _repeated_samples,
            _missing_samples,
        )
        for problem in find(database, where, limit)
    ) + tuple(_damage(database, limit))


def disagreements(
    database: Database, spans: tuple[Span, ...], *, limit: int = 100
) -> tuple[Problem, ...]:
    """Return the steps in `spans` that replicas or ranks recorded differently."""
    if not spans:
        return ()
    where = condition(spans)
    return (*_replicas(database, where, limit), *_ranks(database, where, limit))


def _replicas(database: Database, where: str, limit: int) -> Iterator[Problem]:
    query = (
        "SELECT piece, step, rank FROM deliveries WHERE {} GROUP BY piece, step, rank "
        "HAVING count(DISTINCT digest) > 1 ORDER BY piece, step, rank"
    )
    for piece, step, rank in _rows(database, query, where, limit):
        yield Problem(
            kind="replicas_differ",
            serious=True,
            message=f"replicas of rank {rank} recorded different data for step {step}",
            piece=piece,
            step=step,
            rank=rank,
        )


def _ranks(database: Database, where: str, limit: int) -> Iterator[Problem]:
    query = (
        "SELECT piece, step, list(DISTINCT first_position), list(DISTINCT end_position) "
        "FROM deliveries WHERE {} GROUP BY piece, step "
        "HAVING count(DISTINCT (epoch, first_position, end_position)) > 1 ORDER BY piece, step"
    )
    for piece, step, first, end in _rows(database, query, where, limit):
        yield Problem(
            kind="ranks_differ",
            serious=True,
            message=f"ranks disagree on the positions of step {step}: from {sorted(first)} "
            f"to {sorted(end)}",
            piece=piece,
            step=step,
        )


def _twice_recorded(database: Database, where: str, limit: int) -> Iterator[Problem]:
    query = (
        "SELECT piece, step, rank, count(*) FROM deliveries WHERE {} "
        "GROUP BY piece, step, rank, replica HAVING count(*) > 1 ORDER BY piece, step, rank"
    )
    for piece, step, rank, count in _rows(database, query, where, limit):
        yield Problem(
            kind="recorded_twice",
            serious=True,
            message=f"step {step} of rank {rank} is recorded {count} times in one piece",
            piece=piece,
            step=step,
            rank=rank,
        )


def _incomplete(database: Database, where: str, limit: int) -> Iterator[Problem]:
    """A step may become complete until a piece starts behind it: then a record is lost."""
    query = (
        "FROM (SELECT piece, step, ranks, dp_size, (SELECT min(c.piece) FROM pieces c "
        "WHERE c.parent = all_steps.piece AND c.fork_step >= all_steps.step) AS child "
        "FROM all_steps WHERE {} AND NOT complete) ORDER BY child IS NULL, step, piece"
    )
    for piece, step, ranks, size, child in _rows(database, query, where, limit):
        behind = "" if child is None else f", and piece {child} went on from behind it"
        yield Problem(
            kind="incomplete_step" if child is None else "step_never_recorded",
            serious=child is not None,
            message=f"step {step} is recorded by {ranks} of {size} ranks{behind}",
            piece=piece,
            step=step,
        )


def _missing_steps(database: Database, where: str, limit: int, *, before: int) -> Iterator[Problem]:
    query = (
        f"SELECT piece, before + 1, step - 1 FROM (SELECT piece, step, lag(step, 1, {before}) "  # noqa: S608
        "OVER (ORDER BY step) AS before FROM (SELECT DISTINCT piece, step FROM deliveries "
        "WHERE {})) WHERE step > before + 1 ORDER BY step"
    )
    for piece, first, last in _rows(database, query, where, limit):
        yield Problem(
            kind="missing_steps",
            serious=True,
            message=f"no record of steps {first} to {last}",
            piece=piece,
            step=first,
        )


def _positions(database: Database, where: str, limit: int) -> Iterator[Problem]:
    query = (
        "SELECT piece, step, ended, first_position FROM (SELECT piece, step, first_position, "
        "lag(end_position) OVER (PARTITION BY epoch ORDER BY step) AS ended FROM "
        "(SELECT DISTINCT piece, step, epoch, first_position, end_position FROM deliveries "
        "WHERE {})) WHERE ended <> first_position ORDER BY step"
    )
    for piece, step, ended, first in _rows(database, query, where, limit):
        yield Problem(
            kind="positions_jump",
            serious=True,
            message=f"the step before {step} ended at position {ended}, it begins at {first}",
            piece=piece,
            step=step,
        )


def _repeated_samples(database: Database, where: str, limit: int) -> Iterator[Problem]:
    query = (
        "SELECT piece, step, rank, epoch, first_position, before FROM (SELECT *, "
        "max(first_position + samples) OVER (PARTITION BY epoch ORDER BY first_position, step "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM sample_runs WHERE {}) "
        "WHERE before > first_position ORDER BY epoch, first_position"
    )
    for piece, step, rank, epoch, first, before in _rows(database, query, where, limit):
        yield Problem(
            kind="sample_twice",
            serious=True,
            message=f"samples from position {first} of epoch {epoch} were delivered again at "
            f"step {step}; an earlier run of samples goes up to {before}",
            piece=piece,
            step=step,
            rank=rank,
        )


def _missing_samples(database: Database, where: str, limit: int) -> Iterator[Problem]:
    """Without a revision, a complete step delivers every position that it used up."""
    query = (
        "SELECT piece, step, end_position - first_position, samples FROM all_steps WHERE {} "
        "AND complete AND revision = 0 AND samples <> end_position - first_position "
        "AND NOT EXISTS (FROM events e WHERE e.piece = all_steps.piece "
        "AND e.step = all_steps.step AND e.event IN ('dropped_samples', 'corrupt_block')) "
        "ORDER BY step, piece"
    )
    for piece, step, used, samples in _rows(database, query, where, limit):
        yield Problem(
            kind="samples_missing",
            serious=True,
            message=f"step {step} used up {used} positions and delivered {samples} samples",
            piece=piece,
            step=step,
        )


def _damage(database: Database, limit: int) -> Iterator[Problem]:
    rows = database.rows(
        "SELECT journal, first_byte, end_byte, reason FROM journal_damage "
        "ORDER BY journal, first_byte LIMIT ?",
        [limit],
    )
    for journal, first, end, reason in rows:
        yield Problem(
            kind="journal_damage",
            serious=True,
            message=f"journal {journal}, bytes {first} to {end}: {reason}",
        )


def _rows(database: Database, query: str, where: str, limit: int) -> list[tuple[Any, ...]]:
    return database.rows(f"{query.format(where)} LIMIT {limit}")
