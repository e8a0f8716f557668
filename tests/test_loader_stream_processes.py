"""Real processes, really killed: what the run's lineage recorded is the uninterrupted run."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

from helpers_loader import arrow_corpus

from shardward.loader import Manifest, Plan, Run, ShardLoader
from shardward.loader.digest import add_digests
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.records import DeliveredRecord, delivered

RANK = Path(__file__).with_name("helpers_rank.py")
BATCH = 24
BLOCKS = [[f"block {b} text {t} " * (1 + t % 5) for t in range(20)] for b in range(12)]

Rank = subprocess.Popen[str]


def spawn(manifest: Manifest, run: Run, ranks: int, cursor: str, launch: str) -> list[Rank]:
    return [
        subprocess.Popen(
            [
                *(sys.executable, str(RANK), str(manifest.path), str(run.path), str(rank)),
                *(str(ranks), str(BATCH), cursor, launch),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]


def start(manifest: Manifest, run: Run, ranks: int, cursor: str, launch: str) -> list[Rank]:
    started = spawn(manifest, run, ranks, cursor, launch)
    for process in started:
        assert answer(process) == "ready"
    return started


def ask(process: Rank) -> None:
    assert process.stdin is not None
    process.stdin.write("step\n")
    process.stdin.flush()


def answer(process: Rank) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def live(manifest: Manifest, run: Run, ranks: int, cursor: str, launch: str, steps: int) -> str:
    """Step all ranks together, then SIGKILL them while some are in the next step."""
    dice = random.Random(launch)
    job = start(manifest, run, ranks, cursor, launch)
    for _ in range(steps):
        for process in job:
            ask(process)
        answers = [answer(process) for process in job]
        assert len(set(answers)) == 1
        if answers[0] == "end":
            break
        cursor = answers[0]
    for process in dice.sample(job, dice.randrange(len(job) + 1)):
        if answers[0] != "end":
            ask(process)
    for process in job:
        process.send_signal(signal.SIGKILL)
    for process in job:
        process.communicate()
    return cursor


def effective(run: Run) -> dict[int, list[DeliveredRecord]]:
    """Return what the newest lineage delivered, by step, in rank order."""
    owner = {span.piece: span for span in run.lineage()}
    found: dict[int, list[DeliveredRecord]] = {}
    for path in run.journals():
        for frame in read_journal(path).frames:
            if (
                frame.kind == Kind.DELIVERED
                and frame.piece in owner
                and frame.step in owner[frame.piece]
            ):
                found.setdefault(frame.step, []).append(delivered(frame))
    return found


def uninterrupted(manifest: Manifest, plan: Plan) -> dict[int, tuple[list[int], int]]:
    with ShardLoader(manifest, plan, batch=BATCH, epochs=2) as loader:
        return {
            step.step: (step.positions.tolist(), int.from_bytes(step.digest, "big"))
            for step in loader.source.steps(loader.place)
        }


def test_L7_killed_at_4_ranks_resumed_at_2_at_3_and_at_8_nothing_is_lost_or_repeated(
    tmp_path: Path,
) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS, shards=3)
    plan = manifest.plan(seed=11, seq_len=32, window_blocks=3)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    expected = uninterrupted(manifest, plan)
    cursor = "-"
    for number, (ranks, steps) in enumerate([(4, 4), (2, 3), (3, 5), (8, 1000)]):
        cursor = live(manifest, run, ranks, cursor, f"launch-{number}", steps)

    recorded = effective(run)
    assert sorted(recorded) == sorted(expected)
    for step, records in recorded.items():
        positions = [p for record in records for p in record.positions.tolist()]
        total = add_digests(*(int.from_bytes(record.digest, "big") for record in records))
        assert (positions, total) == expected[step]


def test_a_requeued_job_with_the_superseded_checkpoint_is_refused_on_every_rank(
    tmp_path: Path,
) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS, shards=3)
    plan = manifest.plan(seed=12, seq_len=32, window_blocks=3)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    expected = uninterrupted(manifest, plan)
    healthy = live(manifest, run, 2, "-", "first", 2)
    poisoned = live(manifest, run, 2, healthy, "second", 3)
    newest = live(manifest, run, 3, healthy, "from the checkpoint before", 2)

    refused = spawn(manifest, run, 2, poisoned, "requeued")
    errors = [process.communicate()[1] for process in refused]

    assert all(process.returncode != 0 for process in refused)
    assert all("SupersededCursor" in words and "fork=True" in words for words in errors)
    live(manifest, run, 2, newest, "third", 1)
    recorded = effective(run)
    positions = {
        step: [p for record in records for p in record.positions.tolist()]
        for step, records in recorded.items()
        if step <= 5
    }
    assert positions == {step: expected[step][0] for step in range(1, 6)}
