"""Where scans run: in this process, or in a pool of local processes; the results are the same.

A scan is a pure function `fn(item, broadcast) -> small result` at module level, which opens its
own files. The pool starts by forkserver, so that no lock or handle is inherited; `broadcast` is
sent once to each worker, and at most four items per worker are in flight.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ...loader.errors import CorpusError, UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")
Scan = Callable[[Item, Any], Result]
IN_FLIGHT = 4


class Executor(Protocol):
    """Runs a scan over items, in any order."""

    def map_unordered(
        self, fn: Scan[Item, Result], items: Iterable[Item], broadcast: Any
    ) -> Iterator[Result]:
        """Yield `fn(item, broadcast)` for each item as it finishes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess:
    """Runs each item in turn, here."""

    def map_unordered(
        self, fn: Scan[Item, Result], items: Iterable[Item], broadcast: Any
    ) -> Iterator[Result]:
        """Yield the results in the order of `items`."""
        for item in items:
            yield fn(item, broadcast)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Runs items in `workers` local processes; `named` tells which items were with a dead one."""

    workers: int
    named: Callable[[Any], str] = str

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"a pool needs at least 1 worker, not {self.workers}; use 0 for none")

    def map_unordered(
        self, fn: Scan[Item, Result], items: Iterable[Item], broadcast: Any
    ) -> Iterator[Result]:
        """Yield the results as they finish.

        Raises:
            CorpusError: a worker died; the message names the items that were in flight.
        """
        pool = futures.ProcessPoolExecutor(
            self.workers,
            mp_context=multiprocessing.get_context("forkserver"),
            initializer=_receive,
            initargs=(fn, broadcast),
        )
        try:
            yield from self._drain(pool, items)
        except (KeyboardInterrupt, GeneratorExit):
            # A Ctrl-C may strike here or in the caller's loop, which then closes this generator.
            for process in list((pool._processes or {}).values()):
                process.terminate()  # nobody waits for a shard that is half read
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _drain(self, pool: futures.ProcessPoolExecutor, items: Iterable[Item]) -> Iterator[Any]:
        pending: dict[futures.Future[Any], Item] = {}
        for item in items:
            try:
                with _undisturbed():
                    pending[pool.submit(_call, item)] = item
            except (BrokenProcessPool, BrokenPipeError) as error:  # a worker died as it started
                raise self._died([*pending.values(), item]) from error
            if len(pending) >= IN_FLIGHT * self.workers:
                yield from self._finished(pending)
        while pending:
            yield from self._finished(pending)

    def _finished(self, pending: dict[futures.Future[Any], Any]) -> Iterator[Any]:
        done, _ = futures.wait(pending, return_when=futures.FIRST_COMPLETED)
        for future in done:
            try:
                result = future.result()
            except BrokenProcessPool as error:
                raise self._died(pending.values()) from error
            del pending[future]
            yield result

    def _died(self, items: Iterable[Any]) -> CorpusError:
        names = ", ".join(sorted({self.named(item) for item in items}))
        return CorpusError(
            f"a scan worker died (out of memory, killed, or never started) with these in "
            f"flight: {names}; run with fewer workers or leave the shard out, and start scans "
            "of your own scripts under if __name__ == '__main__'"
        )


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold a Ctrl-C back for as long as a worker may be starting.

    A worker that got half of what it needs would print a traceback, and is not yet in the pool's
    list of those to end.
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


def executor(workers: int, named: Callable[[Any], str] = str) -> Executor:
    """Return the executor for a number of workers; 0 runs in this process.

    `named` gives the name of an item for the message about a worker that died.
    """
    return Pool(workers=workers, named=named) if workers else InProcess()


_worker: dict[str, Any] = {}
"""The scan and the broadcast of this worker process; empty in every other process."""


def _receive(fn: Callable[..., Any], broadcast: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _worker["fn"] = fn
    _worker["broadcast"] = broadcast


def _call(item: Any) -> Any:
    return _worker["fn"](item, _worker["broadcast"])
