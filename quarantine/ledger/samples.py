"""Where one sample went: what was delivered at a position of an epoch, and when."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...loader.errors import NotFound
from ...loader.lineage import Span
from ...loader.records import RUNS
from ...loader.run import Run
from .database import Database
from .derive import Deriver
from .steps import STEP_DOCUMENTS, derived_rows
from .views import condition


def sample_rows(
    database: Database,
    run: Run,
    *,
    position: int,
    epoch: int,
    spans: tuple[Span, ...],
    deriver: Deriver | None,
) -> pa.Table:
    """Return the rows of the sample at `position`; see `Ledger.sample`.

    Raises:
        NotFound: the history has no step of the epoch, or the epoch no such position.
    """
    pieces = run.pieces()
    parts = [STEP_DOCUMENTS.empty_table()]
    for piece, step, rank, record in database.rows(
        "SELECT DISTINCT r.piece, r.step, r.rank, d.record FROM sample_runs r "  # noqa: S608
        "JOIN deliveries d USING (piece, step, rank) WHERE r.epoch = ? AND d.replica = 0 "
        "AND r.first_position <= ? AND r.first_position + r.samples > ? "
        f"AND {condition(spans, 'r')} ORDER BY r.step, r.piece, r.rank",
        [epoch, position, position],
    ):
        item = pieces[piece - 1]
        if record == RUNS:
            where = np.array([position], dtype=np.int64)
            rows = derived_rows(
                item, step=step, rank=rank, epoch=epoch, positions=where, deriver=deriver
            )
        else:
            rows = database.table(
                "SELECT step, piece, rank, epoch, sample_position, doc, token_start, "
                "token_start + token_count AS token_end FROM segments "
                "WHERE piece = ? AND step = ? AND rank = ? AND epoch = ? AND sample_position = ?",
                [piece, step, rank, epoch, position],
            ).cast(STEP_DOCUMENTS)
        parts.append(rows if rows.num_rows else _empty_sample(step, piece, rank, epoch, position))
    if len(parts) == 1:
        _check_reach(database, spans, deriver, epoch, position)
    return pa.concat_tables(parts)


def _check_reach(
    database: Database, spans: tuple[Span, ...], deriver: Deriver | None, epoch: int, position: int
) -> None:
    """Tell what cannot have been delivered from what was passed over or is still to come."""
    rows = database.rows(
        f"SELECT DISTINCT epoch FROM deliveries WHERE {condition(spans)} ORDER BY epoch"  # noqa: S608
    )
    epochs = [number for (number,) in rows]
    if epochs and epoch not in epochs:
        ran = ", ".join(map(str, epochs))
        raise NotFound(
            f"epoch {epoch} was never run in this history, the epochs are: {ran}; "
            "name one with --epoch, or ask with --all for every branch"
        )
    if deriver is None:
        return
    positions = deriver.order(epoch).positions
    if position >= positions:
        raise NotFound(
            f"epoch {epoch} has no position {position}, its positions are 0 to {positions - 1}"
        )


def _empty_sample(step: int, piece: int, rank: int, epoch: int, position: int) -> pa.Table:
    keys = [step, piece, rank, epoch, position, None, None, None]
    columns = [pa.array([key], pa.int64()) for key in keys]
    return pa.table(columns, schema=STEP_DOCUMENTS)
