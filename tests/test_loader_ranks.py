"""Ranks that do not train on one batch are told so, all at once, with step and rank."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_ledger import make_run, slice_of, train
from helpers_loader import arrow_corpus
from hypothesis import given
from hypothesis import strategies as st

from shardward.loader.errors import IntegrityError
from shardward.loader.journal import JournalWriter, read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.manifest import Manifest
from shardward.loader.rank_check import RankCheck, Share, check_recorded_ranks, compare
from shardward.loader.records import prepare_delivered
from shardward.loader.run import Run
from shardward.loader.run_signals import Signals
from shardward.loader.stream import ShardLoader
from shardward.loader.topology import Topology

RANK = """
import json, sys, time
from pathlib import Path
from shardward.loader import Manifest, ShardLoader
from shardward.loader.errors import IntegrityError
from shardward.loader.topology import Topology

home, me, given = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
manifest = Manifest.load(home / "manifest")
rounds = 0

def gather(signals):
    '''Return the signals of all processes, as an all-gather would: through files.'''
    global rounds
    rounds += 1
    part = home / f"{rounds}-{me}.part"
    part.write_text(json.dumps(signals))
    part.rename(home / f"{rounds}-{me}.json")
    every = [home / f"{rounds}-{other}.json" for other in range(given["processes"])]
    while not all(path.exists() for path in every):
        time.sleep(0.005)
    return [json.loads(path.read_text()) for path in every]

place = Topology(dp_rank=given.get("rank", me), dp_size=given.get("size", given["processes"]),
                 replica=given.get("replica", 0), replicas=given.get("replicas", 1))
plan = manifest.plan(seed=1, seq_len=16, window_blocks=2)
with ShardLoader(manifest, plan, batch=given.get("batch", 6), topology=place) as loader:
    try:
        for batch in loader:
            if batch.step == given.get("skips"):
                batch = next(loader)
            if batch.step > 4:
                break
            got = loader.observe(batch.step, loss=float(me), reduce=gather)
        print(json.dumps(got))
    except IntegrityError as error:
        print(error)
