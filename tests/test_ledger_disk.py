"""A disk that fills up loses nothing that was acknowledged: a tmpfs of 3 MB, really full.

Each case runs in a process of its own that has the small disk to itself: mounted in a user
namespace, so that nobody needs to be root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers_ledger import PLAN, cursor, make_run, slice_of, train
from helpers_loader import arrow_corpus

from shardward.loader.errors import ShardwardError
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.records import prepare_delivered
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger

MOUNTED = 'mount -t tmpfs -o size=3m tmpfs "$0" && exec "$@"'
RUN_CASE = "import sys, test_ledger_disk as cases\ncases.play(*sys.argv[1:])"


@contextmanager
def full(place: Path, left: int = 0) -> Iterator[None]:
    """Leave `left` bytes of the disk at `place` free while the block runs."""
    ballast = place / "ballast"
    with ballast.open("wb") as stream:
        free = shutil.disk_usage(place).free - left
        stream.write(bytes(max(0, free)))
    try:
        yield
    finally:
        ballast.unlink()


def delivered(run: Run) -> list[int]:
    frames = read_journal(run.journal_path(1, 0)).frames
    return [frame.step for frame in frames if frame.kind == Kind.DELIVERED]


def fills_during_ingest(disk: Path, home: Path) -> None:
    """The rows that fit are committed or not; after room is made, all are there once."""
    run = make_run(home / "run")
    train(run, range(1, 300))
    os.environ["SHARDWARD_LEDGER"] = str(disk / "x.duckdb")
    Ledger.open(run, ingest_seconds=0).close()
    with full(disk, left=64 << 10), pytest.raises(ShardwardError, match="free space"):
        Ledger.open(run).close()
    with Ledger.open(run) as ledger:
        assert ledger.sql("SELECT count(*) AS n FROM segments")["n"].to_pylist() == [299 * 8]
        assert [problem for problem in ledger.check() if problem.serious] == []
        assert ledger.notices == ()


def fills_before_the_database_is_checkpointed(disk: Path, home: Path) -> None:
    """What was committed is in the log, if it cannot be moved into the file."""
    run = make_run(home / "run")
    train(run, range(1, 100))
    os.environ["SHARDWARD_LEDGER"] = str(disk / "x.duckdb")
    ledger = Ledger.open(run)
    with full(disk):
        ledger.close()
    shutil.rmtree(run.path / "journal")
    with Ledger.open(run) as ledger:
        assert ledger.sql("SELECT count(*) AS n FROM segments")["n"].to_pylist() == [99 * 8]


def fills_during_a_journal_write(disk: Path, home: Path) -> None:
    """What was appended without an error is read; what was refused is not."""
    run = Run.create(disk / "run", plan=PLAN, manifest_path=home / "none")
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    writer = run.journal_writer(piece, sync_seconds=0)
    written: list[int] = []

    def fill() -> None:
        for step in range(1, 1_000_000):
            writer.append(prepare_delivered(slice_of(step, 1, 0, 1)))
            written.append(step)

    with full(disk, left=200 << 10):
        with pytest.raises(ShardwardError, match="No space left"):
            fill()
        writer.close()
        assert delivered(run) == written


def fills_before_a_checkpoint(disk: Path, home: Path) -> None:
    """The checkpoint is refused and not recorded; the run goes on from the one before."""
    manifest = arrow_corpus(home, [[f"text {b} {t} " * 3 for t in range(12)] for b in range(6)])
    plan = manifest.plan(seed=1, seq_len=16, window_blocks=2)
    run = Run.create(disk / "run", plan=plan, manifest_path=manifest.path)
    with ShardLoader(manifest, plan, batch=4) as loader:
        expected = [(batch.step, batch.positions.tolist()) for batch in loader]
    got: list[tuple[int, list[int]]] = []
    with ShardLoader(manifest, plan, run=run, batch=4) as loader:
        for step in (1, 2, 3):
            batch = next(loader)
            got.append((batch.step, batch.positions.tolist()))
            loader.observe(step)
            if step == 2:
                state = loader.checkpoint(2)
        with full(disk), pytest.raises(ShardwardError, match="No space left"):
            loader.checkpoint(3, "x" * 5000)  # more than the file's last page has room for
    with ShardLoader(manifest, plan, run=run, batch=4, cursor=state) as loader:
        again = [(batch.step, batch.positions.tolist()) for batch in loader]

    assert got[:2] + again == expected
    with Ledger.open(run) as ledger:
        assert ledger.checkpoints()["step"].to_pylist() == [2]
        assert [problem.kind for problem in ledger.check() if problem.serious] == []


CASES: tuple[Callable[[Path, Path], None], ...] = (
    fills_during_ingest,
    fills_before_the_database_is_checkpointed,
    fills_during_a_journal_write,
    fills_before_a_checkpoint,
)


def play(name: str, disk: str, home: str) -> None:
    """Run the case `name`; called in the process that has the small disk."""
    (case,) = (case for case in CASES if case.__name__ == name)
    case(Path(disk), Path(home))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_D4_a_disk_that_fills_loses_nothing(
    tmp_path: Path, case: Callable[[Path, Path], None]
) -> None:
    disk, home = tmp_path / "disk", tmp_path / "home"
    disk.mkdir()
    home.mkdir()
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED, str(disk)]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"], check=False).returncode:
        pytest.skip("this system lets nobody mount a small disk in a user namespace")
    command = [sys.executable, "-c", RUN_CASE, case.__name__, str(disk), str(home)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [*namespace, *command], check=False, capture_output=True, text=True, env=environment
    )

    assert done.returncode == 0, done.stderr
