"""Where scans run: in this process, or in a pool of local processes; the results are the same.

A scan is a pure function `fn(item, broadcast) -> small result` at module level, which opens its
own files. The pool starts by forkserver, so that no lock or handle is inherited; `broadcast` is
sent once to each worker, and at most four items per worker are in flight.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
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
    """Runs items in `workers` local processes."""

    workers: int

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
            pending[pool.submit(_call, item)] = item
            if len(pending) >= IN_FLIGHT * self.workers:
                yield from _finished(pending)
        while pending:
            yield from _finished(pending)


def executor(workers: int) -> Executor:
    """Return the executor for a number of workers; 0 runs in this process."""
    return Pool(workers=workers) if workers else InProcess()


def _finished(pending: dict[futures.Future[Any], Any]) -> Iterator[Any]:
    done, _ = futures.wait(pending, return_when=futures.FIRST_COMPLETED)
    for future in done:
        try:
            result = future.result()
        except BrokenProcessPool as error:
            names = ", ".join(sorted(str(item) for item in pending.values()))
            raise CorpusError(
                f"a scan worker died (out of memory, killed, or never started) with these in "
                f"flight: {names}; run with fewer workers or leave the shard out, and start scans "
                "of your own scripts under if __name__ == '__main__'"
            ) from error
        del pending[future]
        yield result


_worker: dict[str, Any] = {}
"""The scan and the broadcast of this worker process; empty in every other process."""


def _receive(fn: Callable[..., Any], broadcast: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _worker["fn"] = fn
    _worker["broadcast"] = broadcast


def _call(item: Any) -> Any:
    return _worker["fn"](item, _worker["broadcast"])
