"""Ingest: journal bytes become rows exactly once, in slices, while the trainer writes on.

A slice inserts the rows of some bytes of each journal and moves their watermarks in one
transaction, so a killed ingester leaves either all of a slice or nothing of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from ...loader.journal import iter_journal
from ...loader.journal_frame import Scan
from ...loader.pieces import Piece
from ...loader.run import Run
from .database import Database
from .rows import Rows

SLICE_BYTES = 6 << 20
QUICK_BYTES = 1 << 20
LEAST_SHARE = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What an ingest did: records and ids (segments) added, and the bytes still unread."""

    records: int = 0
    ids: int = 0
    bytes: int = 0
    slices: int = 0
    unread_bytes: int = 0
    seconds: float = 0.0


def ingest(
    database: Database,
    run: Run,
    *,
    seconds: float | None = None,
    slice_bytes: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> IngestReport:
    """Read what is new in the run's journals, for at most about `seconds` (None = all of it).

    Args:
        database: where the rows go.
        run: whose journals are read.
        seconds: stop after the slice in which this time is over.
        slice_bytes: journal bytes in one transaction, by default 6 MB, which take about 0.3
            seconds, and less where `seconds` is short.
        advance: called with the bytes of each slice.
    """
    started = time.monotonic()
    if slice_bytes is None:
        slice_bytes = SLICE_BYTES if seconds is None or seconds >= 1 else QUICK_BYTES
    sync_history(database, run)
    done = IngestReport()
    while seconds is None or done.slices == 0 or time.monotonic() - started < seconds:
        part = _slice(database, run, slice_bytes)
        if part is None:
            break
        done = IngestReport(
            records=done.records + part.records,
            ids=done.ids + part.ids,
            bytes=done.bytes + part.bytes,
            slices=done.slices + 1,
        )
        if advance is not None:
            advance(part.bytes)
    return IngestReport(
        records=done.records,
        ids=done.ids,
        bytes=done.bytes,
        slices=done.slices,
        unread_bytes=sum(size - read for _, read, size in unread(database, run)),
        seconds=time.monotonic() - started,
    )


def watermarks(database: Database) -> dict[str, int]:
    """Return how many bytes of each journal have been read."""
    return dict(database.rows("SELECT journal, read_bytes FROM journals"))


def unread(database: Database, run: Run) -> list[tuple[Path, int, int]]:
    """Return (journal, bytes read, bytes there) of every journal that has more to read."""
    known = watermarks(database)
    found = [(path, known.get(path.name, 0), path.stat().st_size) for path in run.journals()]
    return [(path, read, size) for path, read, size in found if size > read]


def sync_history(database: Database, run: Run) -> None:
    """Bring the tables `pieces` and `lineage` up to the run's files."""
    pieces = [_piece_row(piece) for piece in run.pieces()]
    spans = [(span.piece, span.first, span.last) for span in run.lineage()]
    if (
        database.rows("SELECT * FROM pieces ORDER BY piece") == pieces
        and database.rows("SELECT * FROM lineage ORDER BY piece") == spans
    ):
        return
    with database.transaction() as cursor:
        for name, rows in (("pieces", pieces), ("lineage", spans)):
            cursor.execute(f"DELETE FROM {name}")  # noqa: S608 (a name from the line above)
            for row in rows:
                marks = ", ".join("?" * len(row))
                cursor.execute(f"INSERT INTO {name} VALUES ({marks})", list(row))  # noqa: S608


def _piece_row(piece: Piece) -> tuple[object, ...]:
    return (
        piece.piece,
        piece.parent,
        piece.fork_step,
        piece.reason,
        piece.dp_size,
        piece.replicas,
        piece.revision,
        piece.mode,
        piece.record,
        piece.launch,
        piece.created,
    )


def _slice(database: Database, run: Run, slice_bytes: int) -> IngestReport | None:
    """Ingest one slice; None when no journal holds a whole new record."""
    pending = unread(database, run)
    if not pending:
        return None
    share = max(slice_bytes // len(pending), LEAST_SHARE)
    rows = Rows()
    marks: list[tuple[str, int, int]] = []
    count = 0
    for path, read, _ in pending:
        part = _read(path, read, share)
        if part is None:
            continue
        for frame in part.frames:
            rows.add(path.name, frame)
        for first, end in part.gaps:
            rows.damage(path.name, first, end, "damaged bytes between valid records")
        marks.append((path.name, read, part.end))
        count += len(part.frames)
    if not marks:
        return None
    with database.transaction() as cursor:
        _insert(cursor, rows)
        _mark(cursor, marks)
    return IngestReport(
        records=count, ids=rows.ids, bytes=sum(end - read for _, read, end in marks)
    )


def _read(path: Path, start: int, size: int) -> Scan | None:
    parts = (part for part in iter_journal(path, start, chunk=size) if part.end > start)
    return next(parts, None)


def _insert(cursor: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    for name, table in rows.tables().items():
        cursor.register("incoming", table)
        columns = ", ".join(table.column_names)
        # The names come from this package, not from a journal.
        cursor.execute(f"INSERT INTO {name} ({columns}) SELECT * FROM incoming")  # noqa: S608
        cursor.unregister("incoming")
    names = {row["name"] for row in rows.small["signals"]}
    if names:
        _widen(cursor, names)


def _mark(cursor: duckdb.DuckDBPyConnection, marks: Iterable[tuple[str, int, int]]) -> None:
    for name, read, end in marks:
        if read == 0:
            cursor.execute("INSERT INTO journals VALUES (?, ?)", [name, end])
        else:
            cursor.execute("UPDATE journals SET read_bytes = ? WHERE journal = ?", [end, name])


def _widen(cursor: duckdb.DuckDBPyConnection, names: set[str]) -> None:
    """Give the view `telemetry_wide` a column for each of `names` that it lacks."""
    found = cursor.execute("SELECT value FROM facts WHERE name = 'telemetry'").fetchall()
    known: list[str] = json.loads(found[0][0]) if found else []
    fresh = sorted(names - set(known))
    if not fresh:
        return
    known += fresh
    value = json.dumps(known)
    if found:
        cursor.execute("UPDATE facts SET value = ? WHERE name = 'telemetry'", [value])
    else:
        cursor.execute("INSERT INTO facts VALUES ('telemetry', ?)", [value])
    columns = [
        f"arg_min(value, rank) FILTER (WHERE name = {_literal(name)}) AS {_identifier(column)}"
        for name, column in zip(known, wide_columns(known), strict=True)
    ]
    cursor.execute(
        f"CREATE OR REPLACE VIEW telemetry_wide AS SELECT step, piece, {', '.join(columns)} "  # noqa: S608
        "FROM telemetry GROUP BY step, piece"
    )


def wide_columns(names: list[str]) -> list[str]:
    """Return a column name for each signal, unique without regard to case."""
    taken = {"step", "piece"}
    columns: list[str] = []
    for name in names:
        column = name or "unnamed"
        while column.lower() in taken:
            column += "_"
        taken.add(column.lower())
        columns.append(column)
    return columns


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
