"""Ready steps for one process, made in a thread ahead of their use or when they are asked for."""

from __future__ import annotations

import logging
import threading

from .errors import ShardwardError
from .prefetch import Prefetcher
from .prepared import PreparedStep
from .steps import StepSource, StepStream
from .walk import Place

LOG = logging.getLogger(__name__)


class StepReader:
    """Reads nothing before the first step is asked for.

    Args:
        source: makes the steps; with `threads` 0 in the calling thread.
        place: the boundary to start from.
        prefetch_bytes: ready steps that may wait, in bytes.
        stall_seconds: after this long without data, the shards being read are logged.
    """

    def __init__(
        self, source: StepSource, place: Place, *, prefetch_bytes: int, stall_seconds: float
    ) -> None:
        self._source = source
        self._place = place
        self._prefetch_bytes = prefetch_bytes
        self._stall_seconds = min(stall_seconds, threading.TIMEOUT_MAX)
        self._stream: StepStream | None = None
        self._prefetcher: Prefetcher[PreparedStep] | None = None
        self._expected = place.step + 1
        self._closed = False
        self._user: threading.Thread | None = None

    def user(self) -> threading.Thread | None:
        """Return the thread that asked for a step last."""
        return self._user

    def next(self, expected: int) -> PreparedStep:
        """Return the next step; `expected` is its number, for the log.

        Raises:
            StopIteration: the last epoch has ended.
        """
        self._check_open()
        self._expected, self._user = expected, threading.current_thread()
        stream = self._stream or self._start()
        if self._prefetcher is None:
            return next(stream)
        return self._prefetcher.get(self._stall_seconds, self._report_stall)

    def _start(self) -> StepStream:
        """Return the stream, with a thread that works ahead where the source has any."""
        try:
            self._stream = stream = self._source.steps(self._place)
            if self._source.threads:
                self._prefetcher = Prefetcher(
                    stream, lambda step: step.nbytes, self._prefetch_bytes
                )
                self._prefetcher.start()
            self._check_open()  # a signal handler may have closed what was there by then
        except BaseException:  # an interrupt may leave a thread that uses the stream
            self.close()
            raise
        return stream

    def _check_open(self) -> None:
        if self._closed:
            raise ShardwardError("the loader is closed; make a new one from the last checkpoint")

    def refill(self) -> None:
        """Let the thread go on, now that a step was handed out."""
        if self._prefetcher is not None:
            self._prefetcher.refill()

    def close(self) -> None:
        """Stop reading; twice is harmless."""
        self._closed = True
        if self._stream is not None:
            # A read that waits for its store would be waited for in turn.
            self._stream.feed.loader.close()
        if self._prefetcher is not None:
            self._prefetcher.close()
        if self._stream is not None:
            self._stream.close()

    def _report_stall(self) -> None:
        reading = self._stream.feed.loader.reading() if self._stream is not None else []
        places = ", ".join(f"{uri} for {seconds:.0f} s" for uri, seconds in reading) or "no shard"
        LOG.warning(
            "no data for step %d after %.0f s; reading %s",
            self._expected,
            self._stall_seconds,
            places,
        )
