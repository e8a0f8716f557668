"""What hurt the users of other loaders, one small test for each report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from helpers_loader import arrow_corpus, revision_of, texts_of, write_arrow

from shardward.loader import (
    Batch,
    Cursor,
    Manifest,
    Plan,
    Revision,
    Run,
    ShardLoader,
    Skip,
    Topology,
    build_manifest,
)
from shardward.loader.errors import (
    CorruptBlock,
    FormatError,
    MismatchError,
    NotFound,
    ShardwardError,
    SupersededCursor,
    TopologyError,
    UsageError,
)
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.records import delivered
from shardward.loader.revision_store import publish_revision_files

BLOCKS = [[f"block {b} text {t} " * (1 + (b + t) % 4) for t in range(10)] for b in range(6)]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return arrow_corpus(tmp_path, BLOCKS, shards=2)


def loader(manifest: Manifest, plan: Plan, **options: Any) -> ShardLoader:
    return ShardLoader(manifest, plan, **{"batch": 4, **options})


def rows(batches: list[Batch]) -> list[list[int]]:
    return [row.tolist() for batch in batches for row in batch.tokens]


def documents(batches: list[Batch]) -> list[int]:
    return [doc for batch in batches for doc in batch.segments.doc.tolist()]


def take(source: ShardLoader, steps: int) -> list[Batch]:
    found = []
    for batch in source:
        source.observe(batch.step)
        found.append(batch)
        if len(found) == steps:
            break
    return found


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_L1_resuming_inside_a_record_batch_gives_the_very_next_row(
    tmp_path: Path, steps: int
) -> None:
    manifest = arrow_corpus(tmp_path, [[f"row {row}" for row in range(12)]])
    plan = manifest.plan(seed=1, seq_len=None)
    with loader(manifest, plan, batch=3) as whole:
        order = documents(take(whole, 4))
    with loader(manifest, plan, batch=3) as first:
        taken = documents(take(first, steps))
        cursor = first.state_dict()
    with loader(manifest, plan, batch=3, cursor=cursor) as second:
        taken += documents(list(second))

    assert sorted(order) == list(range(12))
    assert taken == order


@pytest.mark.parametrize("seq_len", [None, 16])
@pytest.mark.parametrize("steps", [1, 4, 7])
def test_L2_L11_L12_a_resumed_stream_is_the_uninterrupted_one(
    manifest: Manifest, seq_len: int | None, steps: int
) -> None:
    plan = manifest.plan(seed=2, seq_len=seq_len, window_blocks=2)
    with loader(manifest, plan, epochs=2) as whole:
        expected = rows(list(whole))
    with loader(manifest, plan, epochs=2) as first:
        got = rows(take(first, steps))
        cursor = first.state_dict()
    with loader(manifest, plan, epochs=2, cursor=cursor) as fresh:
        got += rows(list(fresh))

    assert got == expected


def test_L3_all_ranks_take_the_same_number_of_steps_from_uneven_shards(tmp_path: Path) -> None:
    sizes = [1, 17, 0, 5, 2]
    blocks = [[f"{b} {t}" for t in range(size)] for b, size in enumerate(sizes)]
    manifest = arrow_corpus(tmp_path, blocks, shards=5)
    plan = manifest.plan(seed=3, seq_len=None, window_blocks=2)
    revision = revision_of(manifest, [0, 3, 4, 20])

    steps = []
    for rank in range(4):
        topology = Topology(dp_rank=rank, dp_size=4)
        with loader(manifest, plan, topology=topology, revision=revision) as ours:
            steps.append([batch.step for batch in ours])

    assert steps == [list(range(1, 6))] * 4


@pytest.mark.parametrize("end", ["drop", "pad"])
def test_L4_every_epoch_is_whole_whether_resumed_in_it_or_at_its_end(
    manifest: Manifest, end: str
) -> None:
    plan = manifest.plan(seed=4, seq_len=None, window_blocks=4)
    options = {"epochs": 3, "batch": 8, "end": end}
    with loader(manifest, plan, **options) as whole:
        expected = [(b.step, b.epoch, b.positions.tolist()) for b in whole]
    per_epoch = [sum(epoch == e for _, epoch, _ in expected) for e in range(3)]

    assert per_epoch == [8 if end == "pad" else 7] * 3
    for steps in (per_epoch[0] - 1, per_epoch[0], per_epoch[0] + 1):
        with loader(manifest, plan, **options) as first:
            cursor = take(first, steps)[-1].cursor_after
        with loader(manifest, plan, cursor=cursor, **options) as second:
            assert len(second) == sum(per_epoch) - steps
            rest = [(b.step, b.epoch, b.positions.tolist()) for b in second]
        assert rest == expected[steps:]


@pytest.mark.parametrize("threads", [0, 1, 4])
@pytest.mark.parametrize("prefetch_bytes", [1, 1 << 30])
def test_L5_prefetched_batches_are_not_counted(
    manifest: Manifest, threads: int, prefetch_bytes: int
) -> None:
    plan = manifest.plan(seed=5, seq_len=8, window_blocks=2)
    with loader(manifest, plan, threads=threads, prefetch_bytes=prefetch_bytes) as ahead:
        held = [next(ahead) for _ in range(5)]
        for batch in held[:3]:
            ahead.observe(batch.step)

        assert ahead.state_dict() == held[2].cursor_after.to_json()
        assert ahead.state_dict()["step"] == 3


def counted(function: Callable[[], Any]) -> tuple[Any, int]:
    """Return what `function` returns, and how many calls and returns that takes."""
    events: list[str] = []

    def note(frame: FrameType, kind: str, argument: object) -> None:
        events.append(kind)

    sys.setprofile(note)
    try:
        result = function()
    finally:
        sys.setprofile(None)
    return result, len(events)


def test_L6_the_state_costs_the_same_few_calls_at_every_step(manifest: Manifest) -> None:
    plan = manifest.plan(seed=6, seq_len=8, window_blocks=2)
    costs = []
    with loader(manifest, plan, batch=2, epochs=3) as ours:
        for batch in ours:
            ours.observe(batch.step)
            state, calls = counted(ours.state_dict)
            costs.append(calls)
            assert len(str(state)) < 1024

    assert len(costs) > 400
    assert set(costs[2:]) == {costs[1]}
    assert costs[1] < 100


def test_L7_a_batch_that_does_not_split_is_refused_with_the_nearest_sizes(
    manifest: Manifest,
) -> None:
    plan = manifest.plan(seed=7, seq_len=8)

    with pytest.raises(TopologyError, match="the nearest valid batch is 20 or 25"):
        loader(manifest, plan, batch=24, topology=Topology(dp_size=5))


class Flaky:
    """Fails the given block some times, then lets it pass."""

    def __init__(self, manifest: Manifest, block: int, times: int) -> None:
        self.whole = manifest.open_block
        self.block, self.times, self.tries = block, times, 0

    def __call__(self, block: int, into: Any) -> Any:
        if block == self.block:
            self.tries += 1
            if self.tries <= self.times:
                raise CorruptBlock(f"block {block} failed its digest")
        return self.whole(block, into)


def test_L10_a_block_that_fails_once_is_read_again(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = manifest.plan(seed=8, seq_len=8)
    with loader(manifest, plan) as plain:
        expected = rows(list(plain))
    monkeypatch.setattr(manifest, "open_block", Flaky(manifest, 3, times=2))

    with loader(manifest, plan) as flaky:
        assert rows(list(flaky)) == expected


@pytest.mark.parametrize("threads", [0, 2])
def test_L10_a_corrupt_block_stops_the_run_or_is_held_with_all_else_unchanged(
    manifest: Manifest, tmp_path: Path, threads: int
) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    with loader(manifest, plan) as plain:
        expected = list(plain)
    write_arrow(tmp_path / "data" / "part-001.arrow", [*BLOCKS[3:5], ["x"] * 10])
    damaged = Manifest.load(manifest.path)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)

    with (
        loader(damaged, plan, threads=threads) as stops,
        pytest.raises(ShardwardError, match=r"part-001\.arrow rows 20 to 29 have digest"),
    ):
        list(stops)
    with loader(damaged, plan, run=run, on_corrupt="hold", threads=threads) as holds:
        got = list(holds)
    events = [
        frame
        for frame in read_journal(run.journals()[0]).frames
        if frame.kind == Kind.EVENT and b"corrupt_block" in frame.payload
    ]

    assert [b.positions.tolist() for b in got] == [b.positions.tolist() for b in expected]
    assert set(documents(got)) == set(range(50))
    for a, b in zip(expected, got, strict=True):
        assert (a.tokens[b.loss_mask] == b.tokens[b.loss_mask]).all()
    assert len(events) == 1
    assert b'"first_document":50' in events[0].payload


def test_L13_after_a_skip_the_record_names_what_really_fed_a_step_and_skips_once(
    manifest: Manifest, tmp_path: Path
) -> None:
    plan = manifest.plan(seed=9, seq_len=8, window_blocks=2)
    with loader(manifest, plan) as whole:
        original = [b.positions.tolist() for b in whole]
    skip = Skip(plan_id=plan.plan_id, epoch=0, start=4, end=16, reason="steps 2 to 4")
    revision = Revision(
        number=1, manifest=manifest.fingerprint, documents=np.empty(0, np.int64), skips=(skip,)
    )
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    publish_revision_files(run.path, revision)
    with loader(manifest, plan, run=run, revision=1) as first:
        seen = take(first, 6)
        cursor = first.state_dict()
    with loader(manifest, plan, run=run, cursor=cursor, revision=1) as again:
        seen += take(again, 6)
    records = {
        frame.step: delivered(frame)
        for path in run.journals()
        for frame in read_journal(path).frames
        if frame.kind == Kind.DELIVERED
    }

    assert [b.positions.tolist() for b in seen] == [original[0], *original[4:15]]
    assert records[10].doc.tolist() == seen[9].segments.doc.tolist()
    assert records[10].positions.tolist() == original[12]


def test_L14_the_batch_of_step_n_is_the_one_trained_at_n(manifest: Manifest) -> None:
    plan = manifest.plan(seed=10, seq_len=8)
    with loader(manifest, plan) as ours:
        batches = take(ours, 5)
        previews = [ours.preview(step) for step in range(1, 6)]

    assert [batch.step for batch in batches] == [1, 2, 3, 4, 5]
    assert [batch.cursor_after.step for batch in batches] == [1, 2, 3, 4, 5]
    assert [p.positions.tolist() for p in previews] == [b.positions.tolist() for b in batches]
    assert [p.segments.doc.tolist() for p in previews] == [b.segments.doc.tolist() for b in batches]
    with loader(manifest, plan, cursor=batches[2].cursor_after) as resumed:
        assert next(resumed).tokens.tolist() == batches[3].tokens.tolist()


def test_L15_a_cursor_of_another_manifest_is_refused_with_both_values(
    manifest: Manifest, tmp_path: Path
) -> None:
    other = arrow_corpus(tmp_path / "other", [*BLOCKS, ["more"]])
    plan, other_plan = manifest.plan(seed=1, seq_len=8), other.plan(seed=1, seq_len=8)
    cursor = Cursor(plan_id=other_plan.plan_id, step=3, position=12)

    with pytest.raises(MismatchError, match=f"{other_plan.plan_id[:12]}.*{plan.plan_id[:12]}"):
        loader(manifest, plan, cursor=cursor)
    with pytest.raises(MismatchError, match=f"{plan.fingerprint[:12]}.*{other.fingerprint[:12]}"):
        loader(other, plan)


def test_L16_the_document_ids_are_on_the_batch(manifest: Manifest) -> None:
    plan = manifest.plan(seed=12, seq_len=24)
    texts = texts_of(BLOCKS)
    with loader(manifest, plan) as ours:
        batch = next(ours)

    for row, doc, start, end, offset in zip(
        *(column.tolist() for column in batch.segments.columns()), strict=True
    ):
        expected = [*texts[doc], 256][start:end]
        assert batch.tokens[row, offset : offset + end - start].tolist() == expected
    assert batch.cu_seqlens()[-1] == batch.tokens.size


def test_L17_a_changed_plan_or_corpus_is_refused_with_how_to_go_on(
    manifest: Manifest, tmp_path: Path
) -> None:
    plan = manifest.plan(seed=13, seq_len=8)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with loader(manifest, plan, run=run) as ours:
        cursor = take(ours, 2)[-1].cursor_after
    longer = manifest.plan(seed=13, seq_len=16)
    write_arrow(tmp_path / "data" / "part-002.arrow", [["a new shard"]])
    grown = build_manifest([str(tmp_path / "data")], tmp_path / "grown")

    with pytest.raises(MismatchError, match="seq_len 8 and 16"):
        loader(manifest, longer, run=run, cursor=cursor)
    with pytest.raises(MismatchError, match="quarantine consumed OLD_RUN --run NEW_RUN"):
        loader(manifest, longer, cursor=cursor)
    with pytest.raises(MismatchError, match="gained or lost a shard"):
        loader(grown, plan, run=run, cursor=cursor)


def test_a_requeued_job_with_the_superseded_cursor_is_refused(
    manifest: Manifest, tmp_path: Path
) -> None:
    plan = manifest.plan(seed=14, seq_len=8)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with loader(manifest, plan, run=run) as ours:
        batches = take(ours, 6)
        healthy, poisoned = batches[2].cursor_after, batches[5].cursor_after
    run.move_head(piece=1, step=3, cursor=healthy, revision=0)

    with pytest.raises(SupersededCursor, match="piece 1 step 3"):
        loader(manifest, plan, run=run, cursor=poisoned)
    with loader(manifest, plan, run=run, cursor=healthy, reason="rewind") as resumed:
        assert next(resumed).tokens.tolist() == batches[3].tokens.tolist()
    with loader(manifest, plan, run=run, cursor=poisoned, fork=True) as forked:
        assert next(forked).step == 7


@pytest.mark.parametrize(
    "change", [{"version": 9}, {"format": "x"}, {"step": -1}, {"mode": "x"}, {"extra": 1}]
)
def test_a_malformed_or_unknown_cursor_is_refused(
    manifest: Manifest, change: dict[str, Any]
) -> None:
    plan = manifest.plan(seed=1, seq_len=8)
    cursor = {**Cursor(plan_id=plan.plan_id).to_json(), **change}

    with pytest.raises(FormatError):
        loader(manifest, plan, cursor=cursor)


def test_a_trainer_that_never_reports_is_told_so_when_it_saves(manifest: Manifest) -> None:
    with loader(manifest, manifest.plan(seed=1, seq_len=8)) as ours:
        for _ in range(8):
            next(ours)

        with pytest.raises(ShardwardError, match="steps 1 to 8 were delivered and none"):
            ours.state_dict()


def test_reports_come_in_order_and_after_delivery(manifest: Manifest) -> None:
    with loader(manifest, manifest.plan(seed=1, seq_len=8)) as ours:
        next(ours)
        with pytest.raises(UsageError, match="up to 1 delivered"):
            ours.observe(2)
        with pytest.raises(UsageError, match="is the last completed one"):
            ours.checkpoint(1)
        ours.observe(1, loss=2.0, grad_norm=None)

        assert ours.checkpoint(1)["step"] == 1
        with pytest.raises(NotFound):
            ours.preview(10_000)
