"""Threads that ask one ledger while its file is mended or closed all get an answer or a reason."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pytest
from helpers_ledger import make_run, train

from shardward.loader.errors import ShardwardError
from shardward.loader.run import Run
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.ledger import database as module
from shardward.quarantine.ledger.database import Damaged, Database

LONG = "SELECT sum(a.range * b.range) FROM range(100000) a, range(10000000) b"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = make_run(tmp_path / "run")
    train(run, range(1, 6))
    return run


@pytest.mark.parametrize("where", ["before", "within"])
def test_questions_of_other_threads_are_answered_through_a_repair(
    run: Run, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    real, closing = Database.table, Database.close
    first, inside, mending = threading.Event(), threading.Event(), threading.Event()

    def table(self: Database, *given: Any) -> pa.Table:
        if threading.current_thread().name == "waits" and not inside.is_set():
            if where == "before":
                inside.set()
                assert mending.wait(10)  # asks a file that is closed by now
                return real(self, *given)
            with self._cursor():
                inside.set()
                assert mending.wait(10)  # holds a cursor while another thread wants to close
            return real(self, *given)
        if not first.is_set():
            first.set()
            assert inside.wait(10)
            raise Damaged("one bit flipped")
        return real(self, *given)

    def close(self: Database) -> None:
        if where == "within":
            mending.set()
        closing(self)
        mending.set()

    with Ledger.open(run) as ledger:
        expected = ledger.steps(1, 9).to_pylist()
        monkeypatch.setattr(Database, "table", table)
        monkeypatch.setattr(Database, "close", close)
        found: list[Any] = []

        def ask() -> None:
            found.append(ledger.steps(1, 9).to_pylist())

        threads = [threading.Thread(target=ask, name=name) for name in ("waits", "mends")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        monkeypatch.undo()

        assert found == [expected, expected]
        assert ledger.steps(1, 9).to_pylist() == expected


def test_closing_stops_a_question_that_goes_on_and_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.open(run)
    begun = threading.Event()

    def ask() -> None:
        with ledger.database._cursor() as cursor, ledger.database.reading():
            begun.set()
            cursor.execute(LONG)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        assert begun.wait(10)
        monkeypatch.setattr(module, "CLOSE_SECONDS", 0.3)
        ledger.close()
        with pytest.raises(ShardwardError, match="could not answer"):
            asked.result(30)
    with pytest.raises(ShardwardError, match="is closed"):
        ledger.steps(1, 9)


def test_a_ledger_that_cannot_be_closed_says_so_and_stays_open(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(run) as ledger:
        stuck = Mock(close=Mock(side_effect=duckdb.Error("a query runs")))
        with monkeypatch.context() as patch:
            patch.setattr(ledger.database, "_connection", stuck)
            with pytest.raises(ShardwardError, match="could not be closed: a query runs"):
                ledger.close()

        assert ledger.steps(1, 9).num_rows == 5
