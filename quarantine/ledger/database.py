"""The DuckDB file: one process at a time, one cursor for each thread, damage named."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ...loader.errors import ShardwardError, UsageError
from .connection import connect
from .faults import Damaged, damaged, is_damage, is_shortage
from .schema import Owner, prepare
from .stoppable import OutOfTime, Unstoppable, stoppable
from .typed_query import check_select, fetch

__all__ = ["Damaged", "Database", "Owner"]

WAIT_SECONDS = 5.0
CLOSE_SECONDS = 5.0
"""So long a close waits for the questions of other threads before it stops them."""
MEMORY = "2GB"


class Database:
    """An open ledger file.

    Args:
        path: the DuckDB file, made if missing.
        owner: the run that it is made for, or has to be of.
        memory: limit for what DuckDB holds in memory, for example "1GB"; it spills to disk beyond.
        threads: of DuckDB.
        wait: seconds to wait for another process that holds the file.

    Attributes:
        ingesting: held by the thread that reads journals, from watermark to commit.
        history: the rows of pieces and lineage that this process found or put there, to save
            reading them again; None at first.
        migrated_from: the schema version that opening brought up to date, or None.

    Raises:
        Busy: another process holds it; its pid is named.
        Damaged: it cannot be opened for what it holds.
        Outdated: it is of no version that can be brought up to date.
        Later: it was written by a later release.
        MismatchError: it is of another run.
    """

    def __init__(
        self,
        path: Path,
        owner: Owner,
        *,
        memory: str = MEMORY,
        threads: int = 2,
        wait: float = WAIT_SECONDS,
    ) -> None:
        self.path = path
        self.owner = owner
        self._process = os.getpid()
        self._connection = connect(path, memory=memory, threads=threads, wait=wait)
        self._write_lock = threading.Lock()
        self._using = threading.Condition()
        self._cursors: dict[int, duckdb.DuckDBPyConnection] = {}
        self._closing = False
        self.ingesting = threading.Lock()
        self.history: object = None
        self.migrated_from: int | None = None
        with ExitStack() as undo:
            undo.callback(self._connection.close)  # or this process would go on to hold the file
            with self._cursor() as cursor, self.reading():
                self.migrated_from = prepare(cursor, path, owner)
            undo.pop_all()

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
                check_select(cursor, query)
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                work = partial(fetch, cursor, query, most)
                return stoppable(work, cursor.interrupt, seconds=seconds)
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
            with ExitStack() as undo:
                undo.callback(cursor.execute, "ROLLBACK")
                yield cursor
                undo.pop_all()
            cursor.execute("COMMIT")

    def close(self) -> None:
        """Write everything into the file and let it go; closing twice is harmless."""
        if os.getpid() == self._process:
            # DuckDB refuses to close a connection that a thread is using, or whose cursors are.
            with self._using:
                self._closing = True
                if not self._using.wait_for(lambda: not self._cursors, CLOSE_SECONDS):
                    for cursor in self._cursors.values():
                        cursor.interrupt()
                    self._using.wait_for(lambda: not self._cursors, CLOSE_SECONDS)
                try:
                    self._connection.close()
                except duckdb.Error as error:
                    self._closing = False
                    raise ShardwardError(
                        f"the ledger {self.path} could not be closed: {error}; end the questions "
                        "that other threads ask of it"
                    ) from error

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
        with self._using:
            if self._closing:
                raise ShardwardError(f"the ledger {self.path} is closed; open it again")
            try:
                cursor = self._connection.cursor()
            except duckdb.ConnectionException as error:
                raise ShardwardError(f"the ledger {self.path} is closed; open it again") from error
            self._cursors[id(cursor)] = cursor
        with ExitStack() as last:
            last.callback(self._leave, cursor)
            last.callback(cursor.close)
            with self.reading():
                cursor.execute("USE ledger")
            try:
                yield cursor
            except Unstoppable:
                last.pop_all()  # its query still runs, and a cursor in use refuses to be closed
                self._leave(cursor)
                raise

    def _leave(self, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._using:
            del self._cursors[id(cursor)]
            self._using.notify_all()
