"""The journal of one process: an append-only file of framed records.

`JournalWriter.append` is one `write()` in the calling thread; a background thread makes groups of
records durable with `fdatasync`. A record is acknowledged as durable once `synced` has passed its
end. Nothing in a journal is ever changed: a torn tail stays where it is, later records follow it,
and readers report it.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .closing import Closing
from .errors import NotFound, ShardwardError
from .files import sync_directory
from .journal_frame import Frame, Prepared, Scan, scan, seal

CHUNK = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContent:
    """What a journal held when it was read.

    `gaps` are (start, end) byte offsets of damage that valid frames follow, `end` is the offset
    after the last valid frame, `torn` the number of bytes after it.
    """

    frames: tuple[Frame, ...]
    gaps: tuple[tuple[int, int], ...]
    end: int
    torn: int


class JournalWriter(Closing):
    """Appends frames to one journal file.

    Args:
        path: the file; a file that exists is appended to, whatever its tail holds.
        sync_seconds: how long a record may wait for the group `fdatasync`; 0 turns the
            background thread off, and `sync` is then the only way to make records durable. The
            thread looks by itself that often: waking it would cost the writer more than the write.
        on_sync: called by `sync` and `close` with the durable end, to publish what is before it.
        on_close: called once after the file is closed, for the lock that guards the writer.

    One process writes a journal; any of its threads may. The file of a writer that is dropped, as
    by an interrupt before anybody could name it, is closed as it stands.
    """

    _handle = -1
    _on_close: Callable[[], None] | None = None

    def __init__(
        self,
        path: Path,
        *,
        sync_seconds: float = 0.1,
        on_sync: Callable[[int], object] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.path = path
        self._process = os.getpid()
        self._forks = _forks()
        self._born = self._forks[0]
        self._on_sync = on_sync
        self._on_close = on_close
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o644)
        sync_directory(path.parent)
        self._end = os.fstat(self._handle).st_size
        self._synced = 0
        # A signal handler may come in the middle of a write, in the thread that holds the lock.
        self._lock = threading.RLock()
        self._sync_lock = threading.RLock()
        self._writing = False
        self._closing = threading.Event()
        self._failure: OSError | None = None
        self._thread: threading.Thread | None = None
        if sync_seconds > 0:
            self._thread = threading.Thread(
                target=_sync_in_groups,
                args=(weakref.ref(self), self._closing, sync_seconds),
                name="journal-sync",
                daemon=True,
            )
            self._thread.start()

    def __del__(self) -> None:
        # The collector may run anywhere, so no lock is taken and the thread is not waited for. In a
        # forked child the number may be that of another file by now.
        if self._handle >= 0 and self._forks[0] == self._born:
            self._let_go()

    @property
    def end(self) -> int:
        """Byte offset after the last record written."""
        return self._end

    @property
    def synced(self) -> int:
        """Byte offset up to which the journal is durable."""
        return self._synced

    def append(self, frame: Prepared) -> int:
        """Write `frame` with one system call and return the offset after it.

        Raises:
            ShardwardError: the file system refused the write, or an earlier group sync failed;
                the record does not count and may be appended again. Or a signal handler calls
                this while a record is being written.
        """
        if self._failure is not None or self._handle < 0 or self._forks[0] != self._born:
            self._check_usable()
        with self._lock:
            if self._writing:
                raise ShardwardError(
                    f"journal {self.path} is asked for a record while it writes one, by a signal "
                    "handler; let the handler set a flag, and do the rest after the step"
                )
            self._writing = True
            try:
                return self._written(frame)
            finally:
                self._writing = False

    def _written(self, frame: Prepared) -> int:
        """Write `frame` and return the offset after it; errors as in `append`."""
        header = seal(frame, time_ns=time.time_ns(), offset=self._end)
        size = len(header) + len(frame.payload)
        try:
            written = os.writev(self._handle, (header, frame.payload))
        except OSError as error:
            raise self._refused(error) from error
        except BaseException:
            # A signal handler that raises, such as that of Ctrl-C, strikes when the call has
            # returned: the record stands, and the offset is part of the next one's checksum.
            self._end = os.fstat(self._handle).st_size
            raise
        if written != size:
            # A later read treats the partial frame as damage; the next record follows it.
            self._end += written
            raise self._refused(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        self._end += size
        return self._end

    def sync(self) -> int:
        """Make every record written so far durable and return the offset after the last.

        Raises:
            ShardwardError: the file system could not make it durable.
        """
        self._check_usable()
        self._sync()
        if self._on_sync is not None:
            self._on_sync(self._synced)
        return self._synced

    def close(self, *, publish: bool = True) -> None:
        """Make everything durable and close the file; closing twice is harmless.

        Args:
            publish: whether `on_sync` is called, which may wait for a store.
        """
        if self._handle < 0 or self._forks[0] != self._born:
            return
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._handle < 0:  # a signal handler closed it meanwhile
            return
        try:
            # A signal handler may close in the middle of a write, whose record stands by now.
            self._end = os.fstat(self._handle).st_size
            self._sync()
            if publish and self._on_sync is not None:
                self._on_sync(self._synced)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
            if self._on_close is not None:
                self._on_close()

    def _sync(self) -> None:
        with self._sync_lock:
            if self._failure is not None:
                # The kernel may have dropped the dirty pages, so trying again would prove nothing.
                raise self._refused(self._failure)
            end = self._end
            if end == self._synced:
                return
            try:
                os.fdatasync(self._handle)
            except OSError as error:
                self._failure = error
                raise self._refused(error) from error
            self._synced = max(end, self._synced)  # a signal handler may have synced more

    def _check_usable(self) -> None:
        if self._forks[0] != self._born:
            raise ShardwardError(
                f"journal {self.path} was opened by process {self._process} and is used in "
                f"process {os.getpid()} after a fork; open a writer of its own there"
            )
        if self._handle < 0:
            raise ShardwardError(f"journal {self.path} is closed; open a new writer")
        if self._failure is not None:
            raise self._refused(self._failure)

    def _refused(self, error: OSError) -> ShardwardError:
        return ShardwardError(
            f"journal {self.path} could not be written at byte {self._end}: {error.strerror}; "
            f"records up to byte {self._synced} are durable; "
            "free space or repair the file system, then start again from the last checkpoint"
        )


def _sync_in_groups(
    writer: weakref.ref[JournalWriter], closing: threading.Event, seconds: float
) -> None:
    """Sync `writer` every so many seconds until it is closing, or nobody uses it any more."""
    while not closing.wait(seconds):
        journal = writer()
        if journal is None:
            return
        try:
            journal._sync()
        except ShardwardError:
            return  # kept in _failure, raised by the next call of the owner
        del journal


@cache
def _forks() -> list[int]:
    """Return a cell with the number of forks that led to this process.

    Asking the kernel for the process number costs a waking training thread 5 µs at each record.
    """
    cell = [0]

    def count() -> None:
        cell[0] += 1

    os.register_at_fork(after_in_child=count)
    return cell


def iter_journal(path: Path, start: int = 0, *, chunk: int = CHUNK) -> Iterator[Scan]:
    """Yield what `path` holds from byte `start` (a frame's beginning), about `chunk` bytes a time.

    The last scan's `end` is where a later call should start to see records written meanwhile.

    Raises:
        NotFound: there is no such journal.
        FormatError: a frame is of an unknown version.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotFound(f"there is no journal {path}; was it moved or deleted?") from error
    try:
        size = os.fstat(handle).st_size
        want = chunk
        while start < size:
            data = _pread(handle, min(want, size - start), start)
            if not data:
                return  # the file became shorter meanwhile
            final = start + len(data) >= size
            part = scan(data, offset=start, final=final)
            yield part
            if final and part.end == start:
                return
            # A frame, or damage, larger than the chunk: look at twice as much.
            want = want * 2 if part.end == start else chunk
            start = part.end
    finally:
        os.close(handle)


def read_journal(path: Path, start: int = 0) -> JournalContent:
    """Return every valid frame of `path` from byte `start` on, and what was damaged.

    Raises:
        NotFound: there is no such journal.
        FormatError: a frame is of an unknown version.
    """
    frames: list[Frame] = []
    gaps: list[tuple[int, int]] = []
    end = start
    for part in iter_journal(path, start):
        frames += part.frames
        gaps += part.gaps
        end = part.end
    torn = max(path.stat().st_size - end, 0)
    return JournalContent(frames=tuple(frames), gaps=tuple(gaps), end=end, torn=torn)


def _pread(handle: int, size: int, offset: int) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        part = os.pread(handle, size, offset)
        if not part:
            break
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
