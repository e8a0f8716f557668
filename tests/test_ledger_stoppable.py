"""A query that runs for ever ends at Ctrl-C and when its time is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers_ledger import make_run, train
from test_cli_ledger_limits import shardward

from shardward.quarantine.ledger import Ledger
from shardward.quarantine.ledger.stoppable import OutOfTime, Unstoppable, stoppable

LONG = "SELECT sum(a.range * b.range) FROM range(100000) a, range(10000000) b"
MODULE = "shardward.quarantine.ledger.stoppable.PATIENCE_SECONDS"
SCRIPT = """
import sys, threading
import shardward.quarantine.ledger.database as module
real = module.fetch
def fetch(*given):
    print("begun", file=sys.stderr, flush=True)
    return threading.Event().wait() if sys.argv[1] == "stuck" else real(*given)
module.fetch = fetch
from shardward.cli.main import main
sys.argv = ["shardward", "ledger", "sql", *sys.argv[2:]]
main()
"""


@pytest.mark.parametrize("kind", ["reacts", "stuck"])
def test_ctrl_c_ends_a_query_with_130(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    words = [sys.executable, "-c", SCRIPT, kind, LONG, "--run", str(run.path)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
        code = process.returncode

    assert code == 130
    assert said.startswith("error: interrupted")
    assert "Traceback" not in said


def test_ctrl_c_while_the_query_is_being_started_stops_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = threading.Event()
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stoppable(stopped.wait, stopped.set, seconds=None)

    assert stopped.is_set()


def test_the_time_limit_ends_a_query(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    started = time.monotonic()
    result = shardward("ledger", "sql", LONG, "--timeout", "0.2", "--run", run.path)

    assert (result.exit_code, "ran for 0.2 s and was stopped" in result.stderr) == (1, True)
    assert time.monotonic() - started < 15
    with Ledger.open(run) as ledger:
        assert ledger.sql("SELECT 1 AS a").to_pylist() == [{"a": 1}]


def test_work_that_reacts_is_out_of_time_and_work_that_does_not_is_unstoppable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MODULE, 0.1)
    stopped, released = threading.Event(), threading.Event()
    with pytest.raises(OutOfTime):
        stoppable(stopped.wait, stopped.set, seconds=0.05)
    with pytest.raises(Unstoppable):
        stoppable(released.wait, lambda: None, seconds=0.05)
    released.set()


def test_a_query_that_does_not_react_ends_the_process_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    codes: list[int] = []

    def stuck(*_: object, **__: object) -> None:
        raise Unstoppable(interrupted=False)

    def leave(code: int) -> None:
        codes.append(code)
        raise SystemExit(code)

    monkeypatch.setattr(Ledger, "sql", stuck)
    monkeypatch.setattr(os, "_exit", leave)
    shardward("ledger", "sql", "SELECT 1", "--run", run.path)

    assert codes == [1]
