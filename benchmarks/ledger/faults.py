"""200 SIGKILLs of a trainer, 200 truncations: nothing acknowledged is lost, nothing false read."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind, scan
from shardward.loader.records import prepare_delivered
from shardward.quarantine.ledger import Ledger

from .data import Corpus, records, write_run
from .results import report

TRAINER = """
import struct, sys
from pathlib import Path
from benchmarks.ledger.data import Corpus, records
from shardward.loader.journal import JournalWriter
from shardward.loader.records import prepare_delivered
writer = JournalWriter(Path(sys.argv[1]), sync_seconds=0.002)
ends, synced = [], 0
print("ready", flush=True)
for (record,) in records(Corpus(1 << 20), 64, 1, 1 << 40):
    ends.append(writer.append(prepare_delivered(record)))
    while synced < len(ends) and ends[synced] <= writer.synced:
        synced += 1
    sys.stdout.buffer.write(struct.pack("<I", synced))
    sys.stdout.buffer.flush()
"""


def kills(home: Path, times: int = 200) -> None:
    """Kill a trainer at random times and compare its journal with what it called durable."""
    rng = random.Random(0)
    lost = false = checked = 0
    expected = {
        ranks[0].step: prepare_delivered(ranks[0]).payload
        for ranks in records(Corpus(1 << 20), 64, 1, 200_000)
    }
    for number in range(times):
        path = home / f"{number}.swj"
        with subprocess.Popen(
            [sys.executable, "-c", TRAINER, str(path)], stdout=subprocess.PIPE
        ) as trainer:
            assert trainer.stdout is not None
            trainer.stdout.readline()
            time.sleep(rng.random() * 0.05)
            trainer.kill()
            said = trainer.stdout.read()
        whole = said[: len(said) // 4 * 4]
        synced = int.from_bytes(whole[-4:], "little") if whole else 0
        frames = [f for f in read_journal(path).frames if f.kind == Kind.DELIVERED]
        lost += max(0, synced - len(frames))
        false += sum(f.payload != expected.get(f.step, f.payload) for f in frames)
        checked += len(frames)
        path.unlink()
    report(
        "faults.kills",
        bar="nothing acknowledged is lost, nothing false is read",
        holds=not lost and not false,
        kills=times,
        records=checked,
        lost=lost,
        false=false,
    )


def truncations(home: Path, times: int = 200) -> None:
    """Cut a journal at a synced end, add garbage, append again, and ingest the result."""
    rng = random.Random(1)
    run, _ = write_run(home / "run", Corpus(1 << 20), batch=64, ranks=1, ids=60_000)
    (path,) = run.journals()
    data = path.read_bytes()
    frames = read_journal(path).frames
    wrong = 0
    for _ in range(times):
        kept = rng.randrange(1, len(frames))
        tail = bytearray(rng.randbytes(rng.randrange(5000)))
        if rng.random() < 0.5:
            old = frames[rng.randrange(len(frames))]
            tail[:0] = data[old.offset : old.end - rng.randrange(2)]
        cut = data[: frames[kept].offset] + bytes(tail)
        found = scan(cut).frames
        # A tail may begin with exactly the frame that belongs there, which is then no garbage.
        wrong += found[:kept] != frames[:kept] or any(f not in frames for f in found[kept:])
    with Ledger.open(run) as ledger:
        steps = ledger.last_step()
    report(
        "faults.truncations",
        bar="nothing acknowledged is lost, nothing false is read",
        holds=not wrong,
        truncations=times,
        wrong=wrong,
        steps=steps,
    )
