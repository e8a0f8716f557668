"""One worker process of a pool, the pipe to it, and the one item that it has in hand.

The process says when it is up, then it is sent what all items share, and one item after the other.
It ends when its pipe is closed, and with the process that started it, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.util import get_temp_dir
from typing import Any

from ...loader.errors import CorpusError, ShardwardError, UsageError

PATIENCE = 5.0
"""Seconds that a worker has to end by itself once its pipe is closed."""
_FORKSERVER = multiprocessing.get_context("forkserver")
_UP = b"up"


class WorkerDied(ShardwardError):
    """A worker process is gone; the message says what ended it."""


class Worker:
    """A process that has been told to start, and `item`, which it gets when it is up.

    `load` is the pickled scan and its broadcast. `item` is the last one that it was given, and
    `busy` says that it has not answered it; `up` that the process got as far as taking items.
    """

    def __init__(self, load: bytes, item: object) -> None:
        self.up = False
        self._load = load
        self.give(item)
        self._pipe, theirs = _FORKSERVER.Pipe()
        self._process = _FORKSERVER.Process(target=_work, args=(theirs,), name="scan worker")
        try:
            with theirs:
                self._process.start()
        except (OSError, EOFError) as error:
            raise _unstarted(error) from error

    def give(self, item: object) -> None:
        """Send the next item, at once or when the process is up."""
        self._sent = portable(item, f"the item {item!r}")
        self.item, self.busy = item, True
        if self.up:
            self._send(self._sent)

    def hear(self) -> bytes:
        """Return the answer, for `opened`, or nothing where the process said that it is up.

        Raises:
            WorkerDied: it is gone.
        """
        try:
            said = self._pipe.recv_bytes() if self._pipe.poll() else b""
        except (EOFError, OSError):
            said = b""
        if not said:
            self.end()
            raise WorkerDied(_ended(self._process.exitcode))
        if said == _UP:
            self.up = True
            self._send(self._load)
            self._send(self._sent)
            return b""
        self.busy = False
        return said

    def end(self, *, now: bool = False) -> None:
        """Close the pipe and wait for the process, which is killed where it does not end."""
        self._pipe.close()
        if now and self._process.is_alive():
            self._process.kill()
        self._process.join(PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def let_go(self) -> None:
        """Close the pipe, so that the process ends when it likes."""
        self._pipe.close()

    def _send(self, data: bytes) -> None:
        with suppress(OSError):  # a dead worker is heard of as such
            self._pipe.send_bytes(data)

    @property
    def signs(self) -> tuple[Any, Any]:
        """What becomes ready when the process says something, and when it dies."""
        return self._pipe, self._process.sentinel


def speaking(workers: Sequence[Worker]) -> list[Worker]:
    """Wait until one of the workers said something or died, and return all that did."""
    ready = connection.wait([sign for worker in workers for sign in worker.signs])
    return [worker for worker in workers if any(sign in ready for sign in worker.signs)]


def opened(answer: bytes) -> Any:
    """Return the result in an answer, or raise what the scan raised."""
    result, error = pickle.loads(answer)  # noqa: S301 (made by the worker)
    if error is not None:
        raise error
    return result


def portable(value: object, what: str) -> bytes:
    """Return the pickled value.

    Raises:
        UsageError: it cannot be sent between processes.
    """
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # whatever the value's own classes raise
        raise UsageError(
            f"{what} cannot be sent between processes ({error}); scans are functions at module "
            "level, and with no workers nothing is sent"
        ) from error


def start_quietly(workers: int) -> None:
    """Start what starts workers, if there are to be any, deaf to Ctrl-C from its birth.

    Until it ignores Ctrl-C by itself it would print a traceback. All processes that come of it are
    deaf as well, so this is for programs that start no others: the commands.

    Raises:
        CorpusError: it cannot be started.
    """
    if not workers:
        return
    resource_tracker.ensure_running()  # which sees to itself
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    except OSError as error:
        raise _unstarted(error) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold a Ctrl-C back for as long as a worker may be starting.

    A worker that got half of what it needs would print a traceback, and is not yet among those to
    end.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *got: held.append(got))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])  # above whatever the interrupt did to a worker


def _unstarted(error: Exception) -> CorpusError:
    directory = get_temp_dir()  # of the socket through which workers are asked for
    return CorpusError(
        f"no process can be started for a scan worker: {error or repr(error)}; where that is the "
        f"path of a socket in {directory}, set TMPDIR to a shorter one, else use no workers"
    )


def _ended(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _work(pipe: connection.Connection) -> None:
    """Answer items until the pipe is closed; runs in the worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    os.dup2(2, 1)  # stdout is for the parent's results, whatever detectors in C print
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send_bytes(_UP)
        answer = _scan(pipe.recv_bytes())
        while True:
            pipe.send_bytes(answer(pipe.recv_bytes()))


def _end_with_parent() -> None:
    """End the process, whatever it is at, once the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _scan(load: bytes) -> Callable[[bytes], bytes]:
    try:
        fn, broadcast = pickle.loads(load)  # noqa: S301 (made by the parent)
    except Exception as error:  # the parent raises it, whatever it is
        failure = _failure(error)
        return lambda _: failure
    return partial(_answer, fn, broadcast)


def _answer(fn: Callable[[Any, Any], Any], broadcast: Any, item: bytes) -> bytes:
    try:
        result = fn(pickle.loads(item), broadcast)  # noqa: S301 (made by the parent)
        return portable((result, None), "a result")
    except Exception as error:  # the parent raises it, whatever it is
        return _failure(error)


def _failure(error: Exception) -> bytes:
    story = "".join(traceback.format_exception(error))
    error.add_note(f"in a scan worker:\n{story}")
    try:
        data = pickle.dumps((None, error))
        pickle.loads(data)  # noqa: S301 (made the line before)
    except Exception:  # an error that cannot be sent itself, for whatever reason
        return pickle.dumps((None, RuntimeError(story)))
    return data
