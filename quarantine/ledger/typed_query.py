"""Queries that someone typed: one SELECT, told apart from everything that changes something."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from ...loader.errors import UsageError


def check_select(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refuse everything but one SELECT or EXPLAIN.

    Raises:
        UsageError: it is something else.
    """
    statements = cursor.extract_statements(query)
    kinds = [statement.type for statement in statements]
    if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]):
        raise UsageError(
            "the ledger answers one SELECT at a time and nothing that changes it; "
            "to work on the data, `shardward ledger export` it"
        )


def fetch(cursor: duckdb.DuckDBPyConnection, query: str, most: int | None) -> pa.Table:
    """Return the rows of `query`, at most `most` of them; columns have names of their own."""
    rows = cursor.sql(query)
    if most is not None:
        rows = rows.limit(most)
    return with_unique_names(rows.to_arrow_table())


def with_unique_names(table: pa.Table) -> pa.Table:
    """Return `table` with a number after each column name that was there before."""
    names: list[str] = []
    for name in table.column_names:
        fresh, number = name, 1
        while fresh in names:
            fresh, number = f"{name}_{number}", number + 1
        names.append(fresh)
    return table.rename_columns(names)
