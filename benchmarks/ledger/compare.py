"""Other ways to keep the record: what one step costs the trainer, and the size."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from shardward.loader.journal import JournalWriter
from shardward.loader.records import DeliveredRecord, prepare_delivered

from .data import Corpus, records
from .results import percentile, report

Append = Callable[[DeliveredRecord], None]


def compare(home: Path, *, steps: int = 300, batch: int = 160) -> None:
    """Append the same steps in each way; every way leaves them readable after a kill."""
    corpus = Corpus(1 << 22)
    made = [ranks[0] for ranks in records(corpus, batch, 1, steps * batch * 2)][:steps]
    ids = sum(len(record.doc) for record in made)
    for name, prepare in (
        ("journal", _journal),
        ("duckdb_transaction_per_step", _duckdb),
        ("sqlite_wal_transaction_per_step", _sqlite),
        ("arrow_ipc_stream_flushed", _arrow),
        ("parquet_file_per_step", _parquet),
    ):
        place = home / name
        place.mkdir()
        append, close = prepare(place)
        found: list[float] = []
        for record in made:
            began = time.perf_counter()
            append(record)
            found.append(time.perf_counter() - began)
        close()
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        report(
            f"compare.{name}",
            p50_us=round(percentile(found, 0.5) * 1e6, 1),
            p99_us=round(percentile(found, 0.99) * 1e6, 1),
            bytes_per_id=round(size / ids, 2),
            ids_per_step=ids // len(made),
        )


def _journal(place: Path) -> tuple[Append, Callable[[], None]]:
    writer = JournalWriter(place / "journal.swj")
    # Encoding is counted too: here nothing prepares the record ahead.
    return lambda record: writer.append(prepare_delivered(record)) and None, writer.close


def _table(record: DeliveredRecord) -> pa.Table:
    return pa.table(
        {
            "step": pa.array([record.step] * len(record.doc), pa.int64()),
            "position": record.sample_positions(),
            "doc": record.doc,
            "token_start": record.token_start,
            "token_end": record.token_end,
        }
    )


_COLUMNS = "step BIGINT, position BIGINT, doc BIGINT, token_start BIGINT, token_end BIGINT"


def _duckdb(place: Path) -> tuple[Append, Callable[[], None]]:
    connection = duckdb.connect(str(place / "steps.duckdb"), config={"threads": 1})
    connection.execute(f"CREATE TABLE steps ({_COLUMNS})")

    def append(record: DeliveredRecord) -> None:
        connection.register("incoming", _table(record))
        connection.execute("INSERT INTO steps SELECT * FROM incoming")

    return append, connection.close


def _sqlite(place: Path) -> tuple[Append, Callable[[], None]]:
    connection = sqlite3.connect(place / "steps.sqlite")
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = normal")
    connection.execute(f"CREATE TABLE steps ({_COLUMNS})")

    def append(record: DeliveredRecord) -> None:
        columns = zip(*(column.to_pylist() for column in _table(record).columns), strict=True)
        with connection:
            connection.executemany("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", columns)

    return append, connection.close


def _arrow(place: Path) -> tuple[Append, Callable[[], None]]:
    sink = pa.OSFile(str(place / "steps.arrows"), "wb")
    schema = pa.schema(
        [(n, pa.int64()) for n in ("step", "position", "doc", "token_start", "token_end")]
    )
    writer = ipc.new_stream(sink, schema)

    def append(record: DeliveredRecord) -> None:
        writer.write_table(_table(record).cast(schema))
        sink.flush()

    def close() -> None:
        writer.close()
        sink.close()

    return append, close


def _parquet(place: Path) -> tuple[Append, Callable[[], None]]:
    def append(record: DeliveredRecord) -> None:
        partial = place / "partial"
        pq.write_table(_table(record), partial, compression="zstd")
        os.replace(partial, place / f"{record.step:08d}.parquet")  # noqa: PTH105

    return append, lambda: None
