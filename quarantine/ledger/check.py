"""What is wrong with a history: samples twice or missing, gaps, disagreements, damage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A query for one kind of problem.

    Attributes:
        query: with `{where}` for the history and `{before}` for the step before its first; its
            columns piece, step and rank, if it has them, say where the problem is.
        words: the message, with the columns of the query in braces.
    """

    kind: str
    query: str
    words: str
    serious: bool = True


_REPLICAS = _Rule(
    kind="replicas_differ",
    query="SELECT piece, step, rank FROM deliveries WHERE {where} GROUP BY piece, step, rank "
    "HAVING count(DISTINCT digest) > 1 ORDER BY piece, step, rank",
    words="replicas of rank {rank} recorded different data for step {step}",
)
_RANKS = _Rule(
    kind="ranks_differ",
    query="WITH odd AS (SELECT piece, step FROM deliveries WHERE {where} GROUP BY piece, step "
    "HAVING count(DISTINCT (epoch, first_position, end_position)) > 1), "
    "told AS (SELECT piece, step, rank, epoch, first_position, end_position, "
    "first_value(rank) OVER low AS lowest, first_value(epoch) OVER low AS its_epoch, "
    "first_value(first_position) OVER low AS its_first, "
    "first_value(end_position) OVER low AS its_end FROM deliveries SEMI JOIN odd "
    "USING (piece, step) WINDOW low AS (PARTITION BY piece, step ORDER BY rank, replica)) "
    "SELECT DISTINCT ON (piece, step) * FROM told "
    "WHERE (epoch, first_position, end_position) <> (its_epoch, its_first, its_end) "
    "ORDER BY piece, step, rank",
    words="rank {rank} recorded positions {first_position} to {end_position} of epoch {epoch} for "
    "step {step}, rank {lowest} positions {its_first} to {its_end} of epoch {its_epoch}",
)
MASKED = "masked_on_some_ranks"
_MASKED_WORDS = (
    "rank {rank} could not read block {block} and masked it, rank {reader} trained on its "
    "documents at step {step}, so their global_target_tokens are not the same there"
)
# The record of a rank has no denominator of the loss. Where one masked a block and another trained
# on the documents of it, theirs differ.
_MASKED = _Rule(
    kind=MASKED,
    query="WITH lost AS (SELECT piece, rank, min(step) AS since, "
    "TRY_CAST(content->>'block' AS BIGINT) AS block, "
    "TRY_CAST(content->>'first_document' AS BIGINT)::HUGEINT AS low, "
    "low + TRY_CAST(content->>'documents' AS BIGINT) AS high FROM events "
    "WHERE {where} AND event = 'corrupt_block' GROUP BY piece, rank, content) "
    "SELECT l.piece, l.rank, l.block, min(s.step) AS step, arg_min(s.rank, s.step) AS reader "
    "FROM lost l JOIN (SELECT piece, step, rank, doc FROM segments WHERE {where}) s "
    "ON s.piece = l.piece AND s.rank <> l.rank AND s.step >= l.since "
    "AND s.doc >= l.low AND s.doc < l.high "
    "WHERE NOT EXISTS (FROM lost o WHERE o.piece = s.piece AND o.rank = s.rank "
    "AND o.block = l.block AND o.since <= s.step) "
    "GROUP BY l.piece, l.rank, l.block ORDER BY step, l.piece, l.rank, l.block",
    words=_MASKED_WORDS,
)
_TWICE_RECORDED = _Rule(
    kind="recorded_twice",
    query="SELECT piece, step, rank, count(*) AS times FROM deliveries WHERE {where} "
    "GROUP BY piece, step, rank, replica HAVING count(*) > 1 ORDER BY piece, step, rank",
    words="step {step} of rank {rank} is recorded {times} times in one piece",
)
# A step may become complete until a piece starts behind it: then a record is lost.
_PARTS = (
    "FROM (SELECT piece, step, ranks, dp_size, (SELECT min(c.piece) FROM pieces c "
    "WHERE c.parent = all_steps.piece AND c.fork_step >= all_steps.step) AS child "
    "FROM all_steps WHERE {where} AND NOT complete) "
)
_NEVER_RECORDED = _Rule(
    kind="step_never_recorded",
    query=_PARTS + "WHERE child IS NOT NULL ORDER BY step, piece",
    words="step {step} is recorded by {ranks} of {dp_size} ranks, and piece {child} went on from "
    "behind it",
)
_INCOMPLETE = _Rule(
    kind="incomplete_step",
    query=_PARTS + "WHERE child IS NULL ORDER BY step, piece",
    words="step {step} is recorded by {ranks} of {dp_size} ranks",
    serious=False,
)
_MISSING_STEPS = _Rule(
    kind="missing_steps",
    query="SELECT piece, before + 1 AS step, step - 1 AS last FROM (SELECT piece, step, "
    "lag(step, 1, {before}) OVER (ORDER BY step) AS before FROM (SELECT DISTINCT piece, step "
    "FROM deliveries WHERE {where})) WHERE step > before + 1 ORDER BY step",
    words="no record of steps {step} to {last}",
)
_POSITIONS = _Rule(
    kind="positions_jump",
    query="SELECT piece, step, ended, first_position FROM (SELECT piece, step, first_position, "
    "lag(end_position) OVER (PARTITION BY epoch ORDER BY step) AS ended FROM "
    "(SELECT DISTINCT piece, step, epoch, first_position, end_position FROM deliveries "
    "WHERE {where})) WHERE ended <> first_position ORDER BY step",
    words="the step before {step} ended at position {ended}, it begins at {first_position}",
)
_REPEATED_SAMPLES = _Rule(
    kind="sample_twice",
    query="SELECT piece, step, rank, epoch, first_position, before FROM (SELECT *, "
    "max(first_position + samples) OVER (PARTITION BY epoch ORDER BY first_position, step "
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM sample_runs WHERE {where}) "
    "WHERE before > first_position ORDER BY epoch, first_position",
    words="samples from position {first_position} of epoch {epoch} were delivered again at step "
    "{step}; an earlier run of samples goes up to {before}",
)
# Without a revision, a complete step delivers every position that it used up.
_MISSING_SAMPLES = _Rule(
    kind="samples_missing",
    query="SELECT piece, step, end_position - first_position AS used, samples FROM all_steps "
    "WHERE {where} AND complete AND revision = 0 AND samples <> end_position - first_position "
    "AND NOT EXISTS (FROM events e WHERE e.piece = all_steps.piece "
    "AND e.step = all_steps.step AND e.event IN ('dropped_samples', 'corrupt_block')) "
    "ORDER BY step, piece",
    words="step {step} used up {used} positions and delivered {samples} samples",
)
_DAMAGE = _Rule(
    kind="journal_damage",
    query="SELECT journal, first_byte, end_byte, reason FROM journal_damage "
    "ORDER BY journal, first_byte",
    words="journal {journal}, bytes {first_byte} to {end_byte}: {reason}",
)
RULES = (
    _REPLICAS,
    _RANKS,
    _MASKED,
    _TWICE_RECORDED,
    _NEVER_RECORDED,
    _INCOMPLETE,
    _MISSING_STEPS,
    _POSITIONS,
    _REPEATED_SAMPLES,
    _MISSING_SAMPLES,
    _DAMAGE,
)


