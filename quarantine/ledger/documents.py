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
MOST_RANGES = 32
"""Stretches of steps that are looked at one by one; above, one scan of all rows is quicker."""

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
    wheres = [condition(spans)]
    if deriver is not None and len(docs) <= MANY:
        stretches = _stretches(database, docs, spans, deriver)
        if len(stretches) <= MOST_RANGES:
            wheres = [f"{wheres[0]} AND {condition((one,))}" for one in stretches] or ["false"]
    selects = [
        f"SELECT {_COLUMNS} FROM segments SEMI JOIN wanted USING (doc) WHERE {where}"  # noqa: S608
        for where in wheres
    ]
    query = " UNION ALL ".join(selects) + _ORDER
    return database.joined(query, "wanted", pa.table({"doc": docs}))


def _stretches(
    database: Database, docs: Int64Array, spans: tuple[Span, ...], deriver: Deriver
) -> list[Span]:
    """Return, apart from each other, the steps of each piece that used the windows of `docs`."""
    windows = [
        (epoch, *deriver.window_range(doc, epoch))
        for epoch in _epochs(database)
        for doc in docs.tolist()
    ]
    columns = np.array(sorted(set(windows)), dtype=np.int64).reshape(-1, 3).T
    found = database.joined(
        "SELECT d.piece, min(d.step) AS first, max(d.step) AS last FROM windows w "  # noqa: S608
        "JOIN deliveries d ON d.epoch = w.epoch AND d.first_position < w.after "
        f"AND d.end_position > w.first WHERE {condition(spans, 'd')} "
        "GROUP BY d.piece, w.epoch, w.first ORDER BY ALL",
        "windows",
        pa.table(list(columns), names=["epoch", "first", "after"]),
    )
    stretches: list[Span] = []
    for piece, first, last in zip(*(column.to_pylist() for column in found.columns), strict=True):
        before = stretches[-1] if stretches else None
        if before is None or before.piece != piece or first > (before.last or 0) + 1:
            stretches.append(Span(piece=piece, first=first, last=last))
        else:
            widest = max(last, before.last or 0)
            stretches[-1] = Span(piece=piece, first=before.first, last=widest)
    return stretches


def _epochs(database: Database) -> list[int]:
    rows = database.rows("SELECT DISTINCT epoch FROM deliveries ORDER BY epoch")
    return [int(epoch) for (epoch,) in rows]


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
    for epoch in _epochs(database) or [0]:
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
