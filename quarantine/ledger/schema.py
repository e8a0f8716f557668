"""Which schema a ledger file has, whose it is, and how one of an earlier release is brought up.

A migration changes the file in place, in one transaction: whoever is killed in it leaves the file
as it was. It reads no journal, so rows whose journals are gone are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from ...loader.errors import MismatchError
from ...schemas import load_sql
from .faults import Later, Outdated
from .wide import recorded_names, write_view

if TYPE_CHECKING:
    from ...loader.run import Run

SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The run that a ledger file answers for. Journals have the same names in every run."""

    run_id: str
    plan_id: str

    @classmethod
    def of(cls, run: Run) -> Owner:
        """Return what binds a file to `run`."""
        return cls(run_id=run.run_id, plan_id=run.plan_id)


def prepare(cursor: duckdb.DuckDBPyConnection, path: Path, owner: Owner) -> int | None:
    """Make the tables of an empty file, or bring those of an earlier release up to this one.

    Returns:
        The schema version that the file had before, or None where nothing was migrated.

    Raises:
        Later: the file was written by a later release.
        Outdated: it does not say what it is, or is of no version that can be brought up.
        MismatchError: it is of another run.
    """
    found = _columns(cursor)
    if not found:
        _create(cursor, owner)
        return None
    if not {("facts", "name"), ("facts", "value")} <= found:
        raise Outdated(f"the ledger {path} has no table of facts", _read_bytes(cursor))
    facts = dict(cursor.execute("SELECT name, value FROM facts").fetchall())
    version = _checked_version(cursor, path, facts)
    _check_owner(path, owner, facts)
    if version == SCHEMA_VERSION:
        lacking = sorted(_schema_columns() - found)
        if lacking:
            table, column = lacking[0]
            raise Outdated(
                f"the ledger {path} lacks column {column} of table {table}", _read_bytes(cursor)
            )
        return None
    try:
        _migrate(cursor, version)
    except duckdb.CatalogException as error:
        raise Outdated(
            f"the ledger {path} has schema version {version} and lacks what that version has "
            f"({str(error).splitlines()[0]})",
            _read_bytes(cursor),
        ) from error
    return version


def _migrate(cursor: duckdb.DuckDBPyConnection, version: int) -> None:
    cursor.execute("BEGIN TRANSACTION")
    with ExitStack() as undo:
        undo.callback(cursor.execute, "ROLLBACK")
        for older in range(version, SCHEMA_VERSION):
            MIGRATIONS[older](cursor)
        _write_views(cursor)
        cursor.execute(
            "UPDATE facts SET value = ? WHERE name = 'schema_version'", [str(SCHEMA_VERSION)]
        )
        undo.pop_all()
    cursor.execute("COMMIT")


def _create(cursor: duckdb.DuckDBPyConnection, owner: Owner) -> None:
    cursor.execute("BEGIN TRANSACTION")
    cursor.execute(load_sql("ledger"))
    facts = {"schema_version": str(SCHEMA_VERSION), **asdict(owner)}
    cursor.executemany("INSERT INTO facts VALUES (?, ?)", list(facts.items()))
    cursor.execute("COMMIT")


def _checked_version(
    cursor: duckdb.DuckDBPyConnection, path: Path, facts: Mapping[str, str]
) -> int:
    text = facts.get("schema_version", "")
    version = int(text) if text.isdecimal() else 0
    if version > SCHEMA_VERSION:
        raise Later(
            f"the ledger {path} has schema version {version}, this release knows "
            f"{SCHEMA_VERSION}; use the release that wrote it, or `shardward ledger rebuild`, "
            "which sets the file aside",
            _read_bytes(cursor),
        )
    if version != SCHEMA_VERSION and version not in MIGRATIONS:
        raise Outdated(
            f"the ledger {path} has schema version {version or repr(text)}, this release knows "
            f"{min(MIGRATIONS)} to {SCHEMA_VERSION}",
            _read_bytes(cursor),
        )
    if not facts.keys() >= asdict(Owner(run_id="", plan_id="")).keys():
        raise Outdated(f"the ledger {path} does not say of which run it is", _read_bytes(cursor))
    return version


def _check_owner(path: Path, owner: Owner, facts: Mapping[str, str]) -> None:
    found = Owner(run_id=facts["run_id"], plan_id=facts["plan_id"])
    if found != owner:
        raise MismatchError(
            f"the ledger {path} is of run {found.run_id} (plan {found.plan_id[:12]}), "
            f"asked was run {owner.run_id} (plan {owner.plan_id[:12]}); let "
            "SHARDWARD_LEDGER name a directory, where each run has a file of its own, or "
            "unset it"
        )


def _from_1(cursor: duckdb.DuckDBPyConnection) -> None:
    """Version 2 knows the content of each piece's revision, and packs the starts of segments."""
    cursor.execute("ALTER TABLE pieces ADD COLUMN revision_digest VARCHAR")
    if _has_table(cursor, "packed_segments"):
        return
    # The first files of version 1 had the segments as they are shown now by the view.
    cursor.execute(
        "CREATE TABLE packed_segments (piece BIGINT NOT NULL, step BIGINT NOT NULL, "
        "rank BIGINT NOT NULL, epoch BIGINT NOT NULL, sample_position BIGINT NOT NULL, "
        "doc BIGINT NOT NULL, starts BIGINT[] NOT NULL, token_count BIGINT NOT NULL)"
    )
    cursor.execute(
        "INSERT INTO packed_segments SELECT piece, step, rank, epoch, sample_position, doc, "
        "CASE WHEN token_start = 0 THEN []::BIGINT[] ELSE [token_start] END, token_count "
        "FROM segments"
    )
    cursor.execute("DROP TABLE segments")


MIGRATIONS: Mapping[int, Callable[[duckdb.DuckDBPyConnection], None]] = {1: _from_1}
"""What brings the tables of a version to the next one; views are made anew after them."""


def _write_views(cursor: duckdb.DuckDBPyConnection) -> None:
    for statement in cursor.extract_statements(load_sql("ledger")):
        before, words, after = statement.query.partition("CREATE VIEW")
        if words:
            cursor.execute(f"{before}CREATE OR REPLACE VIEW{after}")
    names = recorded_names(cursor)
    if names:
        write_view(cursor, names)


def _has_table(cursor: duckdb.DuckDBPyConnection, name: str) -> bool:
    found = cursor.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE database_name = 'ledger' AND table_name = ?",
        [name],
    ).fetchone()
    return bool(found and found[0])


@cache
def _schema_columns() -> frozenset[tuple[str, str]]:
    """Return (table, column) of all that this version's file has."""
    words = re.sub("--[^\n]*", "", load_sql("ledger"))
    return frozenset(
        (table, column.split()[0])
        for table, columns in re.findall(r"CREATE TABLE (\w+) \((.*?)\);", words, re.DOTALL)
        for column in columns.split(",")
    )


def _columns(cursor: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
    """Return (table, column) of all that the file has."""
    rows = cursor.execute(
        "SELECT c.table_name, c.column_name FROM duckdb_columns() c JOIN duckdb_tables() t "
        "USING (database_name, schema_name, table_name) WHERE database_name = 'ledger'"
    ).fetchall()
    return set(rows)


def _read_bytes(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return how far each journal was read into a file that this release cannot use."""
    if not {("journals", "journal"), ("journals", "read_bytes")} <= _columns(cursor):
        return {}
    return dict(cursor.execute("SELECT journal, read_bytes FROM journals").fetchall())
