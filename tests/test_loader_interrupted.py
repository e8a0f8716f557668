"""What is cut off never looks like an end: Ctrl-C, full disks, killed workers, forks, closing."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from helpers_loader import arrow_corpus

from shardward.loader import Manifest, Plan, Run, ShardLoader
from shardward.loader.dropped import wait_for_dropped
from shardward.loader.errors import ShardwardError, UsageError
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.recorder import Recorder
from shardward.loader.row_digest import rows_digest


class Stub:
    """The module `os` with another `writev`."""

    def __init__(self, writev: Callable[..., int]) -> None:
        self.writev = writev

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class Home:
    """A small corpus and a run of it."""

    def __init__(self, path: Path) -> None:
        blocks = [[f"block {b} text {t} " * 4 for t in range(20)] for b in range(8)]
        self.manifest: Manifest = arrow_corpus(path, blocks)
        self.plan: Plan = self.manifest.plan(seed=3, seq_len=16, window_blocks=2)
        self.run = Run.create(path / "run", plan=self.plan, manifest_path=self.manifest.path)

    def loader(self, **options: Any) -> ShardLoader:
        wanted = {"run": self.run, "batch": 4, "reason": "trial", **options}
        return ShardLoader(self.manifest, self.plan, **wanted)

    def kinds(self) -> list[tuple[int, int]]:
        content = read_journal(self.run.journals()[-1])
        assert (content.gaps, content.torn) == ((), 0)
        return [(frame.kind, frame.step) for frame in content.frames]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def once(real: Callable[..., Any], error: BaseException, *, after: bool) -> Callable[..., Any]:
    """Return `real`, which at its first call raises `error` before or after its work."""
    errors = [error]

    def called(*args: Any) -> Any:
        found = real(*args) if after or not errors else None
        if errors:
            raise errors.pop()
        return found

    return called


def test_an_interrupt_in_a_write_leaves_the_journal_readable(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with home.loader() as loader:
        next(loader)
        monkeypatch.setattr(os, "writev", once(os.writev, KeyboardInterrupt(), after=True))
        with pytest.raises(KeyboardInterrupt):
            loader.observe(1)
        loader.observe(1)
        loader.observe(next(loader).step)
        loader.checkpoint(2)

    assert home.kinds()[-3:] == [(Kind.DELIVERED, 2), (Kind.COMPLETED, 2), (Kind.CHECKPOINT, 2)]


def test_a_signal_handler_in_a_write_is_refused_and_never_waits_for_itself(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with home.loader() as loader:
        next(loader)
        loader.observe(1)
        inside = [lambda: loader.checkpoint(1)]

        def writev(*args: Any) -> int:
            written = os.writev(*args)
            if inside:
                inside.pop()()
            return written

        monkeypatch.setattr("shardward.loader.journal.os", Stub(writev))
        with pytest.raises(ShardwardError, match="by a signal handler; let the handler set a flag"):
            next(loader)
        monkeypatch.undo()
        assert loader.checkpoint(1)["step"] == 1

    assert home.kinds()[-2:] == [(Kind.DELIVERED, 2), (Kind.CHECKPOINT, 1)]


def test_a_step_whose_recording_was_interrupted_ends_the_loader(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with home.loader() as loader:
        next(loader)
        stats = type(loader.stats)
        monkeypatch.setattr(stats, "add", once(print, KeyboardInterrupt(), after=False))
        with pytest.raises(KeyboardInterrupt):
            next(loader)
        with pytest.raises(ShardwardError, match="while step 2 was recorded, and it was"):
            next(loader)


def test_a_disk_that_is_full_at_a_step_s_event_ends_the_loader(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    samples = home.loader(run=None).source.walker().count(0)
    batch = next(size for size in range(3, 99) if samples % size)
    with home.loader(epochs=2, batch=batch) as loader:
        last = samples // batch
        while next(loader).step < last:
            pass
        monkeypatch.setattr(Recorder, "event", once(print, full, after=False))
        before = home.kinds()
        with pytest.raises(OSError, match="No space left"):
            next(loader)
        assert home.kinds() == [*before, (Kind.DELIVERED, last + 1)]
        with pytest.raises(ShardwardError, match=f"No space left.* at step {last + 1}"):
            next(loader)


def test_an_interrupt_at_the_last_step_is_no_end(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with home.loader(threads=0) as loader:
        last = loader.total_steps
        while next(loader).step < last - 1:
            pass
        stop = once(rows_digest, KeyboardInterrupt(), after=False)
        monkeypatch.setattr("shardward.loader.steps.rows_digest", stop)
        with pytest.raises(KeyboardInterrupt):
            next(loader)
        assert [batch.step for batch in loader] == [last]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_loader_that_is_closed_while_it_waits_has_not_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    loader = home.loader(prefetch_bytes=1, run=home.run if recorded else None)
    next(loader)
    waits, go_on = threading.Event(), threading.Event()
    told: list[object] = []
    real = Manifest.open_block

    def slow(*args: Any) -> Any:
        waits.set()
        go_on.wait(60.0)
        return real(*args)

    monkeypatch.setattr(Manifest, "open_block", slow)

    def train() -> None:
        try:
            told.extend(loader)
        except ShardwardError as error:
            told.append(error)

    trainer = threading.Thread(target=train)
    trainer.start()
    assert waits.wait(60.0)
    while loader._reader._prefetcher is None or not loader._reader._prefetcher._hungry:
        time.sleep(0.01)
    threading.Timer(0.5, go_on.set).start()
    loader.close()
    trainer.join(60.0)

    assert isinstance(told[-1], ShardwardError)
    if recorded:
        assert Kind.EVENT not in {kind for kind, _ in home.kinds()}


def test_reports_that_a_full_disk_took_are_not_made_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.writev, iter(range(99))

    def writev(*args: Any) -> int:
        if next(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    with home.loader() as loader:
        for _ in range(4):
            next(loader)
        monkeypatch.setattr(os, "writev", writev)
        with pytest.raises(ShardwardError, match="No space left"):
            loader.observe(4)
        loader.observe(4)

    assert [step for kind, step in home.kinds() if kind == Kind.COMPLETED] == [1, 2, 3, 4]


@pytest.mark.parametrize("patience", [-1.0, float("nan")])
def test_a_patience_that_is_none_is_refused(home: Home, patience: float) -> None:
    with pytest.raises(UsageError, match="patience is"):
        home.loader(patience=patience)


@pytest.mark.parametrize("stage", ["open", "writev"])
def test_a_start_on_a_full_disk_leaves_the_run_free(
    home: Home, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    real, full = getattr(os, stage), [True]

    def refuse(target: Any, *args: Any) -> Any:
        if full and (stage == "writev" or str(target).endswith(".swj")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(target, *args)

    monkeypatch.setattr(os, stage, refuse)
    before = set(threading.enumerate())
    with pytest.raises((OSError, ShardwardError), match="No space left"):
        home.loader()
    assert set(threading.enumerate()) <= before
    full.clear()
    with home.loader() as loader:
        assert next(loader).step == 1


def test_a_forked_child_does_not_wait_for_threads_that_it_has_not(home: Home) -> None:
    with home.loader(run=None, prefetch_bytes=1) as loader:
        next(loader)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                for _ in loader:
                    pass
            except ShardwardError as error:
                os._exit(0 if "made before a fork" in str(error) else 2)
            os._exit(1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_the_workers_death_is_no_end(home: Home, workers: int) -> None:
    adapter = pytest.importorskip("shardward.loader.torch", exc_type=ImportError)
    loader = adapter.TorchLoader(home.loader(), num_workers=workers)
    next(loader)
    for worker in loader._steps._workers:
        os.kill(worker.pid, signal.SIGKILL)

    errors: list[Exception] = [RuntimeError()]
    while isinstance(errors[-1], RuntimeError):
        with pytest.raises((RuntimeError, ShardwardError)) as raised:
            list(loader)
        errors.append(raised.value)
    assert "DataLoader worker" in str(errors[1])
    assert re.search("last epoch has not ended|is next", str(errors[-1]))
    loader.close()
    assert Kind.EVENT not in {kind for kind, _ in home.kinds()}


class At:
    """Acts once, at the n-th line that is run in the loader's files of the given names."""

    def __init__(self, number: int, act: Callable[[], object], *files: str) -> None:
        self.left, self._act, self._files = number, act, files

    def __enter__(self) -> At:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, _event: str, _arg: object) -> Any:
        path = Path(frame.f_code.co_filename)
        return self._line if path.parent.name == "loader" and path.name in self._files else None

    def _line(self, _frame: FrameType, event: str, _arg: object) -> Any:
        self.left -= event == "line"
        if self.left == 0:
            sys.settrace(None)
            self._act()
        return self._line


