"""Opening the DuckDB file: waiting for its holder, telling refused locks from damage."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from pathlib import Path

import duckdb

from ...loader.errors import Busy, ShardwardError, UsageError
from .faults import damaged, is_damage

# Small blocks and large row groups: a column of a row group fills its last block on average by
# half, which at DuckDB's defaults costs 1.6 of 8.6 bytes a row.
_STORAGE = "BLOCK_SIZE 65536, ROW_GROUP_SIZE 245760"
_HOLDER = re.compile(r"PID (\d+)")
_NO_LOCKS = ("no locks available", "operation not supported", "function not implemented")
_RETRY_SECONDS = 0.05


def connect(path: Path, *, memory: str, threads: int, wait: float) -> duckdb.DuckDBPyConnection:
    """Return a connection that has the file at `path` attached as `ledger` and nothing else.

    Args:
        path: the DuckDB file, made if missing.
        memory: limit for DuckDB's buffers.
        threads: of DuckDB.
        wait: seconds to wait for another process that holds the file.

    Raises:
        Busy: another process holds it; its pid is named.
        Damaged: it cannot be opened for what it holds.
        UsageError: a limit that DuckDB does not know.
        ShardwardError: the file system refuses locks, or the file cannot be opened.
    """
    with ExitStack() as undo:
        try:
            connection = duckdb.connect(
                config={
                    "threads": threads,
                    "memory_limit": memory,
                    "temp_directory": f"{path}.tmp",
                    "autoinstall_known_extensions": "false",
                    "python_enable_replacements": "false",
                }
            )
        except duckdb.Error as error:
            raise UsageError(
                f"DuckDB refuses {threads} threads or a memory limit of {memory!r} "
                f"({str(error).splitlines()[0]}); a limit is, for example, 2GB"
            ) from error
        undo.callback(connection.close)
        _attach(connection, path, time.monotonic() + wait)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        undo.pop_all()
    return connection


def _attach(connection: duckdb.DuckDBPyConnection, path: Path, deadline: float) -> None:
    quoted = str(path).replace("'", "''")
    while True:
        try:
            connection.execute(f"ATTACH '{quoted}' AS ledger ({_STORAGE})")
            return
        except duckdb.Error as error:
            if "Could not set lock" not in str(error) or _refuses_locks(error):
                raise _unopened(path, error) from error
            if time.monotonic() >= deadline:
                found = _HOLDER.search(str(error))
                who = f"process {found.group(1)}" if found else "another process"
                raise Busy(f"{who} holds the ledger {path}; ask again when it is done") from error
        time.sleep(_RETRY_SECONDS)


def _refuses_locks(error: duckdb.Error) -> bool:
    text = str(error).lower()
    return "lock" in text and any(sign in text for sign in _NO_LOCKS)


def _unopened(path: Path, error: duckdb.Error) -> ShardwardError:
    """Return the error for a file that no waiting will open."""
    if _refuses_locks(error):
        return ShardwardError(
            f"the file system of {path} refuses locks ({str(error).splitlines()[0]}); the "
            "journals are fine: set SHARDWARD_LEDGER to a directory on a local disk"
        )
    if is_damage(error) or isinstance(error, duckdb.SerializationException):
        return damaged(path, error)
    return ShardwardError(f"the ledger {path} could not be opened: {error}")
