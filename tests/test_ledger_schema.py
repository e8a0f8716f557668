"""Ledger files of other releases: brought up in place, refused, or rebuilt; nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result
from helpers_ledger import make_run, train

from shardward.cli.main import cli
from shardward.loader.errors import FormatError, IntegrityError
from shardward.loader.run import Run
from shardward.quarantine.ledger import ALL, Ledger
from shardward.quarantine.ledger.database import Damaged
from shardward.quarantine.ledger.rebuild import rebuild

GOLDEN = Path(__file__).parent / "golden" / "run-ledger.v1.tar.gz"
"""A run that version 1 left: steps 1 to 3 on two ranks, then 3 to 5 in a piece from step 2."""

PLAIN = """
CREATE TABLE plain AS SELECT * FROM segments; DROP VIEW segments;
DROP TABLE packed_segments; ALTER TABLE plain RENAME TO segments;
"""


@pytest.fixture
def old(tmp_path: Path) -> Run:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path / "run", filter="data")
    return Run.open(tmp_path / "run")


def change(run: Run, script: str) -> None:
    with duckdb.connect(str(run.path / "ledger.duckdb")) as raw:
        for statement in raw.extract_statements(script):
            raw.execute(statement.query)


def lose_journals(run: Run) -> None:
    shutil.rmtree(run.path / "journal")


def cut(run: Run) -> None:
    path = run.journal_path(1, 0)
    path.write_bytes(path.read_bytes()[:800])


def answers(ledger: Ledger) -> list[Any]:
    asked = (
        ledger.document_steps(range(64), ALL),
        ledger.steps(1, 9, ALL),
        ledger.telemetry(branch=ALL),
        ledger.sql("SELECT step, loss, lr FROM telemetry_wide ORDER BY step"),
        ledger.sql("SELECT step, piece, complete, completed, time FROM all_steps ORDER BY ALL"),
        ledger.timeline(),
    )
    return [table.to_pylist() for table in asked]


@pytest.mark.parametrize("script", ["", PLAIN], ids=["version 1", "version 1 of plain segments"])
@pytest.mark.parametrize("journals", [True, False])
def test_D3_a_ledger_of_an_earlier_release_is_brought_up_in_place(
    old: Run, tmp_path: Path, script: str, journals: bool
) -> None:
    fresh = Run.open(shutil.copytree(old.path, tmp_path / "fresh"))
    rebuild(fresh, fresh.path / "ledger.duckdb")
    with Ledger.open(fresh) as ledger:
        expected = answers(ledger)
    change(old, script)
    if not journals:
        lose_journals(old)
    with Ledger.open(old) as ledger:
        notices = ledger.notices
        found = answers(ledger)
    with Ledger.open(old) as ledger:
        assert (answers(ledger), ledger.notices) == (expected, ())

    assert found == expected
    assert len(found[0]) == 48
    assert "had schema version 1 and was brought to version 2" in notices[0]
    assert not list(old.path.glob("*.damaged*"))


def test_D3_a_kill_in_a_migration_leaves_the_file_as_it_was(old: Run) -> None:
    script = """
import os, sys
import shardward.quarantine.ledger.schema as module
at, real = int(sys.argv[2]), module._write_views
def killed(cursor):
    if at: real(cursor)
    os._exit(9)
