"""The run as a whole: its pieces, how two histories differ, sizes."""

from __future__ import annotations

import pyarrow as pa

from ...loader.lineage import Span
from ...loader.run import Run
from .database import Database
from .ingest import unread
from .views import condition


def timeline(database: Database, run: Run) -> pa.Table:
    """Return one row per branch piece, in order.

    Columns: piece, reason, parent, fork_step, first_step and last_step recorded, kept_until (last
    step in the head's history; null when none is), incomplete steps, revision, mode, dp_size,
    record, created.
    """
    kept = {span.piece: span.last for span in run.lineage()}
    rows = database.table(
        "SELECT p.piece, reason, parent, fork_step, first_step, last_step, "
        "coalesce(incomplete, 0)::BIGINT AS incomplete, revision, mode, dp_size, record, created "
        "FROM pieces p LEFT JOIN (SELECT piece, min(step) AS first_step, max(step) AS last_step, "
        "count(*) FILTER (WHERE NOT complete) AS incomplete FROM all_steps GROUP BY piece) s "
        "ON s.piece = p.piece ORDER BY p.piece"
    )
    until = [
        (last if kept[piece] is None or last is None else min(last, kept[piece]))
        if piece in kept
        else None
        for piece, last in zip(
            rows["piece"].to_pylist(), rows["last_step"].to_pylist(), strict=True
        )
    ]
    return rows.add_column(6, "kept_until", pa.array(until, pa.int64()))


def diff(database: Database, spans: tuple[Span, ...], others: tuple[Span, ...]) -> pa.Table:
    """Return the steps that both histories have and that were fed differently.

    Steps of a piece that both share are the same by definition and not compared. The numbers of
    documents are null where runs only are recorded.
    """
    return database.table(
        f"WITH a AS ({_whole_steps(spans)}), b AS ({_whole_steps(others)}), "  # noqa: S608
        "changed AS (SELECT a.step, a.piece, b.piece AS other, "
        "a.documents AND b.documents AS known FROM a JOIN b USING (step) "
        "WHERE a.piece <> b.piece AND a.digest <> b.digest), "
        "da AS (SELECT DISTINCT c.step, doc FROM changed c JOIN segments s "
        "ON s.step = c.step AND s.piece = c.piece), "
        "db AS (SELECT DISTINCT c.step, doc FROM changed c JOIN segments s "
        "ON s.step = c.step AND s.piece = c.other) "
        "SELECT step, piece, other, CASE WHEN known THEN "
        "(SELECT count(*) FROM da WHERE da.step = c.step AND NOT EXISTS "
        "(FROM db WHERE db.step = da.step AND db.doc = da.doc)) END AS only_piece, "
        "CASE WHEN known THEN "
        "(SELECT count(*) FROM db WHERE db.step = c.step AND NOT EXISTS "
        "(FROM da WHERE da.step = db.step AND da.doc = db.doc)) END AS only_other "
        "FROM changed c ORDER BY step"
    )


def _whole_steps(spans: tuple[Span, ...]) -> str:
    """Return a query for (step, piece, digest over all ranks, whether documents are recorded).

    The digests of the ranks add up to one that is the same at any number of ranks. DuckDB
    has no sum modulo 2^128, so the halves are added by themselves.
    """
    low, high = "('0x' || hex(digest)[17:32])::UBIGINT", "('0x' || hex(digest)[1:16])::UBIGINT"
    wrap, carry = "% 18446744073709551616", "// 18446744073709551616"
    return (
        f"SELECT step, piece, (sum({low}) {wrap}, (sum({high}) + sum({low}) {carry}) {wrap}) "  # noqa: S608
        "AS digest, bool_and(record = 'documents') AS documents FROM (SELECT DISTINCT step, piece, "
        f"rank, digest, record FROM deliveries WHERE replica = 0 AND {condition(spans)}) "
        "GROUP BY step, piece"
    )


def stats(database: Database, run: Run) -> dict[str, object]:
    """Return counts of rows, bytes of files, and how much has not been read yet."""
    counts = database.table(
        "SELECT (SELECT count(*) FROM segments) AS segments, "
        "(SELECT count(*) FROM deliveries) AS records, "
        "(SELECT count(*) FROM signals) AS signals, (SELECT count(*) FROM pieces) AS pieces, "
        "(SELECT count(*) FROM journals) AS journals, "
        "(SELECT coalesce(sum(end_byte - first_byte), 0)::BIGINT FROM journal_damage) "
        "AS damaged_bytes"
    ).to_pylist()[0]
    journal_bytes = sum(path.stat().st_size for path in run.journals())
    ledger_bytes = database.path.stat().st_size
    segments = max(int(counts["segments"]), 1)
    return {
        **counts,
        "journal_bytes": journal_bytes,
        "ledger_bytes": ledger_bytes,
        "unread_bytes": sum(size - read for _, read, size in unread(database, run)),
        "journal_bytes_per_segment": round(journal_bytes / segments, 2),
        "ledger_bytes_per_segment": round(ledger_bytes / segments, 2),
    }
