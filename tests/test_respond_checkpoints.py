"""Finding checkpoints in journals: from the end, whatever the size, never on a dead branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers_respond import make_corpus, make_run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardward.loader.cursor import Cursor
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.respond.checkpoints import (
    journalled_checkpoints,
    ledger_checkpoints,
    newer_checkpoint,
    newest_in,
)


def train(run: Run, manifest: Manifest, *, last: int, every: int = 3, **more: Any) -> None:
    with ShardLoader(manifest, run.plan(), run=run, batch=2, **more) as loader:
        for batch in loader:
            loader.observe(batch.step, loss=1.0)
            if batch.step % every == 0:
                loader.checkpoint(batch.step, f"c{batch.step}")
            if batch.step == last:
                return


class Trained:
    def __init__(self, home: Path) -> None:
        self.manifest = make_corpus(home)
        self.run = make_run(home, self.manifest)
        train(self.run, self.manifest, last=20)
        [self.journal] = self.run.journals()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("trained"))


def test_all_checkpoints_are_listed_with_their_cursors(trained: Trained) -> None:
    found = journalled_checkpoints(trained.run)

    assert [c.step for c in found] == [3, 6, 9, 12, 15, 18]
    assert [c.cursor["step"] for c in found] == [3, 6, 9, 12, 15, 18]
    assert found[0].path == "c3"


def test_the_ledger_lists_the_same(trained: Trained) -> None:
    with Ledger.open(trained.run) as ledger:
        assert ledger_checkpoints(ledger) == journalled_checkpoints(trained.run)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(chunk=st.integers(200, 20_000), last=st.none() | st.integers(0, 25))
def test_the_newest_is_found_from_the_end_in_chunks_of_any_size(
    trained: Trained, chunk: int, last: int | None
) -> None:
    known = [c.step for c in journalled_checkpoints(trained.run) if last is None or c.step <= last]

    found = newest_in(trained.journal, last, chunk=chunk)

    assert (None if found is None else found.step) == (known[-1] if known else None)


def test_a_torn_tail_does_not_hide_the_newest(trained: Trained, tmp_path: Path) -> None:
    torn = tmp_path / "torn.swj"
    torn.write_bytes(trained.journal.read_bytes() + b"SWJ\n torn")

    found = newest_in(torn)

    assert found is not None
    assert found.step == 18


def test_checkpoints_after_a_rewind_point_do_not_count(tmp_path: Path) -> None:
    scene = Trained(tmp_path)
    points = {c.step: c for c in journalled_checkpoints(scene.run)}
    run = scene.run
    point = Cursor.from_json(points[9].cursor)
    run.move_head(piece=1, step=9, cursor=point, revision=0, reason="rewind INC-0001")
    assert newer_checkpoint(run, points[9]) is None

    train(run, scene.manifest, last=14, every=4, cursor=points[9].cursor, reason="rewind")

    newest = newer_checkpoint(run, points[9])
    assert newest is not None
    assert (newest.step, newest.piece) == (12, 2)
