"""Damage to ledger and journals is named, set aside and made good, never believed."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import numpy as np
import pytest
from helpers_journal import record as make_record
from helpers_ledger import cursor, make_run, slice_of, train

from shardward.loader.errors import ShardwardError, UsageError
from shardward.loader.journal import JournalWriter, read_journal
from shardward.loader.journal_frame import Kind, prepare
from shardward.loader.records import prepare_delivered
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import ALL, Ledger
from shardward.quarantine.ledger.database import Damaged
from shardward.quarantine.ledger.rebuild import rebuild


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run")


def answers(ledger: Ledger) -> list[Any]:
    asked = (
        ledger.document_steps(range(960), ALL),
        ledger.steps(1, 999, ALL),
        ledger.telemetry(branch=ALL),
    )
    return [table.to_pylist() for table in asked]


@pytest.fixture
def filled(run: Run) -> tuple[Run, list[Any]]:
    train(run, range(1, 120), size=2)
    with Ledger.open(run) as ledger:
        return run, answers(ledger)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def reset(run: Run) -> None:
    for path in run.path.glob("ledger.duckdb*"):
        path.unlink()


def test_a_bit_flipped_in_the_database_is_named_and_repaired(
    filled: tuple[Run, list[Any]],
) -> None:
    run, expected = filled
    path = run.path / "ledger.duckdb"
    whole = path.read_bytes()
    rng = random.Random(0)
    named = 0
    for bit in [rng.randrange(len(whole) * 8) for _ in range(8)] + [70, 40_000]:
        reset(run)
        path.write_bytes(flipped(whole, bit))
        with Ledger.open(run) as ledger:
            assert answers(ledger) == expected
            if ledger.notices:
                named += 1
                assert "is damaged" in ledger.notices[0]
                assert (run.path / "ledger.duckdb.damaged-1").exists()

    assert named >= 6


def test_a_damaged_file_is_named_to_a_typed_query_and_not_replaced(
    filled: tuple[Run, list[Any]],
) -> None:
    run, expected = filled
    path = run.path / "ledger.duckdb"
    whole = path.read_bytes()
    with Ledger.open(run) as ledger:
        count = ledger.sql("SELECT * FROM all_step_documents").num_rows
    for bit in range(len(whole) * 8 - 300_000, 0, -400_000):
        reset(run)
        path.write_bytes(flipped(whole, bit))
        try:
            with Ledger.open(run) as ledger:
                assert ledger.sql("SELECT * FROM all_step_documents").num_rows == count
        except Damaged as error:
            assert "ledger rebuild --yes" in str(error)  # noqa: PT017 (some bits are in no row)
            break
    else:
        pytest.fail("no flipped bit was noticed")
    assert not list(run.path.glob("*.damaged*"))
    rebuild(run, path)

    with Ledger.open(run) as ledger:
        assert answers(ledger) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT corrupt_block FROM events",
        "SELECT * FROM checksum",
        "SELECT error('could not read: corrupt checksum')",
        "SELECT 'wal file'::INT",
        "SELECT internal error",
    ],
)
def test_a_typing_error_is_no_damage(filled: tuple[Run, list[Any]], query: str) -> None:
    run, expected = filled
    with Ledger.open(run) as ledger:
        with pytest.raises(UsageError, match="refused"):
            ledger.sql(query)
        with pytest.raises(ShardwardError, match="could not answer"):
            ledger.database.table(query)

        assert (answers(ledger), ledger.notices) == (expected, ())
    assert not list(run.path.glob("*.damaged*"))


def test_a_connection_that_broke_is_opened_again_and_the_file_kept(
    filled: tuple[Run, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, expected = filled
    with Ledger.open(run) as ledger:
        real = ledger.database._connection
        broken = Mock(close=real.close)
        broken.cursor().execute.side_effect = duckdb.FatalException("it has been invalidated")
        monkeypatch.setattr(ledger.database, "_connection", broken)
        with pytest.raises(Damaged, match="invalidated"):
            ledger.sql("SELECT 1")

        assert (answers(ledger), ledger.notices) == (expected, ())
    assert not list(run.path.glob("*.damaged*"))


def test_one_copy_of_a_damaged_ledger_is_kept(filled: tuple[Run, list[Any]]) -> None:
    run, expected = filled
    for _ in range(3):
        (run.path / "ledger.duckdb").write_bytes(b"not a database at all" * 1000)
        with Ledger.open(run) as ledger:
            assert answers(ledger) == expected

    assert [path.name for path in run.path.glob("*.damaged*")] == ["ledger.duckdb.damaged-1"]
    assert "in the place of an earlier one" in ledger.notices[0]


def unfinished(run: Run) -> tuple[bytes, bytes]:
    """Return database and log as a killed ingester leaves them."""
    reset(run)
    script = "import os, sys\nfrom shardward.quarantine.ledger import Ledger\n"
    script += "ledger = Ledger.open(sys.argv[1])\nos._exit(0)\n"
    subprocess.run([sys.executable, "-c", script, str(run.path)], check=True)
    path = run.path / "ledger.duckdb"
    return path.read_bytes(), path.with_name("ledger.duckdb.wal").read_bytes()


def test_a_bit_flipped_in_the_log_loses_nothing(filled: tuple[Run, list[Any]]) -> None:
    run, expected = filled
    data, log = unfinished(run)
    rng = random.Random(1)
    for bit in [rng.randrange(len(log) * 8) for _ in range(8)]:
        reset(run)
        (run.path / "ledger.duckdb").write_bytes(data)
        (run.path / "ledger.duckdb.wal").write_bytes(flipped(log, bit))
        with Ledger.open(run) as ledger:
            assert answers(ledger) == expected


def test_a_database_or_log_cut_short_loses_nothing(filled: tuple[Run, list[Any]]) -> None:
    run, expected = filled
    data, log = unfinished(run)
    rng = random.Random(2)
    for _ in range(4):
        reset(run)
        (run.path / "ledger.duckdb").write_bytes(data[: rng.randrange(len(data) + 1)])
        (run.path / "ledger.duckdb.wal").write_bytes(log[: rng.randrange(len(log) + 1)])
        with Ledger.open(run) as ledger:
            assert answers(ledger) == expected


def test_a_file_that_is_no_database_is_set_aside(filled: tuple[Run, list[Any]]) -> None:
    run, expected = filled
    reset(run)
    (run.path / "ledger.duckdb").write_bytes(b"not a database at all" * 1000)
    with Ledger.open(run) as ledger:
        assert answers(ledger) == expected
        assert "set aside" in ledger.notices[0]


def test_a_bit_flipped_in_a_journal_is_named_and_the_rest_is_read(run: Run) -> None:
    train(run, range(1, 6))
    path = run.journal_path(1, 0)
    content = read_journal(path)
    (frame,) = [f for f in content.frames if f.kind == Kind.DELIVERED and f.step == 3]
    path.write_bytes(flipped(path.read_bytes(), frame.offset * 8 + 500))
    with Ledger.open(run) as ledger:
        problems = {problem.kind: problem.message for problem in ledger.check()}
        steps = ledger.steps(1, 9)["step"].to_pylist()

    assert steps == [1, 2, 4, 5]
    assert problems["journal_damage"] == (
        f"journal {path.name}, bytes {frame.offset} to {frame.end}: "
        "damaged bytes between valid records"
    )
    assert problems["missing_steps"] == "no record of steps 3 to 3"


def test_records_without_sense_are_named_and_stop_nothing(run: Run) -> None:
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    with run.journal_writer(piece) as writer:
        writer.append(prepare(2, b"\x01 not columns", piece=1, step=1))
        writer.append(prepare(99, b"{}", piece=1, step=1))
        writer.append(prepare(4, b"[1]", piece=1, step=1))
        writer.append(prepare(5, b'{"loss":[{}]}', piece=1, step=1))
        writer.append(prepare(3, b"{}", piece=1, step=(1 << 64) - 1))
        writer.append(prepare_delivered(slice_of(1, 1, 0, 1)))
    with Ledger.open(run) as ledger:
        damage = [p.message for p in ledger.check() if p.kind == "journal_damage"]
        assert ledger.step_documents(1).num_rows == 8

    assert len(damage) == 5
    assert all("without sense" in message for message in damage)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("doc", [-1, 0]),
        ("token_start", [-5, 0]),
        ("token_end", [1 << 62, -(1 << 63)]),
        ("positions", [-4]),
    ],
)
def test_negative_numbers_in_a_record_are_damage(run: Run, name: str, values: list[int]) -> None:
    train(run, [1])
    columns: dict[str, Any] = {
        "positions": np.array([4]),
        "doc": np.array([1, 2]),
        "token_start": np.array([0, 0]),
        "token_end": np.array([3, 4]),
        "sample_index": np.array([0, 0]),
    }
    with JournalWriter(run.journal_path(1, 0)) as writer:
        hostile = slice_of(2, 1, 0, 1, **{**columns, name: np.array(values)})
        writer.append(prepare_delivered(hostile))
    with Ledger.open(run) as ledger:
        damage = [p for p in ledger.check() if p.kind == "journal_damage"]
        assert (len(damage), ledger.last_step()) == (1, 1)


def test_the_largest_numbers_are_kept_exactly(run: Run) -> None:
    train(run, [1])
    top = (1 << 63) - 1
    with JournalWriter(run.journal_path(1, 0)) as writer:
        record = make_record(
            1,
            1,
            start=top - 4,
            end=top,
            positions=np.array([top - 1]),
            doc=np.array([top, 0]),
            token_start=np.array([top - 9, 0]),
            token_end=np.array([top, 1]),
            sample_index=np.array([0, 0]),
        )
        record = replace(record, step=top)
        writer.append(prepare_delivered(record))
    for seconds in (0, None):
        with Ledger.open(run, ingest_seconds=seconds) as ledger:
            row = ledger.step_documents(top).to_pylist()[0]
            assert (row["doc"], row["token_start"], row["token_end"]) == (top, top - 9, top)
            assert row["sample_position"] == top - 1


def test_the_only_copy_of_rows_is_never_given_up(filled: tuple[Run, list[Any]]) -> None:
    run, _ = filled
    path = run.path / "ledger.duckdb"
    lost = run.journal_path(1, 1)
    lost.unlink()
    rebuild(run, path, force=True)  # the copy has the rows of the journal that is gone
    for _ in range(3):
        path.write_bytes(b"not a database at all" * 1000)
        Ledger.open(run).close()

    copies = sorted(each.name for each in run.path.glob("*.damaged-?"))
    assert copies == ["ledger.duckdb.damaged-1", "ledger.duckdb.damaged-2"]
    with duckdb.connect(str(run.path / copies[0]), read_only=True) as raw:
        ranks = raw.execute("SELECT DISTINCT rank FROM deliveries ORDER BY rank").fetchall()
    assert ranks == [(0,), (1,)]
