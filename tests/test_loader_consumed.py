"""L17 to its end: a new stage with another plan or a grown corpus repeats no document."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers_loader import arrow_corpus, write_arrow

from shardward.cli.main import cli
from shardward.loader import Cursor, Holdout, Manifest, Plan, Run, ShardLoader, build_manifest
from shardward.loader.consumed import consumed_documents, documents_elsewhere
from shardward.loader.errors import MismatchError
from shardward.loader.rebuilt import rebuilt_manifest

BLOCKS = [[f"block {b} text {t} " * (1 + (b + t) % 4) for t in range(10)] for b in range(8)]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return arrow_corpus(tmp_path, BLOCKS, shards=2)


def fed(
    manifest: Manifest, plan: Plan, run: Run | None, steps: int, revision: int | None = None
) -> set[int]:
    """Train `steps` steps and return the documents that they saw."""
    with ShardLoader(manifest, plan, batch=4, run=run, epochs=2, revision=revision) as loader:
        seen: set[int] = set()
        for batch in loader:
            loader.observe(batch.step)
            seen |= set(batch.segments.doc.tolist())
            if batch.step == steps:
                break
        return seen


@pytest.mark.parametrize("seq_len", [None, 24])
def test_consumed_is_what_the_steps_saw_at_every_boundary(
    manifest: Manifest, seq_len: int | None
) -> None:
    plan = manifest.plan(
        seed=1, seq_len=seq_len, window_blocks=3, holdout=Holdout(documents=5, seed=2)
    )
    seen: set[int] = set()
    with ShardLoader(manifest, plan, batch=4, epochs=2) as loader:
        for batch in loader:
            seen |= set(batch.segments.doc.tolist())
            if batch.epoch == 1:
                seen |= consumed_all(manifest, plan)
            found = consumed_documents(manifest, plan, batch.cursor_after)
            assert found.tolist() == sorted(seen)
    assert consumed_documents(manifest, plan, Cursor(plan_id=plan.plan_id)).size == 0


def consumed_all(manifest: Manifest, plan: Plan) -> set[int]:
    assert plan.holdout is not None
    return set(range(80)) - set(plan.holdout.members(80).tolist())


@pytest.mark.parametrize("change", ["seq_len", "corpus"])
def test_L17_a_new_stage_repeats_nothing_and_leaves_nothing_out(
    manifest: Manifest, tmp_path: Path, change: str
) -> None:
    plan = manifest.plan(seed=1, seq_len=24, window_blocks=3)
    old = Run.create(tmp_path / "old", plan=plan, manifest_path=manifest.path)
    before = fed(manifest, plan, old, 6)
    if change == "corpus":
        write_arrow(tmp_path / "data" / "a-first.arrow", [[f"new {t}" for t in range(9)]])
        corpus = build_manifest([str(tmp_path / "data")], tmp_path / "grown")
    else:
        corpus = manifest
    shift = corpus.documents_count - manifest.documents_count
    new_plan = corpus.plan(seed=9, seq_len=16, window_blocks=2)
    new = Run.create(tmp_path / "new", plan=new_plan, manifest_path=corpus.path)
    for words in (
        ["consumed", str(old.path), "--run", str(new.path), "--yes"],
        ["publish", "--run", str(new.path), "--yes"],
    ):
        result = CliRunner().invoke(cli, ["quarantine", *words])
        assert result.exit_code == 0, result.output

    after = fed(corpus, new_plan, new, 10**6, revision=1)

    assert len(before) > 20
    assert after == set(range(corpus.documents_count)) - {doc + shift for doc in before}


def test_documents_of_a_shard_that_changed_are_not_the_same(
    manifest: Manifest, tmp_path: Path
) -> None:
    write_arrow(tmp_path / "data" / "part-001.arrow", [["another text"]])
    other = build_manifest([str(tmp_path / "data")], tmp_path / "other")
    docs = consumed_documents(
        manifest,
        manifest.plan(seed=1, seq_len=8),
        Cursor(plan_id=manifest.plan(seed=1, seq_len=8).plan_id, epoch=1),
    )

    assert documents_elsewhere(manifest, docs, other).tolist() == list(range(40))


def test_one_run_cannot_follow_itself_and_parts_must_belong_together(
    manifest: Manifest, tmp_path: Path
) -> None:
    plan = manifest.plan(seed=1, seq_len=8)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    words = ["quarantine", "consumed", str(run.path), "--run", str(run.path)]

    result = CliRunner().invoke(cli, words)

    assert (result.exit_code, "are one run" in result.output) == (2, True)
    with pytest.raises(MismatchError, match="give the run's own"):
        consumed_documents(manifest, plan, Cursor(plan_id="f" * 64))


def test_a_shard_that_is_twice_in_the_new_corpus_is_left_out_twice(tmp_path: Path) -> None:
    for name in ("old/a", "new/a", "new/b"):
        write_arrow(tmp_path / f"{name}.arrow", [["one", "two", "three"]])
    old = build_manifest([str(tmp_path / "old")], tmp_path / "m1")
    new = build_manifest([str(tmp_path / "new")], tmp_path / "m2")

    assert documents_elsewhere(old, np.array([0, 2]), new).tolist() == [0, 2, 3, 5]


def test_shards_that_are_gone_are_not_taken_for_each_other(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        write_arrow(tmp_path / name / "gone.arrow", [[f"one of {name}", "two"]])
        write_arrow(tmp_path / name / "kept.arrow", [[f"three of {name}", "four"]])
        parent = build_manifest([str(tmp_path / name)], tmp_path / f"{name}-parent")
        kept = tmp_path / f"{name}-kept"
        kept.mkdir()
        (tmp_path / name / "kept.arrow").rename(kept / "kept.arrow")
        gone = np.array([0, 1])
        found.append(rebuilt_manifest(parent, kept, tmp_path / f"{name}-clean", gone=gone))

    assert documents_elsewhere(found[0], np.array([0, 1]), found[1]).size == 0
