"""`telemetry_wide`: the view that has a column for each signal that was ever recorded."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import duckdb

FACT = "telemetry"


def widen(cursor: duckdb.DuckDBPyConnection, names: Collection[str]) -> None:
    """Give the view a column for each of `names` that it lacks."""
    known = recorded_names(cursor)
    fresh = sorted(set(names) - set(known))
    if not fresh:
        return
    value = json.dumps([*known, *fresh])
    if known:
        cursor.execute("UPDATE facts SET value = ? WHERE name = ?", [value, FACT])
    else:
        cursor.execute("INSERT INTO facts VALUES (?, ?)", [FACT, value])
    write_view(cursor, [*known, *fresh])


def recorded_names(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the signals that the view has a column for, in the order of their columns."""
    found = cursor.execute("SELECT value FROM facts WHERE name = ?", [FACT]).fetchall()
    names: list[str] = json.loads(found[0][0]) if found else []
    return names


def write_view(cursor: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
    """Make the view with a column for each of `names`, of which there is at least one."""
    columns = [
        # Not FILTER: for each, DuckDB keeps copies of all columns, gigabytes at 400 signals.
        f"arg_min(CASE WHEN name = {_literal(name)} THEN value END, rank) AS {_identifier(column)}"
        for name, column in zip(names, wide_columns(names), strict=True)
    ]
    cursor.execute(
        f"CREATE OR REPLACE VIEW telemetry_wide AS SELECT step, piece, {', '.join(columns)} "  # noqa: S608
        "FROM telemetry GROUP BY step, piece"
    )


def wide_columns(names: Sequence[str]) -> list[str]:
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
