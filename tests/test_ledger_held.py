"""What on_corrupt="hold" masked is never said to have fed a step, and padding is never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers_ledger import BATCH
from helpers_loader import arrow_corpus

from shardward.loader.manifest import Manifest
from shardward.loader.order import EpochOrder, Layout
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import ALL, EFFECTIVE, Ledger
from shardward.quarantine.ledger.step_answer import step_from_journals


def corpus(home: Path) -> Manifest:
    blocks = [[f"block {b} text {t} " * (1 + (b + t) % 4) for t in range(10)] for b in range(6)]
    return arrow_corpus(home, blocks, shards=6)


def held(home: Path, record: Any) -> tuple[Run, list[Any]]:
    """Train an epoch while one shard of six does not hold what was indexed; then put it back."""
    manifest = corpus(home)
    plan = manifest.plan(seed=3, seq_len=32, window_blocks=2)
    run = Run.create(home / "run", plan=plan, manifest_path=manifest.path)
    shard = sorted((home / "data").glob("part-*"))[2]
    data = shard.read_bytes()
    shard.write_bytes(data.replace(b"text", b"tent"))
    with ShardLoader(
        manifest, plan, run=run, batch=BATCH, record=record, on_corrupt="hold"
    ) as loop:
        batches = []
        for batch in loop:
            batches.append(batch)
            loop.observe(batch.step)
        assert loop.stats.lost_blocks == 1
    shard.write_bytes(data)
    return run, batches


@pytest.mark.parametrize("record", ["documents", "runs"])
def test_masked_documents_fed_no_step(tmp_path: Path, record: str) -> None:
    run, batches = held(tmp_path, record)
    assert min(batch.blanked_tokens for batch in batches) == 0 < batches[-1].step
    assert max(batch.blanked_tokens for batch in batches) > 0
    with Ledger.open(run) as ledger:
        for seconds in (0, None):
            ledger.ingest(seconds=seconds)
            for batch in batches:
                assert ledger.step_documents(batch.step)["doc"].to_pylist() == (
                    batch.segments.doc.tolist()
                )
        lean = step_from_journals(run, EFFECTIVE, batches[2].step, ledger._deriver)
        assert lean.rows["doc"].to_pylist() == batches[2].segments.doc.tolist()
        assert ledger.document_steps(list(range(20, 30))).num_rows == 0
        expected = sorted(
            (doc, batch.step)
            for batch in batches
            for doc in batch.segments.doc.tolist()
            if doc >= 30
        )
        rows = ledger.document_steps(list(range(30, 60)))
        assert list(zip(rows["doc"].to_pylist(), rows["step"].to_pylist(), strict=True)) == expected
        dark = next(batch for batch in batches if batch.blanked_tokens)
        for row, position in enumerate(dark.positions.tolist()):
            found = [doc for doc in ledger.sample(position)["doc"].to_pylist() if doc is not None]
            assert found == dark.segments.doc[dark.segments.sample == row].tolist()


def test_verify_knows_what_was_masked(tmp_path: Path) -> None:
    run, batches = held(tmp_path, "runs")
    with Ledger.open(run) as ledger:
        result = ledger.verify(stop_after=99)

    assert (result.records, result.differences) == (len(batches), ())


def padded(home: Path) -> tuple[Run, int]:
    """Train an epoch on two ranks whose last step is padded on both."""
    manifest = corpus(home)
    plan = manifest.plan(seed=3, seq_len=32, window_blocks=2)
    total = EpochOrder(Layout(plan, manifest.geometry(), manifest.lengths), 0).positions
    batch = next(size for size in range(8, 80, 2) if 1 < total % size < size // 2)
    run = Run.create(home / "run", plan=plan, manifest_path=manifest.path)
    for rank in range(2):
        with ShardLoader(
            manifest, plan, run=run, batch=batch, topology=Topology(dp_rank=rank, dp_size=2),
            launch="two", end="pad",
        ) as loader:  # fmt: skip
            last = [batch.step for batch in loader][-1]
    return run, last


def test_verify_of_a_padded_step_alone_agrees(tmp_path: Path) -> None:
    run, last = padded(tmp_path)
    with Ledger.open(run) as ledger:
        assert ledger.verify(first=last, last=last).differences == ()
        assert ledger.verify().differences == ()


def test_verify_reads_its_records_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, last = padded(tmp_path)
    monkeypatch.setattr("shardward.quarantine.ledger.verify.RECORDS_AT_ONCE", 4)
    with Ledger.open(run) as ledger:
        result = ledger.verify()

    assert (result.records, result.differences) == (2 * last, ())


@pytest.mark.parametrize("record", ["documents", "runs"])
@pytest.mark.parametrize("damaged_on", [(), (1,), (0, 1)])
def test_a_block_that_only_some_ranks_masked_is_a_problem_with_its_step(
    tmp_path: Path, damaged_on: tuple[int, ...], record: Any
) -> None:
    manifest = corpus(tmp_path)
    plan = manifest.plan(seed=3, seq_len=32, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    shard = sorted((tmp_path / "data").glob("part-*"))[2]
    data = shard.read_bytes()
    targets: list[list[int]] = []
    for rank in range(2):
        shard.write_bytes(data.replace(b"text", b"tent") if rank in damaged_on else data)
        with ShardLoader(
            Manifest.load(manifest.path), plan, run=run, batch=BATCH, on_corrupt="hold", epochs=2,
            topology=Topology(dp_rank=rank, dp_size=2), launch="two", record=record,
        ) as loader:  # fmt: skip
            targets.append([])
            for batch in loader:
                targets[rank].append(batch.global_target_tokens)
                loader.observe(batch.step)
    with Ledger.open(run) as ledger:
        problems, every = ledger.check(), ledger.check(ALL)
    manifest.path.rename(tmp_path / "gone")
    with Ledger.open(run) as ledger:
        unsure = ledger.check()

    differ = [
        step
        for step, (mine, other) in enumerate(zip(*targets, strict=True), start=1)
        if mine != other
    ]
    assert bool(differ) == (damaged_on == (1,))
    assert [each.kind for each in problems] == ["masked_on_some_ranks"] * bool(differ)
    assert all(each.rank == 1 and each.serious and each.step in differ for each in problems)
    assert every == problems
    if record == "runs":
        assert [(each.rank, each.serious) for each in unsure] == [
            (rank, False) for rank in damaged_on
        ]
        assert all("--manifest" in each.message for each in unsure)
    else:
        assert unsure == problems
