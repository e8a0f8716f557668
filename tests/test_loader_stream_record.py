"""What stands in the journal, and when: deliveries before batches, completions after reports."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from helpers_loader import arrow_corpus, revision_of

from shardward.loader import Batch, Manifest, Plan, Run, ShardLoader, Topology
from shardward.loader.errors import Busy, MismatchError, TopologyError
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.records import delivered, note

BLOCKS = [[f"block {b} text {t} " * 2 for t in range(8)] for b in range(5)]


@pytest.fixture
def job(tmp_path: Path) -> tuple[Manifest, Plan, Run]:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    plan = manifest.plan(seed=3, seq_len=16, window_blocks=2)
    return manifest, plan, Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)


def steps_of(run: Run, kind: Kind) -> list[int]:
    return [f.step for path in run.journals() for f in read_journal(path).frames if f.kind == kind]


def test_a_step_is_recorded_before_its_first_micro_batch_and_never_at_prefetch(
    job: tuple[Manifest, Plan, Run],
) -> None:
    manifest, plan, run = job
    with ShardLoader(manifest, plan, run=run, batch=4, micros=2) as loader:
        seen: list[list[int]] = []
        for _ in range(5):
            next(loader)
            seen.append(steps_of(run, Kind.DELIVERED))

    assert seen == [[1], [1], [1, 2], [1, 2], [1, 2, 3]]


def test_a_record_holds_all_micro_batches_of_its_step(job: tuple[Manifest, Plan, Run]) -> None:
    manifest, plan, run = job
    with ShardLoader(manifest, plan, run=run, batch=6, micros=3) as loader:
        batches = [next(loader) for _ in range(3)]
    record = delivered(
        next(f for f in read_journal(run.journals()[0]).frames if f.kind == Kind.DELIVERED)
    )

    assert [batch.micro for batch in batches] == [0, 1, 2]
    assert record.positions.tolist() == [p for batch in batches for p in batch.positions.tolist()]
    assert record.doc.tolist() == [d for batch in batches for d in batch.segments.doc.tolist()]
    assert record.target_tokens == sum(batch.target_tokens for batch in batches)
    assert (record.micros, record.start, record.end) == (3, 0, 6)


def test_runs_alone_are_recorded_when_asked(job: tuple[Manifest, Plan, Run]) -> None:
    manifest, plan, run = job
    with ShardLoader(manifest, plan, run=run, batch=6, record="runs") as loader:
        batch = next(loader)
    frames = read_journal(run.journals()[0]).frames
    record = delivered(next(f for f in frames if f.kind == Kind.DELIVERED))

    assert record.positions.tolist() == batch.positions.tolist()
    assert record.doc.size == 0


def test_reports_cover_the_steps_before_them_and_carry_what_is_not_a_number(
    job: tuple[Manifest, Plan, Run],
) -> None:
    manifest, plan, run = job
    with ShardLoader(manifest, plan, run=run, batch=4) as loader:
        for _ in range(3):
            next(loader)
        loader.observe(3, loss=math.nan, grad_norm=None, lr=1e-3, sample_loss=[1.0, 2.0, 3.0, 4.0])
        loader.checkpoint(3, "ckpt/3.pt")
    notes = {f.kind: note(f).values for f in read_journal(run.journals()[0]).frames if f.kind > 2}

    assert steps_of(run, Kind.COMPLETED) == [1, 2, 3]
    assert math.isnan(notes[Kind.TELEMETRY]["loss"])
    assert notes[Kind.TELEMETRY]["lr"] == 1e-3
    assert "grad_norm" not in notes[Kind.TELEMETRY]
    assert notes[Kind.SAMPLE_LOSS]["loss"] == [1.0, 2.0, 3.0, 4.0]
    assert notes[Kind.CHECKPOINT]["path"] == "ckpt/3.pt"
    assert notes[Kind.CHECKPOINT]["cursor"]["step"] == 3


def test_replicas_of_a_rank_get_the_same_rows(job: tuple[Manifest, Plan, Run]) -> None:
    manifest, plan, run = job
    found: dict[tuple[int, int], list[Batch]] = {}
    loaders = {
        (rank, replica): ShardLoader(
            manifest,
            plan,
            run=run,
            batch=4,
            launch="one",
            topology=Topology(dp_rank=rank, dp_size=2, replica=replica, replicas=2),
        )
        for rank in range(2)
        for replica in range(2)
    }
    for place, loader in loaders.items():
        found[place] = list(loader)
        loader.close()

    for rank in range(2):
        for one, two in zip(found[rank, 0], found[rank, 1], strict=True):
            assert one.tokens.tolist() == two.tokens.tolist()
            assert one.cursor_after == two.cursor_after
    assert len(run.pieces()) == 1
    assert len(run.journals()) == 4


def test_several_ranks_without_a_launch_token_are_refused(job: tuple[Manifest, Plan, Run]) -> None:
    manifest, plan, run = job
    with pytest.raises(TopologyError, match="launch"):
        ShardLoader(manifest, plan, run=run, batch=4, topology=Topology(dp_size=2))


def test_a_second_trainer_on_a_run_is_refused(job: tuple[Manifest, Plan, Run]) -> None:
    manifest, plan, run = job
    with (
        ShardLoader(manifest, plan, run=run, batch=4),
        pytest.raises(Busy, match="training on this run"),
    ):
        ShardLoader(manifest, plan, run=Run.open(run.path), batch=4)


def test_what_an_epoch_drops_is_recorded(job: tuple[Manifest, Plan, Run]) -> None:
    manifest, plan, run = job
    with ShardLoader(manifest, plan, run=run, batch=7, epochs=2) as loader:
        total = loader.source.walker().count(0)
        list(loader)
    events = [
        note(f).values for f in read_journal(run.journals()[0]).frames if f.kind == Kind.EVENT
    ]

    assert total % 7
    assert events == [{"event": "dropped_samples", "samples": total % 7}] * 2


def test_a_revision_of_another_manifest_is_refused(
    job: tuple[Manifest, Plan, Run], tmp_path: Path
) -> None:
    manifest, plan, _ = job
    other = arrow_corpus(tmp_path / "other", [["else"]])

    with pytest.raises(MismatchError, match=r"revision 1 is for manifest"):
        ShardLoader(manifest, plan, batch=4, revision=revision_of(other, [0]))