def masked_words(*, rank: int, block: int, reader: int, step: int) -> str:
    """Return what `check` says of a block that only `rank` masked at `step`."""
    return _MASKED_WORDS.format(rank=rank, block=block, reader=reader, step=step)


def check(database: Database, spans: tuple[Span, ...], *, limit: int = 100) -> tuple[Problem, ...]:
    """Return up to `limit` problems of each kind in the history `spans`."""
    return _found(database, RULES, spans, limit)


def disagreements(
    database: Database, spans: tuple[Span, ...], *, limit: int = 100
) -> tuple[Problem, ...]:
    """Return the steps in `spans` that replicas or ranks recorded differently."""
    return _found(database, (_REPLICAS, _RANKS), spans, limit) if spans else ()


def _found(
    database: Database, rules: Sequence[_Rule], spans: tuple[Span, ...], limit: int
) -> tuple[Problem, ...]:
    where = condition(spans)
    before = spans[0].first - 1 if spans else 0
    return tuple(
        Problem(
            kind=rule.kind,
            serious=rule.serious,
            message=rule.words.format(**row),
            piece=row.get("piece"),
            step=row.get("step"),
            rank=row.get("rank"),
        )
        for rule in rules
        for row in database.table(
            f"{rule.query.format(where=where, before=before)} LIMIT {limit}"
        ).to_pylist()
    )
