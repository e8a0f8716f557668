"""Ingest: journal bytes become rows exactly once, in slices, while the trainer writes on.

A slice inserts the rows of some bytes of each journal and moves their watermarks in one
transaction, so a killed ingester leaves either all of a slice or nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import duckdb

from ...loader.journal import iter_journal
from ...loader.journal_frame import Scan
from ...loader.lineage import Span
from ...loader.pieces import Piece
from ...loader.run import Run
from .check import Problem, disagreements
from .database import Database
from .rows import Rows
from .wide import widen

SLICE_BYTES = 6 << 20
QUICK_BYTES = 1 << 20
LEAST_SHARE = 64 << 10
PIECE_NAME = len("p000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What an ingest did: records and ids (segments) added, and the bytes still unread.

    `disagreements` are the new steps that replicas or ranks recorded differently.
    """

    records: int = 0
    ids: int = 0
    bytes: int = 0
    slices: int = 0
    unread_bytes: int = 0
    seconds: float = 0.0
    disagreements: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    records: int
    ids: int
    bytes: int
    steps: tuple[tuple[int, int], ...]


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
    slices: list[_Slice] = []
    with database.ingesting:
        known = watermarks(database)
        while seconds is None or not slices or time.monotonic() - started < seconds:
            part = _slice(database, run, known, slice_bytes)
            if part is None:
                break
            slices.append(part)
            if advance is not None:
                advance(part.bytes)
    return IngestReport(
        records=sum(part.records for part in slices),
        ids=sum(part.ids for part in slices),
        bytes=sum(part.bytes for part in slices),
        slices=len(slices),
        unread_bytes=sum(size - read for _, read, size in _behind(run, known)),
        seconds=time.monotonic() - started,
        disagreements=disagreements(database, _shared(run, _spans(slices))),
    )


def _spans(slices: Sequence[_Slice]) -> tuple[Span, ...]:
    """Return the range of new steps of each piece."""
    steps: dict[int, list[int]] = {}
    for part in slices:
        for piece, step in part.steps:
            steps.setdefault(piece, []).append(step)
    return tuple(
        Span(piece=piece, first=min(found), last=max(found))
        for piece, found in sorted(steps.items())
    )


def _shared(run: Run, spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return those of `spans` in which there is anyone to disagree with."""
    if not spans:
        return ()
    pieces = run.pieces()
    return tuple(
        span
        for span in spans
        if span.piece > len(pieces)
        or pieces[span.piece - 1].dp_size * pieces[span.piece - 1].replicas > 1
    )


def watermarks(database: Database) -> dict[str, int]:
    """Return how many bytes of each journal have been read."""
    return dict(database.rows("SELECT journal, read_bytes FROM journals"))


def unread(database: Database, run: Run) -> list[tuple[Path, int, int]]:
    """Return (journal, bytes read, bytes there) of every journal that has more to read."""
    return _behind(run, watermarks(database))


def _behind(run: Run, known: Mapping[str, int]) -> list[tuple[Path, int, int]]:
    found = [(path, known.get(path.name, 0), path.stat().st_size) for path in run.journals()]
    return [(path, read, size) for path, read, size in found if size > read]


def sync_history(database: Database, run: Run) -> None:
    """Bring the tables `pieces` and `lineage` up to the run's files."""
    pieces = [_piece_row(piece) for piece in run.pieces()]
    spans = [(span.piece, span.first, span.last) for span in run.lineage()]
    if database.history == (pieces, spans):
        return  # this process put it there, and no other can change it meanwhile
    if (
        database.rows("SELECT * FROM pieces ORDER BY piece") == pieces
        and database.rows("SELECT * FROM lineage ORDER BY piece") == spans
    ):
        database.history = (pieces, spans)
        return
    with database.transaction() as cursor:
        for name, rows in (("pieces", pieces), ("lineage", spans)):
            cursor.execute(f"DELETE FROM {name}")  # noqa: S608 (a name from the line above)
            for row in rows:
                marks = ", ".join("?" * len(row))
                cursor.execute(f"INSERT INTO {name} VALUES ({marks})", list(row))  # noqa: S608
    database.history = (pieces, spans)


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
        piece.revision_digest,
    )


def _slice(database: Database, run: Run, known: dict[str, int], slice_bytes: int) -> _Slice | None:
    """Ingest one slice and move `known` on; None when no journal holds a whole new record.

    The journals of one piece at a time, so that the rows of a piece lie together.
    """
    pending = _behind(run, known)
    for _, group in groupby(pending, key=lambda entry: entry[0].name[:PIECE_NAME]):
        journals = [(path, read) for path, read, _ in group]
        share = max(slice_bytes // len(journals), LEAST_SHARE)
        part = _slice_of(database, journals, known, share)
        if part is not None:
            return part
    return None


def _slice_of(
    database: Database, journals: Sequence[tuple[Path, int]], known: dict[str, int], share: int
) -> _Slice | None:
    rows = Rows()
    marks: list[tuple[str, int, int]] = []
    records = 0
    for path, read in journals:
        part = _read(path, read, share)
        if part is None:
            continue
        for frame in part.frames:
            rows.add(path.name, frame)
        for first, end in part.gaps:
            rows.damage(path.name, first, end, "damaged bytes between valid records")
        marks.append((path.name, read, part.end))
        records += len(part.frames)
    if not marks:
        return None
    with database.transaction() as cursor:
        _insert(cursor, rows)
        _mark(cursor, marks)
    known.update((name, end) for name, _, end in marks)
    return _Slice(
        records=records,
        ids=rows.ids,
        bytes=sum(end - read for _, read, end in marks),
        steps=tuple({(row["piece"], row["step"]) for row in rows.small["deliveries"]}),
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
        widen(cursor, names)


def _mark(cursor: duckdb.DuckDBPyConnection, marks: Iterable[tuple[str, int, int]]) -> None:
    for name, read, end in marks:
        if read == 0:
            cursor.execute("INSERT INTO journals VALUES (?, ?)", [name, end])
        else:
            cursor.execute("UPDATE journals SET read_bytes = ? WHERE journal = ?", [end, name])
