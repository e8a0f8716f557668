"""Stored passed counts: exact lengths and steps found at once, and no trust in damaged files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_loader import arrow_corpus, revision_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from shardward.loader import BatchSchedule, Manifest, Revision, Run, ShardLoader, Skip
from shardward.loader.errors import FormatError, IntegrityError, TopologyError
from shardward.loader.exclusion import Exclusion
from shardward.loader.formats import canonical_json, parse_json
from shardward.loader.geometry import Geometry
from shardward.loader.leap import leap
from shardward.loader.order import EpochOrder, Layout
from shardward.loader.packing import WindowTable
from shardward.loader.passed import PassedCounts, count_passed, touched_windows
from shardward.loader.passed_store import load_passed, passed_path, publish_passed
from shardward.loader.plan import Plan
from shardward.loader.revision_store import load_revision, publish_revision_files
from shardward.loader.step_count import count_steps
from shardward.loader.walk import EpochEnd, Place, Walker
from shardward.schemas import load_schema

GOLDEN = Path(__file__).parent / "golden" / "passed.v1.json"
FINGERPRINT = "f" * 64
COUNTS = PassedCounts(
    revision="a" * 64,
    plan_id="b" * 64,
    epoch=3,
    positions=1000,
    windows=np.array([0, 4, 17], np.int64),
    passed=np.array([2, 1, 60], np.int64),
)


def counted(order: EpochOrder, exclusion: Exclusion) -> PassedCounts:
    windows = touched_windows(order, exclusion)
    return count_passed(order, exclusion, plan_id=order.layout.plan.plan_id, windows=windows)


def test_golden_bytes_of_version_1_never_change() -> None:
    data = GOLDEN.read_bytes()
    value = parse_json(data, where="golden")

    assert canonical_json(COUNTS.to_json()) + b"\n" == data
    assert PassedCounts.from_json(value, where="golden").to_json() == COUNTS.to_json()
    Draft202012Validator(load_schema("passed.v1")).validate(value)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 2}, FormatError),
        ({"epoch": -1}, FormatError),
        ({"windows": [4, 0, 17]}, FormatError),
        ({"passed": [2, 0, 60]}, FormatError),
        ({"passed": [2, 1]}, FormatError),
        ({"passed": "many"}, FormatError),
        ({"passed": [2, 1, 2**70]}, FormatError),
        ({"positions": 62}, FormatError),
        ({"passed": [2, 1, 61]}, IntegrityError),
        ({"surprise": 1}, IntegrityError),
        ({"revision": None}, FormatError),
        ({"plan_id": 5}, FormatError),
        ({"windows": [0, 1], "passed": [2**63 - 1, 2**63 - 1]}, FormatError),
    ],
)
def test_a_changed_file_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        PassedCounts.from_json({**COUNTS.to_json(), **change}, where="here")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=9),
    st.one_of(st.none(), st.integers(1, 8)),
    st.integers(1, 4),
    st.sets(st.integers(0, 30), max_size=20),
    st.integers(1, 5),
    st.sampled_from(["drop", "pad"]),
    st.data(),
)
def test_a_leap_lands_where_walking_does_and_counts_are_exact(
    blocks: list[list[int]],
    seq_len: int | None,
    window_blocks: int,
    excluded: set[int],
    batch: int,
    end: EpochEnd,
    data: st.DataObject,
) -> None:
    lengths = np.array([size for block in blocks for size in block], np.uint32)
    geometry = Geometry(
        block_documents=np.array([len(block) for block in blocks], np.int64),
        block_tokens=np.array([sum(block) for block in blocks], np.int64),
    )
    plan = Plan(
        fingerprint=FINGERPRINT,
        seed=5,
        window_blocks=window_blocks,
        seq_len=seq_len,
        separator=None if seq_len is None else 256,
        pad=257,
    )
    documents = np.array(sorted(d for d in excluded if d < lengths.size), np.int64)
    revision = Revision(
        number=1,
        manifest=FINGERPRINT,
        documents=documents,
        hashes=bytes(16 * documents.size),
        skips=(Skip(plan_id=plan.plan_id, epoch=1, start=1, end=4, reason="test"),),
    )
    exclusion = Exclusion(revision, plan_id=plan.plan_id, mode="compact")
    layout = Layout(plan, geometry, lambda low, high: lengths[low:high])
    schedule = BatchSchedule.of([(1, batch), (4, batch + 1)])
    walk = Walker(layout, exclusion, schedule, epochs=3, end=end)
    assume(all(walk.count(epoch) > batch for epoch in range(3)))
    known = {epoch: counted(walk.order(epoch), exclusion) for epoch in (0, 1, 2)}
    places = [Place(0, 0, 0)]
    while (step := walk.take(places[-1])) is not None:
        places.append(step.after)
    start = data.draw(st.sampled_from(places))

    for number in range(start.step + 1, len(places) + 3):
        sought = walk.seek(start, number)
        assert leap(walk, start, number, known.get) == sought
        assert leap(walk, start, number, lambda epoch: known[0] if epoch == 0 else None) == sought
    exact = count_steps(walk, start, counts=known.get, windows=0)
    assert (exact.last_step, exact.exact) == (len(places) - 1, True)


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Manifest, Plan, Run]:
    dice = np.random.default_rng(1)
    blocks = [["x" * int(dice.integers(1, 60)) for _ in range(6)] for _ in range(300)]
    manifest = arrow_corpus(tmp_path, blocks)
    plan = manifest.plan(seed=2, seq_len=8, window_blocks=1)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    return manifest, plan, run


def published(manifest: Manifest, plan: Plan, run: Run) -> Revision:
    """Publish a revision that touches all 300 windows, more than are counted at a start."""
    revision = revision_of(manifest, range(0, 1800, 6))
    publish_revision_files(run.path, revision)
    layout = Layout(plan, manifest.geometry(), manifest.lengths)
    exclusion = Exclusion(revision, plan_id=plan.plan_id, mode="compact")
    publish_passed(run.path, revision, counted(EpochOrder(layout, 0), exclusion))
    return revision


@pytest.mark.parametrize("recorded", [True, False])
def test_a_loader_with_stored_counts_knows_its_length_and_finds_its_last_step(
    corpus: tuple[Manifest, Plan, Run], monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    manifest, plan, run = corpus
    revision = published(manifest, plan, run)
    with ShardLoader(manifest, plan, batch=4, revision=revision) as loader:
        steps = [(batch.step, batch.positions.tolist()) for batch in loader]
        assert not loader.count_steps().exact
    read: list[int] = []
    original = EpochOrder.window

    def window(order: EpochOrder, number: int) -> WindowTable:
        read.append(number)
        return original(order, number)

    monkeypatch.setattr(EpochOrder, "window", window)
    given: Any = {"run": run, "revision": revision}
    if not recorded:
        given = {"revision": load_revision(run.path, 1, manifest=manifest.fingerprint)}
    with ShardLoader(manifest, plan, batch=4, **given) as loader:
        assert loader.count_steps().exact
        assert (loader.total_steps, len(loader)) == (steps[-1][0], len(steps))
        last = loader.preview(loader.total_steps)

    assert last.positions.tolist() == steps[-1][1]
    assert len(set(read)) < 8


@pytest.mark.parametrize("damage", ["cut", "flipped", "other", "gone", "directory"])
def test_counts_that_cannot_be_trusted_are_left_aside(
    corpus: tuple[Manifest, Plan, Run], caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    manifest, plan, run = corpus
    revision = published(manifest, plan, run)
    path = passed_path(run.path, revision, plan.plan_id, 0)
    good = load_passed(run.path, revision, plan.plan_id, 0)
    assert good is not None
    data = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(data[:-20])
    elif damage == "flipped":
        value = json.loads(data)
        path.write_text(json.dumps({**value, "passed": [n + 1 for n in value["passed"]]}))
    elif damage == "other":
        other = PassedCounts(
            revision="c" * 64,
            plan_id=good.plan_id,
            epoch=0,
            positions=good.positions,
            windows=good.windows,
            passed=good.passed,
        )
        path.write_bytes(canonical_json(other.to_json()))
    elif damage == "directory":
        path.mkdir()

    with (
        caplog.at_level(logging.WARNING),
        ShardLoader(manifest, plan, batch=4, run=run, revision=1) as loader,
    ):
        found = loader.count_steps()

    assert not found.exact
    assert bool([r for r in caplog.records if "aside" in r.message]) == (damage != "gone")


def test_an_epoch_without_a_batch_is_refused_with_counts_too() -> None:
    lengths = np.array([7], np.uint32)
    plan = Plan(
        fingerprint=FINGERPRINT, seed=1, window_blocks=1, seq_len=None, separator=None, pad=257
    )
    layout = Layout(
        plan,
        Geometry(block_documents=np.array([1], np.int64), block_tokens=np.array([7], np.int64)),
        lambda low, high: lengths[low:high],
    )
    revision = Revision(number=1, manifest=FINGERPRINT)
    exclusion = Exclusion(revision, plan_id=plan.plan_id, mode="compact")
    walk = Walker(layout, exclusion, BatchSchedule.of(2), epochs=None)

    with pytest.raises(TopologyError, match="1 samples left"):
        leap(walk, Place(0, 0, 0), 5, lambda epoch: counted(walk.order(epoch), exclusion))
