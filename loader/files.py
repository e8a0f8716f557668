"""Publishing files: whole under their final name, or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import Busy, IntegrityError

LOCK_PATIENCE = 60.0
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""What file systems say that have no locks."""
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)
"""What file systems say that have no hard links."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What file systems say that have no room left."""

_LOCK_PAUSE = 0.005


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, data: bytes) -> None:
    """Put `data` under `path` in one step; a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _write_temporary(path, data)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def publish_new(path: Path, data: bytes) -> bool:
    """Put `data` under the new name `path`; return False if it was there with the same bytes.

    Raises:
        IntegrityError: the name is taken by other bytes, since nothing is ever overwritten.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _write_temporary(path, data)
    try:
        _link_new(temporary, path)
    except FileExistsError:
        if path.read_bytes() != data:
            raise IntegrityError(
                f"{path} exists with other content; published files never change, "
                "so choose a new name or find out who wrote it"
            ) from None
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
    return True


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Give the error of a full disk the file name `path`, where it bears none of its own."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def exclusive_lock(path: Path, *, patience: float = LOCK_PATIENCE) -> Iterator[None]:
    """Hold a lock on `path` (created if missing), waiting `patience` seconds for other holders.

    Where the file system has no locks, the lock is a file beside it that only one process can
    create; one that its creator left behind when it died is taken over.

    Raises:
        Busy: another process held it all the time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + patience
    with path.open("ab") as handle:
        stand_in: Path | None = None
        while not (held := _flock(handle.fileno())):
            if held is None and _create_stand_in(path.with_name(f"{path.name}.held")):
                stand_in = path.with_name(f"{path.name}.held")
                break
            if time.monotonic() > until:
                raise Busy(
                    f"{path} was locked by another process for {patience:.0f} s; wait for it, or "
                    "stop the process that hangs"
                )
            time.sleep(_LOCK_PAUSE)
        try:
            yield
        finally:
            if stand_in is not None:
                stand_in.unlink(missing_ok=True)


def _flock(handle: int) -> bool | None:
    """Return True if locked, False if another holds it, None if the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in NO_LOCKS:
            return None
        raise
    return True


def _create_stand_in(path: Path) -> bool:
    """Create the stand-in for a lock; False if a process that may live has it."""
    name = f"{os.getpid()} {socket.gethostname()}"
    try:
        with path.open("x") as handle:
            handle.write(name)
    except FileExistsError:
        if _left_behind(path):
            path.unlink(missing_ok=True)
        return False
    return True


def _left_behind(path: Path) -> bool:
    """Whether the process that created `path` ran on this host and is gone."""
    try:
        pid, host = path.read_text().split()
        if host != socket.gethostname():
            return False
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return False


def _link_new(temporary: Path, path: Path) -> None:
    """Give `temporary` the name `path` if that is free; FileExistsError if it is not."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if isinstance(error, FileExistsError) or error.errno not in NO_LINKS:
            raise
        # Without hard links two writers of one name could both rename, so one at a time.
        with exclusive_lock(path.parent / ".publish.lock"):
            if path.exists():
                raise FileExistsError(path) from error
            temporary.rename(path)


def _write_temporary(path: Path, data: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with full_disk_named(path), os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
    except BaseException:  # a full disk or an interrupt: no half-written file may stay behind
        temporary.unlink(missing_ok=True)
        raise
    return temporary