def interrupt() -> None:
    raise KeyboardInterrupt


def own_threads() -> set[str]:
    return {one.name for one in threading.enumerate()} & {"journal-sync", "shardward-prefetch"}


def open_files(below: Path) -> list[str]:
    links = []
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of the listing itself
            links.append(str(handle.readlink()))
    return [link for link in links if link.startswith(str(below))]


def test_an_interrupted_start_leaves_no_file_no_thread_and_a_free_run(home: Home) -> None:
    for number in itertools.count(1, 2):
        with contextlib.suppress(KeyboardInterrupt):
            with At(number, interrupt, "stream.py", "journal.py"):
                loader = home.loader()
            loader.close()
            break
        wait_for_dropped()
        assert open_files(home.run.path) == [], number
    assert number > 60
    home.loader().close()
    time.sleep(0.3)  # three times the interval at which a journal's thread looks around
    assert own_threads() == set()


@pytest.mark.parametrize(
    "act",
    [
        next,
        lambda loader: loader.observe(1, loss=2.0),
        lambda loader: loader.close(),
    ],
    ids=["next", "observe", "close"],
)
def test_a_signal_handler_may_close_at_any_line(
    home: Home, act: Callable[[ShardLoader], Any]
) -> None:
    for number in itertools.count(1):
        loader = home.loader(threads=0)
        loader.observe(next(loader).step, loss=1.0)
        at = At(number, loader.close, "stream.py", "journal.py", "recorder.py")
        with contextlib.suppress(ShardwardError), at:
            act(loader)
        if at.left > 0:
            break
        loader.close()
        assert home.kinds()[-1][0] in (Kind.TELEMETRY, Kind.COMPLETED, Kind.DELIVERED)
        assert (home.run.path / "locks" / "trial-0-0.lock").read_bytes() == b""
    loader.close()
