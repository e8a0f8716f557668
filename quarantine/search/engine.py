"""Where scans run: in this process, or in a pool of local processes; the results are the same.

A scan is a pure function `fn(item, broadcast) -> small result` at module level, which opens its
own files. Workers start by forkserver, so that no lock or handle is inherited; `broadcast` is sent
once to each. A worker has one item at a time, so that it is known over which one it died.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

from ...loader.errors import CorpusError, UsageError
from .worker import Worker, WorkerDied, opened, portable, speaking, undisturbed

Item = TypeVar("Item")
Result = TypeVar("Result")
Scan = Callable[[Item, Any], Result]
DEATHS_IN_A_ROW = 16
"""With as many deaths beyond the number of workers, and no result in between, none is replaced."""


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
    """Runs items in `workers` local processes; `named` says what an item is called.

    An item whose worker died is tried once more when the others are done: in `parts`, one after the
    other, in a single fresh worker. `lost` hears of each part that ends its worker again.
    """

    workers: int
    named: Callable[[Any], str]
    parts: Callable[[Any], Iterable[Any]]
    lost: Callable[[str], object] | None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"a pool needs at least 1 worker, not {self.workers}; use 0 for none")

    def map_unordered(
        self, fn: Scan[Item, Result], items: Iterable[Item], broadcast: Any
    ) -> Iterator[Result]:
        """Yield the results as they finish; what `fn` raises in a worker is raised here.

        Raises:
            UsageError: the scan, an item or a result cannot be sent between processes.
            CorpusError: no worker can be started; or, without `lost`, parts ended their worker
                twice, all of them named, after the results of the others.
        """
        load = portable((fn, broadcast), "the scan")
        first = _Round(self.workers, load)
        yield from first.results(items)
        again = _Round(1, load, started=True)
        doubtful = chain((item for item, _ in first.dead), first.left)
        yield from again.results(part for item in doubtful for part in self.parts(item))
        messages = [
            f"{self.named(part)}: its scan worker {how}, also when it ran alone; where memory ran "
            "out, give it more; else leave out the shard, or the detector that fails on it"
            for part, how in again.dead
        ]
        if again.left:
            messages.append(
                f"{self.named(again.left[0])} and {len(again.left) - 1} more: not looked at, since "
                "no scan worker stayed alive"
            )
        if messages and self.lost is None:
            raise CorpusError("; ".join(messages))
        for message in messages:
            if self.lost is not None:
                self.lost(message)


class _Round:
    """Some items, and at most `size` workers for them.

    `dead` are the items over which a worker died, and what ended it; `left` those that nobody
    looked at, since one worker after the other died or none could be had. Once a worker has
    `started`, one that does not is replaced if that can be; before, it is an error.
    """

    def __init__(self, size: int, load: bytes, *, started: bool = False) -> None:
        self.dead: list[tuple[Any, str]] = []
        self.left: list[Any] = []
        self._size = size
        self._load = load
        self._started = started
        self._crew: list[Worker] = []
        self._deaths = 0

    def results(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of the items over which no worker died."""
        self._waiting = iter(items)
        atexit.register(self._kill)  # before multiprocessing waits there for its processes
        try:
            for _ in range(self._size):
                self._hire()
            while busy := [worker for worker in self._crew if worker.busy]:
                for worker in speaking(busy):
                    yield from self._heard(worker)
            self.left = list(self._waiting)
            for worker in self._crew:
                worker.end()
        finally:
            self._kill()
            atexit.unregister(self._kill)

    def _hire(self) -> None:
        """Start a worker for the next item, if there is one, unless one after the other dies."""
        if self._deaths > self._size + DEATHS_IN_A_ROW:
            return  # those that are busy may still bring their results
        for item in islice(self._waiting, 1):
            try:
                with undisturbed():
                    self._crew.append(Worker(self._load, item))
            except CorpusError:
                if not self._started:
                    raise
                self._waiting = chain((item,), self._waiting)

    def _heard(self, worker: Worker) -> list[Any]:
        """Return what a worker has found, with the next item on its way to it."""
        try:
            answer = worker.hear()
        except WorkerDied as death:
            self._bury(worker, str(death))
            return []
        self._started = True
        if answer:
            self._deaths = 0
            for item in islice(self._waiting, 1):
                worker.give(item)
            if not worker.busy:
                worker.let_go()
        return [opened(answer)] if answer else []

    def _bury(self, worker: Worker, how: str) -> None:
        self._crew.remove(worker)
        self._deaths += 1
        if worker.up:
            self.dead.append((worker.item, how))
        elif self._started:
            self._waiting = chain((worker.item,), self._waiting)
        else:
            raise CorpusError(
                f"a scan worker {how} as it started; start scans of your own scripts under "
                "if __name__ == '__main__', or scan with no workers"
            )
        self._hire()

    def _kill(self) -> None:
        for worker in self._crew:
            worker.end(now=True)


def _whole(item: Any) -> tuple[Any]:
    return (item,)


def executor(
    workers: int,
    named: Callable[[Any], str] = str,
    *,
    parts: Callable[[Any], Iterable[Any]] = _whole,
    lost: Callable[[str], object] | None = None,
) -> Executor:
    """Return the executor for a number of workers; 0 runs in this process, and ends with it.

    `named` gives the name of an item for the message about a worker that died over it, `parts` what
    of it can be tried alone; `lost` hears of each part that ended its worker twice, when the
    others are done.
    """
    if not workers:
        return InProcess()
    return Pool(workers=workers, named=named, parts=parts, lost=lost)
