"""Publishing to object stores: found by number, never changed, never seen in part."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from helpers_ledger import PLAN, cursor, slice_of, train

from shardward.loader.errors import IntegrityError, NotFound, UsageError
from shardward.loader.journal_publish import SegmentPublisher, mirror, publish_run, segment_key
from shardward.loader.journal_store import ObjectStore
from shardward.loader.records import prepare_delivered
from shardward.loader.revision import Revision
from shardward.loader.revision_store import load_revision, publish_revision_files
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger


@pytest.fixture(params=["directory", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path / "store") if request.param == "directory" else f"memory://{tmp_path.name}"
    MemoryFileSystem.store.clear()


def published_run(home: Path, url: str) -> Run:
    run = Run.create(home, plan=PLAN, manifest_path=home / "none", remote=url)
    train(run, range(1, 6), size=2)
    train(run, range(4, 9), cursor(3, 1))
    return run


def rows(run: Run) -> list[dict[str, Any]]:
    with Ledger.open(run) as ledger:
        found: list[dict[str, Any]] = ledger.sql(
            "SELECT * FROM step_documents ORDER BY ALL"
        ).to_pylist()
    return found


def test_a_mirror_gives_the_same_answers(tmp_path: Path, url: str) -> None:
    run = published_run(tmp_path / "run", url)
    gained = mirror(ObjectStore(url), tmp_path / "copy")
    copy = Run.open(tmp_path / "copy")

    assert gained == sum(path.stat().st_size for path in run.journals())
    assert (copy.pieces(), copy.heads()) == (run.pieces(), run.heads())
    assert rows(copy) == rows(run)
    assert mirror(ObjectStore(url), tmp_path / "copy") == 0


def test_each_checkpoint_adds_one_segment_and_a_mirror_follows(tmp_path: Path, url: str) -> None:
    home = tmp_path / "run"
    run = Run.create(home, plan=PLAN, manifest_path=home / "none", remote=url)
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    store = ObjectStore(url)
    with run.journal_writer(piece) as writer:
        for step in (1, 2, 3):
            writer.append(prepare_delivered(slice_of(step, 1, 0, 1)))
            writer.sync()
            mirror(store, tmp_path / "copy")
            copied = Run.open(tmp_path / "copy").journal_path(1, 0).read_bytes()
            assert copied == run.journal_path(1, 0).read_bytes()

    stem = run.journal_path(1, 0).stem
    assert store.get(segment_key(stem, 3)) is not None
    assert store.get(segment_key(stem, 4)) is None


def test_a_publisher_goes_on_where_an_earlier_one_was_killed(tmp_path: Path, url: str) -> None:
    journal = tmp_path / "a.swj"
    journal.write_bytes(b"one" * 100)
    SegmentPublisher(ObjectStore(url), journal).publish(100)
    again = SegmentPublisher(ObjectStore(url), journal)

    assert again.publish(100) == 1
    assert again.publish(300) == 2
    assert ObjectStore(url).get(segment_key("a", 2)) == (b"one" * 100)[100:]


def test_a_segment_whose_answer_was_lost_is_taken_as_it_stands(tmp_path: Path, url: str) -> None:
    journal = tmp_path / "a.swj"
    journal.write_bytes(b"one" * 100)
    publisher = SegmentPublisher(ObjectStore(url), journal)
    ObjectStore(url).put_new(segment_key("a", 1), journal.read_bytes()[:100])

    assert publisher.publish(300) == 2
    assert ObjectStore(url).get(segment_key("a", 2)) == (b"one" * 100)[100:]
    ObjectStore(url).put_new(segment_key("a", 3), b"of another process")
    journal.write_bytes(b"one" * 200)
    with pytest.raises(IntegrityError, match="other content"):
        publisher.publish(600)


def test_a_mirror_has_the_revisions_too(tmp_path: Path, url: str) -> None:
    run = Run.create(tmp_path / "run", plan=PLAN, manifest_path=tmp_path / "none", remote=url)
    documents = np.array([3, 9], dtype=np.int64)
    revision = Revision(number=1, manifest=PLAN.fingerprint, documents=documents, hashes=bytes(32))
    publish_revision_files(run.path, revision)
    train(run, range(1, 3), size=2)
    mirror(ObjectStore(url), tmp_path / "copy")

    copied = load_revision(tmp_path / "copy", 1, manifest=PLAN.fingerprint)
    assert copied.digest == revision.digest


def test_a_killed_mirror_is_repeated_without_harm(tmp_path: Path, url: str) -> None:
    run = published_run(tmp_path / "run", url)
    mirror(ObjectStore(url), tmp_path / "copy")
    journal = Run.open(tmp_path / "copy").journal_path(1, 0)
    journal.with_suffix(".segments").unlink()
    mirror(ObjectStore(url), tmp_path / "copy")

    assert journal.read_bytes() == run.journal_path(1, 0).read_bytes()


def test_D8_a_reader_that_polls_sees_nothing_or_everything(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path / "store"))
    data = bytes(range(256)) * 4096
    seen: set[int] = set()
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            for number in range(20):
                found = store.get(f"{number:03d}")
                seen.add(-1 if found is None else len(found))

    reader = threading.Thread(target=poll)
    reader.start()
    for number in range(20):
        store.put_new(f"{number:03d}", data)
    done.set()
    reader.join()

    assert seen <= {-1, len(data)}


def test_D9_a_name_never_changes_its_content(url: str) -> None:
    store = ObjectStore(url)

    assert store.put_new("a/000001", b"first")
    assert not store.put_new("a/000001", b"first")
    with pytest.raises(IntegrityError, match="other content"):
        store.put_new("a/000001", b"longer than the first")
    assert store.get("a/000001") == b"first"


def test_D10_of_two_committers_one_wins(url: str) -> None:
    store = ObjectStore(url)
    outcomes: list[bool | str] = []
    start = threading.Barrier(2)

    def commit(data: bytes) -> None:
        start.wait()
        try:
            outcomes.append(store.put_new("race", data))
        except IntegrityError:
            outcomes.append("refused")

    threads = [threading.Thread(target=commit, args=(data,)) for data in (b"one", b"two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(str, outcomes)) == ["True", "refused"]
    assert store.get("race") in (b"one", b"two")


class Careless(MemoryFileSystem):  # type: ignore[misc,unused-ignore]
    """A store that overwrites whatever it is told."""

    protocol = "careless"
    store: dict[str, Any] = {}  # noqa: RUF012 (as the base class has it)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        super().pipe_file(path, value, mode="overwrite")


def test_D10_a_store_that_ignores_the_condition_is_refused_at_the_start(tmp_path: Path) -> None:
    fsspec.register_implementation("careless", Careless, clobber=True)

    with pytest.raises(IntegrityError, match="conditional writes"):
        Run.create(tmp_path / "r", plan=PLAN, manifest_path=tmp_path, remote="careless://x")
    assert not (tmp_path / "r" / "run.json").exists()


@pytest.mark.parametrize("error", [ConnectionError("no route to host"), KeyError("HTTP 503")])
def test_a_store_that_is_away_does_not_stop_the_trainer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    home, url = tmp_path / "run", f"memory://{tmp_path.name}"
    run = Run.create(home, plan=PLAN, manifest_path=home / "none", remote=url)
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())

    def away(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "pipe_file", away)
        patch.setattr(MemoryFileSystem, "cat_file", away)
        writer = run.journal_writer(piece)
        writer.append(prepare_delivered(slice_of(1, 1, 0, 1)))
        writer.sync()
    assert str(error) in caplog.text
    writer.close()

    mirror(ObjectStore(url), tmp_path / "copy")
    assert Run.open(tmp_path / "copy").journal_path(1, 0).read_bytes() == (
        run.journal_path(1, 0).read_bytes()
    )
    MemoryFileSystem.store.clear()


def test_an_empty_store_and_an_unknown_protocol_are_explained(tmp_path: Path, url: str) -> None:
    with pytest.raises(NotFound, match="no published run"):
        mirror(ObjectStore(url), tmp_path / "copy")
    with pytest.raises(UsageError, match="nosuch://"):
        ObjectStore("nosuch://bucket")


def test_a_local_copy_that_was_changed_is_refused(tmp_path: Path, url: str) -> None:
    published_run(tmp_path / "run", url)
    mirror(ObjectStore(url), tmp_path / "copy")
    log = tmp_path / "copy" / "head.log"
    log.write_bytes(b"changed" + log.read_bytes())
    with pytest.raises(IntegrityError, match="changed here"):
        mirror(ObjectStore(url), tmp_path / "copy")
    log.unlink()
    Run.open(tmp_path / "copy").journal_path(1, 0).write_bytes(b"short")
    with pytest.raises(IntegrityError, match="not a beginning"):
        mirror(ObjectStore(url), tmp_path / "copy")


@pytest.mark.parametrize("damage", ["cut", "gone", "note", "note of an earlier release"])
def test_a_copy_that_lost_something_is_fetched_again(tmp_path: Path, url: str, damage: str) -> None:
    run = published_run(tmp_path / "run", url)
    mirror(ObjectStore(url), tmp_path / "copy")
    journal = Run.open(tmp_path / "copy").journal_path(1, 0)
    whole = run.journal_path(1, 0).read_bytes()
    if damage == "gone":
        journal.unlink()
    elif damage == "cut":
        journal.write_bytes(whole[: len(whole) // 2])
    else:
        words = b"\xffnot numbers" if damage == "note" else b"1 10"
        journal.with_suffix(".segments").write_bytes(words)

    assert mirror(ObjectStore(url), tmp_path / "copy") == len(whole)
    assert journal.read_bytes() == whole
    assert mirror(ObjectStore(url), tmp_path / "copy") == 0


@pytest.mark.parametrize("damage", ["changed", "longer"])
def test_a_journal_that_was_changed_in_the_copy_is_refused(
    tmp_path: Path, url: str, damage: str
) -> None:
    published_run(tmp_path / "run", url)
    mirror(ObjectStore(url), tmp_path / "copy")
    journal = Run.open(tmp_path / "copy").journal_path(1, 0)
    whole = journal.read_bytes()
    longer = whole + b"more"
    journal.write_bytes(longer if damage == "longer" else whole[:100] + b"X" + whole[101:])

    for _ in range(2):
        with pytest.raises(IntegrityError, match=r"not a beginning.*delete it and mirror again"):
            mirror(ObjectStore(url), tmp_path / "copy")
    journal.unlink()
    mirror(ObjectStore(url), tmp_path / "copy")
    assert journal.read_bytes() == whole


def test_what_is_published_and_was_cut_or_lost_is_named(tmp_path: Path) -> None:
    store, copy = ObjectStore(str(tmp_path / "store")), tmp_path / "copy"
    run = Run.create(tmp_path / "run", plan=PLAN, manifest_path=tmp_path / "none", remote=store.url)
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    with run.journal_writer(piece) as writer:
        for step in (1, 2, 3):
            writer.append(prepare_delivered(slice_of(step, 1, 0, 1)))
            writer.sync()
    names = [segment_key(run.journal_path(1, 0).stem, number) for number in (1, 2, 3)]
    parts = [(tmp_path / "store" / name).read_bytes() for name in names]

    (tmp_path / "store" / names[2]).write_bytes(parts[2][: len(parts[2]) // 2])
    for _ in range(2):
        with pytest.raises(IntegrityError, match="no whole record"):
            mirror(store, copy)
    assert Run.open(copy).heads() == run.heads()
    (tmp_path / "store" / names[2]).write_bytes(parts[2])
    mirror(store, copy)
    assert Run.open(copy).journal_path(1, 0).read_bytes() == b"".join(parts)

    (tmp_path / "store" / names[1]).write_bytes(parts[1][:-9])
    with pytest.raises(IntegrityError, match="no whole record"):
        mirror(store, tmp_path / "second")
    (tmp_path / "store" / names[1]).unlink()
    with pytest.raises(IntegrityError, match=r"000002\.seg is gone"):
        mirror(store, tmp_path / "third")


def test_a_run_is_no_copy_and_no_published_run(tmp_path: Path, url: str) -> None:
    run = published_run(tmp_path / "run", url)
    with pytest.raises(UsageError, match="no copy of one"):
        mirror(ObjectStore(url), run.path)
    with pytest.raises(UsageError, match="ledger publish URL"):
        mirror(ObjectStore(str(run.path)), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    for place in (run.path, run.path / "journal"):
        with pytest.raises(UsageError, match="own directory"):
            publish_run(ObjectStore(str(place)), run.path)


def test_a_mirror_on_a_disk_that_takes_a_part_at_a_time_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = published_run(tmp_path / "run", str(tmp_path / "store"))
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: real(handle, data[:100], at))
    mirror(ObjectStore(str(tmp_path / "store")), tmp_path / "copy")
    monkeypatch.undo()

    for journal in run.journals():
        assert (tmp_path / "copy" / "journal" / journal.name).read_bytes() == journal.read_bytes()


def test_a_checkpoint_publishes_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "run"
    run = Run.create(home, plan=PLAN, manifest_path=home / "none", remote=str(tmp_path / "store"))
    put: list[str] = []
    real = ObjectStore.put_new

    def noted(self: ObjectStore, key: str, data: bytes) -> bool:
        put.append(key)
        return real(self, key, data)

    monkeypatch.setattr(ObjectStore, "put_new", noted)
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    with run.journal_writer(piece) as writer:
        for step in (1, 2):
            put.clear()
            writer.append(prepare_delivered(slice_of(step, 1, 0, 1)))
            writer.sync()

    assert put == [segment_key(run.journal_path(1, 0).stem, 2)]
    mirror(ObjectStore(str(tmp_path / "store")), tmp_path / "copy")
    assert Run.open(tmp_path / "copy").heads() == run.heads()
