"""Document → steps: through the inverse order to few row groups, or by one scan for many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...loader.arrays import Int64Array
from ...loader.lineage import Span
from ...loader.manifest import Manifest
from ...loader.order import EpochOrder, Layout
from ...loader.plan import Plan
from .database import Database
from .views import condition

MANY = 64
_COLUMNS = (
    "doc, step, piece, rank, epoch, sample_position, token_start, "
    "token_start + token_count AS token_end"
)
_ORDER = " ORDER BY doc, step, piece, rank, sample_position, token_start"


class WindowFinder:
    """Which raw positions a document can have: those of its window, by the inverse cipher."""

    def __init__(self, plan: Plan, manifest: Manifest) -> None:
        self._layout = Layout(plan, manifest.geometry(), manifest.lengths)
        self._orders: dict[int, EpochOrder] = {}

    def ranges(self, doc: int, epoch: int) -> tuple[int, int]:
        """Return the positions [first, end) of the window that holds `doc` in `epoch`."""
        order = self._orders.get(epoch)
        if order is None:
            order = self._orders.setdefault(epoch, EpochOrder(self._layout, epoch))
        window = int(order.window_of_documents(np.array([doc], dtype=np.int64))[0])
        return int(order.window_starts[window]), int(order.window_starts[window + 1])


def document_steps(
    database: Database,
    docs: Sequence[int] | Int64Array,
    spans: tuple[Span, ...],
    finder: WindowFinder | None,
) -> pa.Table:
    """Return one row per recorded segment of `docs` in `spans`, ordered by document and step.

    Few documents with a `finder` touch only the steps of their windows; else all rows are scanned.
    """
    wanted = np.unique(np.asarray(docs, dtype=np.int64))
    if finder is not None and len(wanted) <= MANY:
        return _by_window(database, wanted, spans, finder)
    if len(wanted) == 1:
        query = f"SELECT {_COLUMNS} FROM segments WHERE doc = ? AND {condition(spans)}{_ORDER}"  # noqa: S608
        return database.table(query, [int(wanted[0])])
    return database.joined(
        f"SELECT {_COLUMNS} FROM segments SEMI JOIN wanted USING (doc) "  # noqa: S608
        f"WHERE {condition(spans)}{_ORDER}",
        "wanted",
        pa.table({"doc": wanted}),
    )


def _by_window(
    database: Database, docs: Int64Array, spans: tuple[Span, ...], finder: WindowFinder
) -> pa.Table:
    epochs = [epoch for (epoch,) in database.rows("SELECT DISTINCT epoch FROM deliveries")]
    selects: list[str] = []
    for doc in docs.tolist():
        for epoch in sorted(epochs):
            first, end = finder.ranges(doc, epoch)
            selects += [
                f"SELECT {_COLUMNS} FROM segments WHERE doc = {doc} AND epoch = {epoch} "  # noqa: S608
                f"AND piece = {piece} AND step BETWEEN {low} AND {high} AND {condition(spans)}"
                for piece, low, high in _steps_over(database, epoch, first, end)
            ]
    if not selects:
        selects = [f"SELECT {_COLUMNS} FROM segments WHERE false"]  # noqa: S608
    return database.table(" UNION ALL ".join(selects) + _ORDER)


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
