"""A ledger file answers for one run, wherever it lies."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from helpers_ledger import docs, make_run, train

from shardward.loader.errors import MismatchError
from shardward.loader.run import Run
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.ledger.rebuild import rebuild


def two_runs(tmp_path: Path) -> tuple[Run, Run]:
    first, second = make_run(tmp_path / "first"), make_run(tmp_path / "second")
    train(first, range(1, 4))
    train(second, range(1, 6), size=2)
    return first, second


def test_one_file_for_two_runs_is_refused_with_both_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_runs(tmp_path)
    monkeypatch.setenv("SHARDWARD_LEDGER", str(tmp_path / "shared.duckdb"))
    Ledger.open(first).close()
    with pytest.raises(MismatchError, match=f"{first.run_id}.*{second.run_id}.*directory"):
        Ledger.open(second)
    with pytest.raises(MismatchError, match="is of run"):
        rebuild(second, tmp_path / "shared.duckdb")

    with Ledger.open(first) as ledger:
        assert (ledger.last_step(), ledger.notices) == (3, ())


@pytest.mark.parametrize("exists", [True, False])
def test_a_directory_holds_a_file_for_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    first, second = two_runs(tmp_path)
    place = tmp_path / "ledgers"
    if exists:
        place.mkdir()
    monkeypatch.setenv("SHARDWARD_LEDGER", str(place) if exists else f"{place}/")
    for run, last in ((first, 3), (second, 5)):
        with Ledger.open(run) as ledger:
            assert ledger.last_step() == last
            assert docs(ledger.step_documents(3)) == list(range(16, 24))

    names = sorted(path.name for path in place.glob("*.duckdb"))
    assert names == sorted(f"{run.run_id}.duckdb" for run in (first, second))


def test_a_run_made_anew_at_the_same_place_is_another_run(tmp_path: Path) -> None:
    train(make_run(tmp_path / "old"), range(1, 4))
    Ledger.open(tmp_path / "old", path=tmp_path / "x.duckdb").close()
    (tmp_path / "old").rename(tmp_path / "gone")
    train(make_run(tmp_path / "old"), range(1, 3))

    with pytest.raises(MismatchError, match="is of run"):
        Ledger.open(tmp_path / "old", path=tmp_path / "x.duckdb")


def test_a_file_that_names_no_run_is_built_again(tmp_path: Path) -> None:
    run, _ = two_runs(tmp_path)
    Ledger.open(run).close()
    with duckdb.connect(str(run.path / "ledger.duckdb")) as raw:
        raw.execute("DELETE FROM facts WHERE name = 'run_id'")
    with Ledger.open(run) as ledger:
        assert (ledger.last_step(), "built again" in ledger.notices[0]) == (3, True)
