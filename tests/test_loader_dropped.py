"""A loader that nobody closed: its run is free and its threads are gone once nothing names it."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_loader import arrow_corpus

from shardward.loader import Manifest, Plan, Run, ShardLoader, dropped
from shardward.loader.dropped import close_when_dropped, wait_for_dropped
from shardward.loader.errors import Busy

Make = Callable[..., ShardLoader]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    blocks = [[f"block {b} text {t} " * 4 for t in range(40)] for b in range(8)]
    manifest: Manifest = arrow_corpus(tmp_path, blocks, shards=2)
    plan: Plan = manifest.plan(seed=3, seq_len=16, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    return lambda **options: ShardLoader(
        manifest, plan, run=run, batch=4, **{"prefetch_bytes": 1, "reason": "trial", **options}
    )


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("steps", [0, 3])
def test_a_dropped_loader_frees_its_run_and_ends_its_threads(
    make: Make, threads: int, steps: int
) -> None:
    make().close()
    before = set(threading.enumerate())
    loader = make(threads=threads)
    for _ in range(steps):
        next(loader)
    assert set(threading.enumerate()) > before
    del loader
    wait_for_dropped()

    assert set(threading.enumerate()) <= before
    with make() as again:
        assert next(again).step == 1


def test_a_loader_in_a_cycle_is_collected_by_the_next_start(make: Make) -> None:
    gc.disable()
    try:
        loader = make()
        next(loader)
        vars(loader)["itself"] = loader
        del loader
        make().close()
    finally:
        gc.enable()


def test_a_loader_that_still_has_a_name_is_told_of(make: Make) -> None:
    loader = make()
    with pytest.raises(Busy, match=r"call close\(\) on the loader that it made before"):
        make()
    loader.close()
    make().close()


def test_what_is_dropped_under_a_lock_waits_for_no_thread_that_wants_it() -> None:
    lock = logging.StreamHandler().lock
    assert lock is not None
    ended: list[bool] = []

    def want() -> None:
        with lock:
            pass

    def close() -> None:
        worker = threading.Thread(target=want)
        worker.start()
        worker.join(5.0)
        ended.append(not worker.is_alive())
        worker.join()

    owner = Owner()
    close_when_dropped(owner, close)
    vars(owner)["itself"] = owner
    with lock:
        del owner
        gc.collect()
    wait_for_dropped()

    assert ended == [True]


class Owner:
    """Something to drop."""


class Part:
    """Says in a pipe that it was closed."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def close(self) -> None:
        """Say so."""
        os.write(self._pipe, b"closed")


def test_threads_that_make_their_first_loaders_at_once_share_a_closer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dropped, "_closers", {})
    together = threading.Barrier(2)
    made = dropped._Closer

    def slow() -> dropped._Closer:
        closer = made()
        together.wait(5)
        return closer

    monkeypatch.setattr(dropped, "_Closer", slow)
    closed: list[int] = []

    def use(number: int) -> None:
        owner = Owner()
        close_when_dropped(owner, lambda: closed.append(number))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for_dropped()

    assert sorted(closed) == [0, 1]


def test_a_forked_child_closes_nothing_of_its_parent() -> None:
    ours, theirs = os.pipe()
    owner = Part(theirs)
    close_when_dropped(owner, Part(theirs).close)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the runner has threads
        child = os.fork()
    if child == 0:
        del owner
        os._exit(0)
    os.waitpid(child, 0)
    os.write(theirs, b"parent ")
    del owner
    wait_for_dropped()

    assert os.read(ours, 99) == b"parent closed"
    os.close(ours)
    os.close(theirs)


OUTAGE = """
import logging, pathlib, sys, threading
from shardward.loader import Manifest, Run, ShardLoader

home, waiting = pathlib.Path(sys.argv[1]), threading.Event()
handler = logging.Handler()
handler.emit = lambda record: waiting.set()
logging.getLogger("shardward").addHandler(handler)
manifest, run = Manifest.load(home / "manifest"), Run.open(home / "run")
(home / "data").rename(home / "gone")
loader = ShardLoader(manifest, run.plan(), run=run, batch=4, threads=2, patience=600.0)
threading.excepthook = lambda told: None  # the consumer is told that the store is away
threading.Thread(target=next, args=(loader, None), daemon=True).start()
assert waiting.wait(60.0)
raise SystemExit("the training has failed")
"""


def test_a_program_that_ends_in_an_outage_does_not_wait_for_the_store(
    make: Make, tmp_path: Path
) -> None:
    make().close()
    ended = subprocess.run(
        [sys.executable, "-c", OUTAGE, str(tmp_path)],
        stderr=subprocess.PIPE,
        timeout=60.0,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (1, "the training has failed\n")
    assert (tmp_path / "run" / "locks" / "rank-0-0.lock").read_bytes() == b""


THREAD = """
import pathlib, sys, threading, time
from shardward.loader import Manifest, Run, ShardLoader

home = pathlib.Path(sys.argv[1])
manifest, run = Manifest.load(home / "manifest"), Run.open(home / "run")

def train():
    loader = ShardLoader(manifest, run.plan(), run=run, batch=64, threads=0, reason="trial")
    steps = sum(1 for _ in map(lambda _: time.sleep(0.05), loader))
    print(steps == loader.total_steps)

trainer = threading.Thread(target=train)
trainer.start()
trainer.join(0.1)
"""


def test_a_thread_that_outlives_the_main_one_trains_to_the_end(make: Make, tmp_path: Path) -> None:
    make().close()
    ended = subprocess.run(
        [sys.executable, "-c", THREAD, str(tmp_path)],
        capture_output=True,
        timeout=120.0,
        text=True,
        check=False,
    )

    assert (ended.stdout, ended.stderr) == ("True\n", "")
    assert (tmp_path / "run" / "locks" / "trial-0-0.lock").read_bytes() == b""


HANGING = """
import pathlib, sys, threading
from shardward.loader import Manifest, Run, ShardLoader, journal_store

home = pathlib.Path(sys.argv[1])
manifest, run = Manifest.load(home / "manifest"), Run.open(home / "remote-run")
loader = ShardLoader(manifest, run.plan(), run=run, batch=4, reason="trial")
next(loader)
journal_store.ObjectStore.put_new = lambda *_: threading.Event().wait()
raise SystemExit("the training has failed")
"""


def test_a_program_that_ends_waits_for_no_publishing(make: Make, tmp_path: Path) -> None:
    loader = make()
    Run.create(
        tmp_path / "remote-run",
        plan=loader.plan,
        manifest_path=loader.manifest.path,
        remote=str(tmp_path / "remote"),
    )
    loader.close()
    ended = subprocess.run(
        [sys.executable, "-c", HANGING, str(tmp_path)],
        stderr=subprocess.PIPE,
        timeout=120.0,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (1, "the training has failed\n")
