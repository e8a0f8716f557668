"""Publishing and locking, on file systems that can and that cannot."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from shardward.loader.errors import Busy, IntegrityError
from shardward.loader.files import exclusive_lock, publish_new, write_atomic


def refusing(number: int) -> object:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def test_published_files_are_whole_and_never_change(tmp_path: Path) -> None:
    assert publish_new(tmp_path / "a", b"one")
    assert not publish_new(tmp_path / "a", b"one")
    with pytest.raises(IntegrityError, match="other content"):
        publish_new(tmp_path / "a", b"two")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomic(tmp_path / "a", b"old")
    monkeypatch.setattr("os.fsync", refusing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space") as caught:
        write_atomic(tmp_path / "a", b"new")

    assert caught.value.filename == str(tmp_path / "a")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_a_file_system_without_hard_links_publishes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.link", refusing(errno.EOPNOTSUPP))

    assert publish_new(tmp_path / "a", b"one")
    assert not publish_new(tmp_path / "a", b"one")
    with pytest.raises(IntegrityError):
        publish_new(tmp_path / "a", b"two")


def test_a_lock_that_is_never_freed_is_reported(tmp_path: Path) -> None:
    with (
        exclusive_lock(tmp_path / "lock"),
        pytest.raises(Busy, match="locked by another process"),
        exclusive_lock(tmp_path / "lock", patience=0.05),
    ):
        pass

    with exclusive_lock(tmp_path / "lock", patience=0.05):
        pass


def test_a_file_system_without_locks_still_lets_one_in_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", refusing(errno.ENOLCK))
    with (
        exclusive_lock(tmp_path / "lock"),
        pytest.raises(Busy),
        exclusive_lock(tmp_path / "lock", patience=0.05),
    ):
        pass
    dead = 2**22 + 1
    (tmp_path / "lock.held").write_text(f"{dead} {socket.gethostname()}")

    with exclusive_lock(tmp_path / "lock", patience=0.5):
        assert (tmp_path / "lock.held").read_text().startswith(str(os.getpid()))
    assert not (tmp_path / "lock.held").exists()


def test_a_lock_stand_in_of_another_host_is_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", refusing(errno.ENOSYS))
    (tmp_path / "lock.held").write_text("1 elsewhere")

    with pytest.raises(Busy), exclusive_lock(tmp_path / "lock", patience=0.05):
        pass
