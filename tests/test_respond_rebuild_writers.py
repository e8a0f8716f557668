"""Rebuilt Parquet files keep the types that other writers gave them."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardward.loader.errors import CorpusError
from shardward.quarantine.respond import rewrite_parquet as module
from shardward.quarantine.respond.rewrite_parquet import rewrite_parquet

ROWS = 60
GONE = (3, 41)


def keep(first: int, count: int) -> npt.NDArray[np.bool_]:
    return ~np.isin(np.arange(first, first + count), GONE)


def rewritten(source: Path) -> tuple[pq.ParquetFile, pq.ParquetFile]:
    target = source.with_suffix(".new")
    assert rewrite_parquet("s", str(source), target, keep, {"note": "x"}) == ROWS - len(GONE)
    return pq.ParquetFile(source), pq.ParquetFile(target)


def assert_same(source: Path) -> None:
    old, new = rewritten(source)
    with old, new:
        assert new.schema_arrow.equals(old.schema_arrow)
        assert new.read().equals(old.read().filter(pa.array(keep(0, ROWS))))
        kinds = [[f.schema.column(i) for i in range(len(f.schema))] for f in (old, new)]
        assert [(c.path, c.physical_type) for c in kinds[0]] == [
            (c.path, c.physical_type) for c in kinds[1]
        ]
        for one, other in zip(*kinds, strict=True):
            # DuckDB says of a plain int64 that it is one; Arrow leaves that to the physical type.
            if one.logical_type.type != "INT":
                assert other.logical_type.to_json() == one.logical_type.to_json()


DUCKDB = {
    "unsigned": "(i + 3000000000)::UINTEGER",
    "nanoseconds": "TIMESTAMP_NS '2020-01-01 00:00:00.123456789' + INTERVAL (i) SECOND",
    "decimals": "i::DECIMAL(9, 2)",
    "wide decimals": "i::DECIMAL(30, 2)",
    "lists": "[i, i + 1]",
    "structs": "{'a': i, 'b': [{'c': 'x'}]}",
    "maps": "MAP {'k': i}",
    "ids": "uuid()",
    "json": "('{\"a\": ' || i || '}')::JSON",
    "zoned": "TIMESTAMPTZ '2020-01-01 00:00:00+02' + INTERVAL (i) SECOND",
    "times": "TIME '10:00:00'",
    "small": "(i % 100)::UTINYINT",
    "blobs": "'ab'::BLOB",
}


@pytest.mark.parametrize("column", DUCKDB)
def test_a_file_of_duckdb_keeps_its_types(tmp_path: Path, column: str) -> None:
    path = tmp_path / "s.parquet"
    duckdb.sql(
        f"COPY (SELECT i AS id, 'text ' || i AS text, {DUCKDB[column]} AS c FROM range({ROWS}) "
        f"t(i)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)"
    )

    assert_same(path)


ARROW: dict[str, tuple[Any, dict[str, Any]]] = {
    "dictionary": (pa.array(["a", "b"] * 30).dictionary_encode(), {}),
    "dates": (pa.array([dt.date(2020, 1, 1)] * ROWS), {"version": "1.0"}),
    "uint32 of version 1": (pa.array(range(ROWS), pa.uint32()), {"version": "1.0"}),
    "halves": (pa.array(np.arange(ROWS, dtype=np.float16)), {}),
    "fixed": (pa.array([b"abcd"] * ROWS, pa.binary(4)), {}),
    "large": (pa.array(["x"] * ROWS, pa.large_string()), {}),
    "old lists": (pa.array([[1]] * ROWS), {"use_compliant_nested_type": False}),
    "integer decimals": (
        pa.array([decimal.Decimal("1.25")] * ROWS, pa.decimal128(9, 2)),
        {"store_decimal_as_integer": True},
    ),
}


@pytest.mark.parametrize("name", ARROW)
@pytest.mark.parametrize("stored", [True, False])
def test_a_file_of_arrow_keeps_its_types(tmp_path: Path, name: str, *, stored: bool) -> None:
    column, options = ARROW[name]
    path = tmp_path / "s.parquet"
    table = pa.table({"id": range(ROWS), "c": column})
    with pq.ParquetWriter(path, table.schema, store_schema=stored, **options) as writer:
        writer.write_table(table, row_group_size=25)

    old, new = rewritten(path)
    with old, new:
        assert new.schema_arrow.equals(old.schema_arrow)
        assert new.read().equals(old.read().filter(pa.array(keep(0, ROWS))))


def int96_file(path: Path, moments: pa.Array) -> None:
    table = pa.table({"t": moments, "n": pa.array([{"in": m} for m in moments])})
    pq.write_table(
        table,
        path,
        use_deprecated_int96_timestamps=True,
        store_schema=False,
        version="1.0",
        row_group_size=25,
    )


def test_int96_timestamps_stay_with_their_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    first = 1577836800123456789
    int96_file(path, pa.array(range(first, first + ROWS), pa.timestamp("ns")))

    assert_same(path)


def test_int96_timestamps_of_sentinel_years_are_not_wrapped_around(tmp_path: Path) -> None:
    path, target = tmp_path / "s.parquet", tmp_path / "o.parquet"
    moments = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)] * (ROWS // 2)
    int96_file(path, pa.array(moments, pa.timestamp("us")))

    rewrite_parquet("s", str(path), target, keep, {})

    kept = [m for row, m in enumerate(moments) if row not in GONE]
    with pq.ParquetFile(target, coerce_int96_timestamp_unit="us") as new:
        assert new.schema.column(0).physical_type == "INT96"
        assert new.read()["t"].to_pylist() == kept
        assert [each["in"] for each in new.read()["n"].to_pylist()] == kept


def test_a_change_of_types_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.parquet"
    table = pa.table({"u": pa.array(range(ROWS), pa.uint32())})
    pq.write_table(table, path, store_schema=False)
    options = module.writer_options
    monkeypatch.setattr(
        module, "writer_options", lambda m: options(m) | {"version": "1.0", "store_schema": False}
    )

    with pytest.raises(CorpusError, match=r"s: .*u was uint32 and became int64"):
        rewrite_parquet("s", str(path), tmp_path / "o", keep, {})


def test_values_that_cannot_be_written_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"t": pa.array(range(ROWS), pa.timestamp("ns"))}), path)
    options = module.writer_options
    monkeypatch.setattr(module, "writer_options", lambda m: options(m) | {"version": "1.0"})

    with pytest.raises(CorpusError, match=r"s: cannot be rewritten .* lose data"):
        rewrite_parquet("s", str(path), tmp_path / "o", keep, {})
