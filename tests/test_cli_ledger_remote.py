"""`ledger publish` and `ledger mirror`: a run in an object store, asked from elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from helpers_ledger import cursor, make_run, slice_of, train, train_really
from test_cli_ledger_limits import shardward

from shardward.loader.journal import JournalWriter
from shardward.loader.journal_publish import SegmentPublisher, segment_key
from shardward.loader.journal_store import ObjectStore
from shardward.loader.records import prepare_delivered


@pytest.fixture(params=["directory", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path / "store") if request.param == "directory" else f"memory://{tmp_path.name}"
    MemoryFileSystem.store.clear()


def answer(*words: str | int | Path) -> dict[str, Any]:
    result = shardward("ledger", *words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_published_run_is_asked_from_its_mirror(tmp_path: Path, url: str) -> None:
    run, _ = train_really(tmp_path)
    expected = [answer("step", step, "--run", run.path) for step in range(1, 7)]
    published = answer("publish", url, "--run", run.path, "--yes")["report"]
    shutil.rmtree(run.path)
    fetched = answer("mirror", url, "--out", tmp_path / "copy")["report"]

    assert published["published_bytes"] == fetched["fetched_bytes"] > 0
    assert (fetched["run_id"], fetched["journals"]) == (run.run_id, 1)
    copy = ("--run", tmp_path / "copy")
    assert [answer("step", step, *copy) for step in range(1, 7)] == expected
    assert answer("check", *copy)["ok"]
    assert answer("mirror", url, "--out", tmp_path / "copy")["report"]["fetched_bytes"] == 0


def test_publishing_again_adds_what_is_new_and_no_torn_tail(tmp_path: Path, url: str) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 4))
    words = ("publish", url, "--run", run.path)
    assert answer(*words)["report"] is None
    assert ObjectStore(url).get("run.json") is None
    answer(*words, "--yes")
    train(run, range(3, 6), cursor(2, 1))
    whole = run.journal_path(2, 0).stat().st_size
    with run.journal_path(2, 0).open("ab") as stream:
        stream.write(b"SWJ\nhalf a record")
    sizes = [answer(*words, "--yes")["report"]["published_bytes"] for _ in range(2)]
    answer("mirror", url, "--out", tmp_path / "copy")

    assert sizes == [whole, 0]
    rows = answer("steps", "1..9", "--run", tmp_path / "copy")["rows"]
    assert [(row["step"], row["piece"]) for row in rows] == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2)]


def test_two_publishers_of_one_journal_do_not_disturb_each_other(tmp_path: Path, url: str) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    journal = run.journal_path(1, 0)
    trainer, end = SegmentPublisher(ObjectStore(url), journal), journal.stat().st_size
    with JournalWriter(journal) as writer:
        writer.append(prepare_delivered(slice_of(2, 1, 0, 1)))
    answer("publish", url, "--run", run.path, "--yes")

    assert trainer.publish(end) == 1
    stored = ObjectStore(url).get(segment_key(journal.stem, 1))
    assert stored == journal.read_bytes()


def test_another_run_is_not_published_over_a_run(tmp_path: Path, url: str) -> None:
    for name, code in (("first", 0), ("second", 5)):
        run = make_run(tmp_path / name)
        train(run, [1])
        result = shardward("ledger", "publish", url, "--run", run.path, "--yes")
        assert result.exit_code == code, result.output
    assert shardward("ledger", "mirror", f"{url}-none", "--out", tmp_path / "x").exit_code == 1
    assert not (tmp_path / "x").exists()


def test_a_piece_of_which_nothing_is_published_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 4))
    train(run, range(3, 6), cursor(2, 1))
    url = tmp_path / "store"
    answer("publish", url, "--run", run.path, "--yes")
    (url / segment_key(run.journal_path(1, 0).stem, 1)).unlink()

    result = shardward("ledger", "mirror", url, "--out", tmp_path / "copy")
    assert result.exit_code == 5
    assert "no journal of piece 1, which is in the history of the head" in result.output
    answer("publish", url, "--run", run.path, "--yes")
    answer("mirror", url, "--out", tmp_path / "copy")
    assert answer("check", "--run", tmp_path / "copy")["ok"]
