"""Document → steps: through the inverse order to few row groups, or by one scan for many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...loader.arrays import Int64Array
from ...loader.errors import NotFound
from ...loader.lineage import Span
from ...loader.pieces import Piece
from ...loader.records import RUNS
from .database import Database
from .derive import Deriver
from .views import condition

MANY = 64
DOCUMENT_STEPS = ("doc", "step", "piece", "rank", "epoch", "sample_position", "token_start")
_COLUMNS = f"{', '.join(DOCUMENT_STEPS)}, token_start + token_count AS token_end"
_ORDER = " ORDER BY doc, step, piece, rank, sample_position, token_start"


def document_steps(
    database: Database,
    docs: Sequence[int] | Int64Array,
    spans: tuple[Span, ...],
    pieces: Sequence[Piece],
    deriver: Deriver | None,
) -> pa.Table:
    """Return one row per segment of `docs` delivered in `spans`, ordered by document and step.

    Few documents with a `deriver` touch only the steps of their windows, else all rows are
    scanned. Pieces that recorded runs only are answered from the plan.

    Raises:
        NotFound: a piece recorded runs only, and there is no manifest to derive from.
    """
    wanted = np.unique(np.asarray(docs, dtype=np.int64))
    runs = [piece for piece in pieces if piece.record == RUNS and _in(spans, piece)]
    rows = _recorded(database, wanted, spans, deriver)
    if not runs:
        return rows
    if deriver is None:
        raise NotFound(
            f"piece {runs[0].piece} recorded runs only, so its documents follow from the corpus "
            "manifest, which is not there; give it with --manifest"
        )
    derived = [_derived(database, wanted, spans, piece, deriver) for piece in runs]
    keys = [(name, "ascending") for name in DOCUMENT_STEPS]
    return pa.concat_tables([rows, *derived]).sort_by([keys[0], *keys[1:4], *keys[5:]])


def _in(spans: tuple[Span, ...], piece: Piece) -> bool:
    return any(span.piece == piece.piece for span in spans)


def _recorded(
    database: Database, docs: Int64Array, spans: tuple[Span, ...], deriver: Deriver | None
) -> pa.Table:
    if deriver is not None and len(docs) <= MANY:
        return _by_window(database, docs, spans, deriver)
    return database.joined(
        f"SELECT {_COLUMNS} FROM segments SEMI JOIN wanted USING (doc) "  # noqa: S608
        f"WHERE {condition(spans)}{_ORDER}",
        "wanted",
        pa.table({"doc": docs}),
    )


def _by_window(
    database: Database, docs: Int64Array, spans: tuple[Span, ...], deriver: Deriver
) -> pa.Table:
    selects: list[str] = []
    for doc in docs.tolist():
        for epoch in _epochs(database):
            first, end = deriver.window_range(doc, epoch)
            selects += [
                f"SELECT {_COLUMNS} FROM segments WHERE doc = {doc} AND epoch = {epoch} "  # noqa: S608
                f"AND piece = {piece} AND step BETWEEN {low} AND {high} AND {condition(spans)}"
                for piece, low, high in _steps_over(database, epoch, first, end)
            ]
    if not selects:
        selects = [f"SELECT {_COLUMNS} FROM segments WHERE false"]  # noqa: S608
    return database.table(" UNION ALL ".join(selects) + _ORDER)


def _epochs(database: Database) -> list[int]:
    rows = database.rows("SELECT DISTINCT epoch FROM deliveries ORDER BY epoch")
    return [int(epoch) for (epoch,) in rows]


def _steps_over(database: Database, epoch: int, first: int, end: int) -> list[tuple[int, int, int]]:
    """Return (piece, first step, last step) of the steps that used raw positions [first, end)."""
    return [
        (int(piece), int(low), int(high))
        for piece, low, high in database.rows(
            "SELECT piece, min(step), max(step) FROM deliveries "
            "WHERE epoch = ? AND first_position < ? AND end_position > ? GROUP BY piece",
            [epoch, end, first],
        )
    ]


def _derived(
    database: Database,
    docs: Int64Array,
    spans: tuple[Span, ...],
    piece: Piece,
    deriver: Deriver,
) -> pa.Table:
    """Return the rows of a piece that recorded runs only."""
    own = tuple(span for span in spans if span.piece == piece.piece)
    parts: list[pa.Table] = []
    for epoch in _epochs(database):
        _, positions = deriver.order(epoch).positions_of(docs)
        delivered = database.joined(
            "SELECT DISTINCT w.position AS sample_position, r.step, r.rank FROM sample_runs r "  # noqa: S608
            "JOIN wanted w ON w.position >= r.first_position "
            "AND w.position < r.first_position + r.samples "
            "ANTI JOIN (FROM deliveries WHERE replica = 0 AND record = 'documents') d "
            "ON d.piece = r.piece AND d.step = r.step AND d.rank = r.rank "
            f"WHERE r.epoch = {epoch} AND {condition(own, 'r')} ORDER BY sample_position",
            "wanted",
            pa.table({"position": np.unique(positions)}),
        )
        segments = deriver.segments(
            piece, epoch, np.unique(delivered["sample_position"].to_numpy())
        )
        segments = segments.filter(pc.is_in(segments["doc"], pa.array(docs)))
        parts.append(segments.join(delivered, "sample_position", join_type="inner"))
    rows = pa.concat_tables(parts)
    rows = rows.append_column("piece", pa.array(np.full(rows.num_rows, piece.piece)))
    return rows.select([*DOCUMENT_STEPS, "token_end"])