"""


def told(home: Path, *processes: dict[str, Any]) -> list[str]:
    """Run one trainer a process and return what each prints."""
    arrow_corpus(home, [[f"text {b} {t} " * 3 for t in range(12)] for b in range(4)], shards=1)
    running = []
    for me, given_ in enumerate(processes):
        words = json.dumps({"processes": len(processes), **given_})
        command = [sys.executable, "-c", RANK, str(home), str(me), words]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    return [process.communicate(timeout=60)[0].strip() for process in running]


def test_ranks_of_one_batch_agree_and_share_their_signals(tmp_path: Path) -> None:
    said = told(tmp_path, {}, {}, {})

    assert [json.loads(text) for text in said] == [{"loss": 1.0, "nonfinite_ranks": 0.0}] * 3


def test_replicas_of_one_rank_agree(tmp_path: Path) -> None:
    places = [
        {"rank": r, "size": 2, "replica": x, "replicas": 2} for r in range(2) for x in range(2)
    ]

    assert all(json.loads(text)["loss"] == 1.5 for text in told(tmp_path, *places))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"batch": 12}, "step 1, rank 2: it is at step 1, up to position 12 of epoch 0, rank 0"),
        ({"skips": 3}, "step 4, rank 2: it is at step 4"),
        ({"rank": 1}, "step 1, rank 1: two processes say that they are this one"),
        ({"size": 6}, "step 1, rank 2: it has samples that rank 1 has too"),
    ],
)
def test_every_rank_is_told_which_step_and_rank_differ(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    said = told(tmp_path, {}, {}, wrong)

    assert words in said[0]
    assert said == [said[0]] * 3


def share(rank: int, **changes: int) -> Share:
    record = slice_of(7, 1, rank, 4)
    return replace(Share.of(record), **changes)


def test_replicas_that_differ_are_named() -> None:
    compare([share(0), share(1), share(1, replica=1)])
    with pytest.raises(IntegrityError, match=r"step 7, rank 1 replica 1: .* not those of rank 1"):
        compare([share(0), share(1), share(1, replica=1, digest=5)])


@given(
    st.permutations(range(4)),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 1 << 40),
)
def test_the_order_and_the_rounding_of_a_gather_raise_no_alarm(
    order: Sequence[int], kind: type[np.floating[Any]], low: int
) -> None:
    sent: list[dict[str, float]] = []

    def alone(own: Signals) -> list[Signals]:
        sent.append(dict(own))
        return [own]

    for rank in range(4):
        check = RankCheck()
        check.remember(share(rank, first=low + rank, last=low + rank, end=low + 4))
        check.reduced(7, {"loss": 1.0}, alone)
    rounded = [{name: float(kind(value)) for name, value in sent[rank].items()} for rank in order]

    assert RankCheck().reduced(7, {}, lambda _: rounded) == {"loss": 1.0, "nonfinite_ranks": 0.0}


def test_one_sample_on_two_ranks_is_a_disagreement() -> None:
    with pytest.raises(IntegrityError, match="rank 1: it has samples that rank 0 has too"):
        compare([share(0, first=4, last=5), share(1, first=5, last=6)])


def test_a_rank_without_samples_is_no_disagreement() -> None:
    nothing = slice_of(7, 1, 3, 4, positions=np.array([], dtype=np.int64), digest=bytes(16))
    compare([share(0), Share.of(nothing), replace(Share.of(nothing), rank=2)])


def test_rank_0_compares_the_journals_at_a_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    piece = train(run, range(1, 500), size=2).piece
    both = Topology(dp_rank=0, dp_size=2)
    for step in (1, 250, 499):
        check_recorded_ranks(run, piece, step, both)
    with JournalWriter(run.journal_path(1, 0)) as writer:
        writer.append(prepare_delivered(slice_of(500, 1, 0, 2)))
    check_recorded_ranks(run, piece, 500, both)  # rank 1 is not so far yet
    with JournalWriter(run.journal_path(1, 1)) as writer:
        writer.append(prepare_delivered(slice_of(500, 1, 1, 2, start=2000, end=2008)))
    with pytest.raises(IntegrityError, match=r"step 500, rank 1: .* up to position 2008"):
        check_recorded_ranks(run, piece, 500, both)
    check_recorded_ranks(run, piece, 500, Topology(dp_rank=1, dp_size=2))
    run.journal_path(1, 1).unlink()
    check_recorded_ranks(run, piece, 500, both)


def test_the_loader_compares_before_it_records_a_checkpoint(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, [[f"text {b} {t} " * 3 for t in range(12)] for b in range(4)])
    plan = manifest.plan(seed=1, seq_len=16, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    loaders = [
        ShardLoader(
            manifest,
            plan,
            run=run,
            batch=4,
            topology=Topology(dp_rank=rank, dp_size=2),
            launch="job",
        )
        for rank in range(2)
    ]
    for loader in loaders:
        loader.observe(next(loader).step)
    loaders[0].checkpoint(1)
    loaders[1].close()
    run.journal_path(1, 1).unlink()
    with JournalWriter(run.journal_path(1, 1)) as writer:
        writer.append(prepare_delivered(slice_of(1, 1, 1, 2, end=8)))
    with pytest.raises(IntegrityError, match=r"step 1, rank 1: .* up to position 8"):
        loaders[0].checkpoint(1)
    loaders[0].close()
    kinds = [frame.kind for frame in read_journal(run.journal_path(1, 0)).frames]

    assert kinds.count(Kind.CHECKPOINT) == 1


def test_ranks_that_count_other_tokens_in_the_loss_are_told_so() -> None:
    compare([share(0, tokens=64), share(1, tokens=64), share(2)])
    with pytest.raises(IntegrityError, match=r"step 7, rank 1: it counts 21 .*, rank 0 64"):
        compare([share(0, tokens=64), share(1, tokens=21)])


def test_a_block_that_one_rank_masked_stops_all_of_them(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, [[f"text {b} {t} " * 3 for t in range(12)] for b in range(4)])
    plan = manifest.plan(seed=1, seq_len=16, window_blocks=4)
    shard = next((tmp_path / "data").iterdir())
    data = shard.read_bytes()
    loaders = []
    sent: list[Signals] = []

    def noted(own: Signals) -> list[Signals]:
        sent.append(own)
        return [own]

    for rank in range(2):
        shard.write_bytes(data.replace(b"text 2", b"tent 2") if rank else data)
        loader = ShardLoader(
            Manifest.load(manifest.path),
            plan,
            batch=8,
            threads=0,
            on_corrupt="hold",
            topology=Topology(dp_rank=rank, dp_size=2),
        )
        loaders.append(loader)
        step = next(loader).step
        loader.observe(step, loss=1.0, reduce=noted)

    for loader in loaders:
        with pytest.raises(IntegrityError, match="step 1, rank 1: it counts"):
            loader.observe(1, loss=1.0, reduce=lambda _: sent)
        loader.close()


def test_a_record_longer_than_the_end_that_is_looked_at_is_compared_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    piece = train(run, range(1, 4), size=2, ranks=[0]).piece
    train(run, range(1, 3), size=2, ranks=[1], launch="launch-1")
    with JournalWriter(run.journal_path(1, 1)) as writer:
        writer.append(prepare_delivered(slice_of(3, 1, 1, 2, start=8, end=16)))
    monkeypatch.setattr("shardward.loader.rank_check.PROBE", 20)

    with pytest.raises(IntegrityError, match=r"step 3, rank 1: .* up to position 16"):
        check_recorded_ranks(run, piece, 3, Topology(dp_rank=0, dp_size=2))