module._write_views = killed
from shardward.quarantine.ledger import Ledger
Ledger.open(sys.argv[1])
"""
    lose_journals(old)
    for moment in ("0", "1"):
        command = [sys.executable, "-c", script, str(old.path), moment]
        assert subprocess.run(command, check=False).returncode == 9
    with Ledger.open(old) as ledger:
        assert len(ledger.notices) == 1
        assert ledger.document_steps(range(64), ALL).num_rows == 48


def test_a_ledger_of_a_later_release_is_refused_and_can_be_rebuilt(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    Ledger.open(run).close()
    change(run, "UPDATE facts SET value = '3' WHERE name = 'schema_version'")

    with pytest.raises(FormatError, match=r"schema version 3, this release knows 2.*rebuild"):
        Ledger.open(run)
    report = rebuild(run, run.path / "ledger.duckdb")
    assert "set aside as ledger.duckdb.damaged-1" in report.old
    with Ledger.open(run) as ledger:
        assert (ledger.last_step(), ledger.notices) == (1, ())


NOTHING_TO_MIGRATE = [
    "UPDATE facts SET value = '0' WHERE name = 'schema_version'",
    "UPDATE facts SET value = 'x' WHERE name = 'schema_version'",
    "DELETE FROM facts WHERE name = 'run_id'",
    "UPDATE facts SET value = '1' WHERE name = 'schema_version'",
]


@pytest.mark.parametrize("script", NOTHING_TO_MIGRATE)
def test_a_file_that_cannot_be_brought_up_is_built_again(tmp_path: Path, script: str) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    Ledger.open(run).close()
    change(run, script)
    with Ledger.open(run) as ledger:
        assert (ledger.last_step(), "built again" in ledger.notices[0]) == (1, True)


@pytest.mark.parametrize("script", NOTHING_TO_MIGRATE)
def test_rows_whose_journals_are_gone_are_not_given_up(tmp_path: Path, script: str) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    Ledger.open(run).close()
    change(run, script)
    lose_journals(run)
    before = (run.path / "ledger.duckdb").read_bytes()
    with pytest.raises(IntegrityError, match=r"p000001-r00000-x000.swj is gone.*rebuild --force"):
        Ledger.open(run)

    assert (run.path / "ledger.duckdb").read_bytes() == before


@pytest.mark.parametrize(
    "script",
    [
        "DROP TABLE facts CASCADE",
        "DROP TABLE journals CASCADE",
        "ALTER TABLE pieces DROP COLUMN revision_digest",
        "ALTER TABLE journals DROP COLUMN read_bytes",
    ],
)
def test_a_file_that_lacks_a_table_or_column_is_set_aside_and_built_again(
    tmp_path: Path, script: str
) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 4))
    with Ledger.open(run) as ledger:
        expected = answers(ledger)
    change(run, script)

    with Ledger.open(run) as ledger:
        assert answers(ledger) == expected
        assert "ledger.duckdb.damaged-1 and is built again" in ledger.notices[0]


def shardward(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.mark.parametrize("harm", [lose_journals, cut], ids=["gone", "cut"])
def test_a_rebuild_that_would_lose_rows_needs_force(
    tmp_path: Path, harm: Callable[[Run], None]
) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 6))
    Ledger.open(run).close()
    harm(run)
    words = ("ledger", "rebuild", "--run", run.path)
    shown, refused = shardward(*words), shardward(*words, "--yes")
    with Ledger.open(run) as ledger:
        kept = ledger.last_step()
    forced = shardward(*words, "--yes", "--force")

    assert (shown.exit_code, "needs --force: journal p000001" in shown.stdout) == (0, True)
    assert (refused.exit_code, "cannot give back" in refused.stderr, kept) == (5, True, 5)
    assert (forced.exit_code, "set aside" in forced.stdout) == (0, True)
    with duckdb.connect(str(run.path / "ledger.duckdb.damaged-1"), read_only=True) as raw:
        assert raw.execute("SELECT max(step) FROM deliveries").fetchone() == (5,)


def test_a_damaged_ledger_whose_journals_are_gone_is_kept_beside(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 6))
    with Ledger.open(run) as ledger:
        lose_journals(run)
        broken = ledger.database
        for anew in (False, True):
            ledger.mend(ledger.database, Damaged("it is damaged"), anew=anew)
        assert ledger.database is not broken
        assert "only the file set aside has all rows: journal p000001" in ledger.notices[-1]
    with duckdb.connect(str(run.path / "ledger.duckdb.damaged-1"), read_only=True) as raw:
        assert raw.execute("SELECT max(step) FROM deliveries").fetchone() == (5,)
