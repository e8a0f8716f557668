"""Rank slots: who holds one, where locks are missing, in a fork, and beside one who only asks."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shardward.loader.errors import Busy
from shardward.loader.run_locks import live_holder, take_slot


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the slot of the only rank lies."""
    return tmp_path / "locks" / "rank-0-0.lock"


def test_a_file_system_without_locks_judges_by_the_pid(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    slot = take_slot(path, "one")
    with pytest.raises(Busy, match="this process"):
        take_slot(path, "two")
    slot.release()
    path.write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}))

    take_slot(path, "three").release()


def test_one_who_only_asks_who_holds_a_slot_keeps_nobody_from_it(path: Path) -> None:
    take_slot(path, "one").release()
    asker = os.open(path, os.O_RDWR)
    fcntl.flock(asker, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(take_slot, path, "two")
        time.sleep(0.02)
        os.close(asker)

        slot = start.result()
    assert slot.guarded
    slot.release()


def test_a_forked_worker_does_not_keep_the_slot(path: Path) -> None:
    slot = take_slot(path, "one")
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the runner has threads
        child = os.fork()
    if child == 0:
        os.close(theirs)
        os.read(ours, 1)
        os._exit(0)
    slot.release()
    try:
        assert live_holder(slot.path) is None
    finally:
        os.close(theirs)
        os.waitpid(child, 0)
