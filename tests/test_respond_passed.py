"""Publishing counts what a revision passes over; loaders of that run are exact from then on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers_respond import make_corpus, make_run, start_piece

from shardward.cli.main import cli
from shardward.loader import Cursor, Manifest, Revision, Run, ShardLoader
from shardward.loader.passed_store import load_passed
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.passed import epochs_ahead, store_passed
from shardward.quarantine.respond.revisions import publish_revision
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision


@pytest.fixture
def scene(tmp_path: Path) -> tuple[Manifest, Run]:
    manifest = make_corpus(tmp_path)
    run = make_run(tmp_path, manifest)
    scope = Scope.of_documents(tuple(range(0, 60, 2)))
    log = DecisionLog(run.path, manifest=manifest.fingerprint)
    log.append(Decision(action="quarantine", scope=scope, reason="junk", actor="ann"))
    return manifest, run


def test_publish_stores_counts_that_make_a_loader_exact(scene: tuple[Manifest, Run]) -> None:
    manifest, run = scene
    words = ["quarantine", "publish", "--run", str(run.path), "--yes", "--json"]
    result = CliRunner().invoke(cli, words)
    payload = json.loads(result.stdout)

    with ShardLoader(manifest, run.plan(), batch=4, run=run, revision=1) as loader:
        counts = load_passed(run.path, loader.source.revision, run.plan_id, 0)
        steps = [batch.step for batch in loader]
        assert loader.count_steps().exact
        assert loader.total_steps == steps[-1]
    assert (payload["counted_epochs"], payload["uncounted_epochs"]) == ([0], [])
    assert counts is not None
    assert int(counts.passed.sum()) == counts.positions - loader.source.walker().count(0)


def test_what_is_too_much_is_left_until_it_is_asked_for(scene: tuple[Manifest, Run]) -> None:
    manifest, run = scene
    revision = publish_revision(run.path, manifest)
    seen: list[int] = []

    few = store_passed(run, manifest, revision, windows=2)
    every = store_passed(run, manifest, revision, windows=None, advance=seen.append)
    again = store_passed(run, manifest, revision, windows=0)

    assert (few.epochs, few.left) == ((), (0,))
    assert every.epochs == again.epochs == (0,)
    assert sum(seen) == 6
    assert (
        store_passed(run, manifest, Revision(number=0, manifest=manifest.fingerprint)).epochs == ()
    )


def test_a_damaged_file_is_put_right_by_publishing_again(scene: tuple[Manifest, Run]) -> None:
    manifest, run = scene
    revision = publish_revision(run.path, manifest)
    store_passed(run, manifest, revision)
    (path,) = (run.path / "revisions" / "passed").iterdir()
    good = path.read_bytes()
    path.write_bytes(good[:-9])

    store_passed(run, manifest, revision)

    assert path.read_bytes() == good


def test_the_epochs_ahead_are_those_of_the_newest_start(scene: tuple[Manifest, Run]) -> None:
    manifest, run = scene
    assert list(epochs_ahead(run)) == [0]
    start_piece(run)
    assert list(epochs_ahead(run)) == [0, 1]
    cursor = Cursor(plan_id=run.plan_id, epoch=2, position=0, step=0)
    with ShardLoader(manifest, run.plan(), batch=4, run=run, cursor=cursor, epochs=5):
        assert list(epochs_ahead(run)) == [2, 3, 4]


def test_a_head_in_a_piece_that_is_not_there_is_said(scene: tuple[Manifest, Run]) -> None:
    _, run = scene
    start_piece(run)
    (run.path / "pieces" / "000001.json").unlink()

    result = CliRunner().invoke(cli, ["quarantine", "publish", "--run", str(run.path), "--yes"])

    assert (result.exit_code, "stands in piece 1, and pieces/ has no" in result.stderr) == (1, True)
