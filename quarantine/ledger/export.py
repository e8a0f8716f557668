"""Export: tables and views of the ledger as Parquet, CSV or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ...loader.errors import UsageError
from ...loader.files import full_disk_named
from ...loader.records import finite_json
from .database import Database

ORDERS = {
    "step_documents": "step, rank, sample_position, doc, token_start",
    "all_step_documents": "piece, step, rank, sample_position, doc, token_start",
    "document_steps": "doc, step, rank, sample_position, token_start",
    "effective_steps": "step",
    "all_steps": "piece, step",
    "telemetry": "step, rank, name",
    "telemetry_wide": "step",
    "pieces": "piece",
    "lineage": "piece",
    "deliveries": "piece, step, rank, replica",
    "sample_runs": "piece, step, rank, first_position",
    "sample_losses": "piece, step, rank, sample",
    "checkpoints": "piece, step, rank",
    "events": "piece, step, rank",
}
FORMATS = ("parquet", "csv", "jsonl")
Write = Callable[[pa.RecordBatch], Any]


def export(database: Database, table: str, form: str, out: Path) -> int:
    """Write a table or view to the new file `out` and return its rows; bounded in memory.

    Raises:
        UsageError: no such table or format, or `out` exists.
        OSError: as the system says; a full disk names `out`.
    """
    if table not in ORDERS or form not in FORMATS:
        raise UsageError(
            f"cannot export {table!r} as {form!r}; tables are {', '.join(ORDERS)}, "
            f"formats are {', '.join(FORMATS)}"
        )
    if out.exists():
        raise UsageError(f"{out} exists and is not overwritten; choose another name")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    rows = 0
    try:
        query = f"SELECT * FROM {table} ORDER BY {ORDERS[table]}"  # noqa: S608 (one of ORDERS)
        with (
            full_disk_named(out),
            database.batches(query) as reader,
            _WRITERS[form](partial, reader.schema) as write,
        ):
            for batch in reader:
                write(batch)
                rows += batch.num_rows
        partial.rename(out)
    finally:
        partial.unlink(missing_ok=True)
    return rows


@contextmanager
def _parquet(path: Path, schema: pa.Schema) -> Iterator[Write]:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        yield writer.write_batch


@contextmanager
def _csv(path: Path, schema: pa.Schema) -> Iterator[Write]:
    plain = pa.schema(
        [pa.field(f.name, pa.string() if pa.types.is_binary(f.type) else f.type) for f in schema]
    )
    with pa_csv.CSVWriter(path, plain) as writer:
        yield lambda batch: writer.write_batch(_hexed(batch, plain))


@contextmanager
def _jsonl(path: Path, schema: pa.Schema) -> Iterator[Write]:
    plain = {name for name in schema.names if pa.types.is_binary(schema.field(name).type)}
    with path.open("w", encoding="utf-8") as stream:

        def write(batch: pa.RecordBatch) -> None:
            for row in batch.to_pylist():
                clear = {k: v.hex() if k in plain else finite_json(v) for k, v in row.items()}
                stream.write(json.dumps(clear, ensure_ascii=False, default=_iso) + "\n")

        yield write


_WRITERS: dict[str, Callable[[Path, pa.Schema], AbstractContextManager[Write]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "jsonl": _jsonl,
}


def _iso(value: datetime) -> str:
    return value.isoformat()


def _hexed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array([None if value is None else value.hex() for value in column.to_pylist()])
        if pa.types.is_binary(column.type)
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, schema=schema)
