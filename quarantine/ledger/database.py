"""The DuckDB file: one process at a time, one cursor for each thread, damage named."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from ...loader.errors import Busy, FormatError, MismatchError, ShardwardError, UsageError
from ...schemas import load_sql
from .faults import Damaged, Outdated, damaged, is_damage, is_shortage
from .stoppable import OutOfTime, Unstoppable, stoppable

if TYPE_CHECKING:
    from ...loader.run import Run

__all__ = ["Damaged", "Database", "Outdated", "Owner"]

SCHEMA_VERSION = 1
WAIT_SECONDS = 5.0
# Small blocks and large row groups: a column of a row group fills its last block on average by
# half, which at DuckDB's defaults costs 1.6 of 8.6 bytes a row.
_STORAGE = "BLOCK_SIZE 65536, ROW_GROUP_SIZE 245760"
_HOLDER = re.compile(r"PID (\d+)")
_NO_LOCKS = ("no locks available", "operation not supported", "function not implemented")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The run that a ledger file answers for. Journals have the same names in every run."""

    run_id: str
    plan_id: str

    @classmethod
    def of(cls, run: Run) -> Owner:
        """Return what binds a file to `run`."""
        return cls(run_id=run.run_id, plan_id=run.plan_id)


class Database:
    """An open ledger file.

    Args:
        path: the DuckDB file, made if missing.
        owner: the run that it is made for, or has to be of.
        memory: limit for DuckDB's buffers, for example "1GB".
        threads: of DuckDB.
        wait: seconds to wait for another process that holds the file.

    Attributes:
        ingesting: held by the thread that reads journals, from watermark to commit.

    Raises:
        Busy: another process holds it; its pid is named.
        Damaged: it cannot be opened for what it holds.
        Outdated: it was written by an earlier release.
        FormatError: it was written by a later release.
        MismatchError: it is of another run.
    """

    def __init__(
        self,
        path: Path,
        owner: Owner,
        *,
        memory: str = "2GB",
        threads: int = 2,
        wait: float = WAIT_SECONDS,
    ) -> None:
        self.path = path
        self.owner = owner
        self._process = os.getpid()
        self._connection = _connect(path, memory=memory, threads=threads, wait=wait)
        self._write_lock = threading.Lock()
        self.ingesting = threading.Lock()
        try:
            with self.reading():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def table(self, query: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """Return the rows of `query` as an Arrow table; safe in any thread of this process."""
        with self._cursor() as cursor, self.reading():
            relation = cursor.sql(query, params=list(parameters))
            return relation.to_arrow_table()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of `query` as tuples."""
        with self._cursor() as cursor, self.reading():
            return list(cursor.execute(query, list(parameters)).fetchall())

    def joined(self, query: str, name: str, given: pa.Table) -> pa.Table:
        """Return the rows of `query`, which may read the table `given` under `name`."""
        with self._cursor() as cursor, self.reading():
            cursor.register(name, given)
            return cursor.sql(query).to_arrow_table()

    @contextmanager
    def batches(self, query: str) -> Iterator[pa.RecordBatchReader]:
        """Yield a reader over the rows of `query`, for answers that do not fit in memory."""
        with self._cursor() as cursor, self.reading():
            yield cursor.sql(query).to_arrow_reader(1 << 16)

    def select(
        self, query: str, *, most: int | None = None, seconds: float | None = None
    ) -> pa.Table:
        """Return the rows of one SELECT that someone typed; nothing can be changed by it.

        Columns of one name are told apart by a number: loss, loss_1.

        Args:
            query: the SELECT.
            most: rows that are fetched at most; None fetches all.
            seconds: time after which it is stopped; None lets it run.

        Raises:
            UsageError: it is no single SELECT, or DuckDB refuses it.
            OutOfTime: its time was over.
            Unstoppable: its time was over, or Ctrl-C came, and DuckDB did not react.
            Damaged: the file is damaged. Nothing is repaired for a query that someone typed.
        """
        with self._cursor() as cursor:
            try:
                _check_select(cursor, query)
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                fetch = partial(_fetch, cursor, query, most)
                return stoppable(fetch, cursor.interrupt, seconds=seconds)
            except OutOfTime as error:
                raise OutOfTime(
                    f"{error}; narrow it (conditions on step are cheap), or give it more time "
                    "with --timeout"
                ) from error
            except duckdb.Error as error:
                if is_damage(error):
                    remedy = "; `shardward ledger rebuild --yes` makes it anew from the journals"
                    raise damaged(self.path, error, remedy) from error
                raise UsageError(f"the query was refused: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor in a transaction that commits at the end or leaves nothing behind."""
        with self._write_lock, self._cursor() as cursor, self.reading():
            cursor.execute("BEGIN TRANSACTION")
            try:
                yield cursor
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
            cursor.execute("COMMIT")

    def close(self) -> None:
        """Write everything into the file and let it go; closing twice is harmless."""
        if os.getpid() == self._process:
            self._connection.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn DuckDB's complaints about the file into `Damaged`, about the disk into ours."""
        try:
            yield
        except duckdb.Error as error:
            if is_damage(error):
                raise damaged(self.path, error) from error
            if is_shortage(error):
                raise ShardwardError(
                    f"the ledger {self.path} could not go on: {error}; free space or memory and "
                    "ask again, what was committed and the journals are not touched"
                ) from error
            raise ShardwardError(f"the ledger {self.path} could not answer: {error}") from error

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if os.getpid() != self._process:
            raise ShardwardError(
                f"the ledger {self.path} was opened by process {self._process} and is used in "
                f"process {os.getpid()} after a fork; open it there anew"
            )
        try:
            cursor = self._connection.cursor()
        except duckdb.ConnectionException as error:
            raise ShardwardError(f"the ledger {self.path} is closed; open it again") from error
        try:
            with self.reading():
                cursor.execute("USE ledger")
            yield cursor
        except Unstoppable:
            raise  # its query still runs, and a cursor in use refuses to be closed
        except BaseException:
            cursor.close()
            raise
        cursor.close()

    def _prepare(self) -> None:
        with self._cursor() as cursor:
            known = cursor.execute(
                "SELECT count(*) FROM duckdb_tables() "
                "WHERE database_name = 'ledger' AND table_name = 'facts'"
            ).fetchone()
            if known == (0,):
                cursor.execute("BEGIN TRANSACTION")
                cursor.execute(load_sql("ledger"))
                facts = {"schema_version": str(SCHEMA_VERSION), **asdict(self.owner)}
                cursor.executemany("INSERT INTO facts VALUES (?, ?)", list(facts.items()))
                cursor.execute("COMMIT")
                return
            found = cursor.execute("SELECT name, value FROM facts").fetchall()
        self._check_facts(dict(found))

    def _check_facts(self, facts: Mapping[str, str]) -> None:
        version = int(facts["schema_version"])
        if version > SCHEMA_VERSION:
            raise FormatError(
                f"the ledger {self.path} has schema version {version}, this release knows "
                f"{SCHEMA_VERSION}; use the release that wrote it, or `shardward ledger rebuild`"
            )
        if version < SCHEMA_VERSION or not facts.keys() >= asdict(self.owner).keys():
            raise Outdated(f"the ledger {self.path} has schema version {version} and is outdated")
        found = Owner(run_id=facts["run_id"], plan_id=facts["plan_id"])
        if found != self.owner:
            raise MismatchError(
                f"the ledger {self.path} is of run {found.run_id} (plan {found.plan_id[:12]}), "
                f"asked was run {self.owner.run_id} (plan {self.owner.plan_id[:12]}); let "
                "SHARDWARD_LEDGER name a directory, where each run has a file of its own, or "
                "unset it"
            )


def _connect(path: Path, *, memory: str, threads: int, wait: float) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={
            "threads": threads,
            "memory_limit": memory,
            "temp_directory": f"{path}.tmp",
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
        }
    )
    try:
        _attach(connection, path, time.monotonic() + wait)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _attach(connection: duckdb.DuckDBPyConnection, path: Path, deadline: float) -> None:
    quoted = str(path).replace("'", "''")
    while True:
        try:
            connection.execute(f"ATTACH '{quoted}' AS ledger ({_STORAGE})")
            return
        except duckdb.Error as error:
            text = str(error)
            if "lock" in text.lower() and any(sign in text.lower() for sign in _NO_LOCKS):
                raise ShardwardError(
                    f"the file system of {path} refuses locks ({text.splitlines()[0]}); the "
                    "journals are fine: set SHARDWARD_LEDGER to a directory on a local disk"
                ) from error
            if "Could not set lock" not in text:
                if is_damage(error) or isinstance(error, duckdb.SerializationException):
                    raise damaged(path, error) from error
                raise ShardwardError(f"the ledger {path} could not be opened: {text}") from error
            if time.monotonic() >= deadline:
                found = _HOLDER.search(text)
                who = f"process {found.group(1)}" if found else "another process"
                raise Busy(f"{who} holds the ledger {path}; ask again when it is done") from error
        time.sleep(0.05)


def with_unique_names(table: pa.Table) -> pa.Table:
    """Return `table` with a number after each column name that was there before."""
    names: list[str] = []
    for name in table.column_names:
        fresh, number = name, 1
        while fresh in names:
            fresh, number = f"{name}_{number}", number + 1
        names.append(fresh)
    return table.rename_columns(names)


def _check_select(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    statements = cursor.extract_statements(query)
    kinds = [statement.type for statement in statements]
    if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]):
        raise UsageError(
            "the ledger answers one SELECT at a time and nothing that changes it; "
            "to work on the data, `shardward ledger export` it"
        )


def _fetch(cursor: duckdb.DuckDBPyConnection, query: str, most: int | None) -> pa.Table:
    rows = cursor.sql(query)
    if most is not None:
        rows = rows.limit(most)
    return with_unique_names(rows.to_arrow_table())
