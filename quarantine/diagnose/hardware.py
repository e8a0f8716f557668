"""What the machines report: counters before and now, and events of nodes and links by name.

watch = HardwareWatch("http://node12:9400/metrics")      # or HardwareWatch(Nvml().read)
watch.signs(step)                                         # now and then, and at a page
"""

from __future__ import annotations

import math
import re
import time
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import wait

from ...loader.aside import aside
from .evidence import HardwareSign

_LINE = re.compile(r"^(\w+)\{(.*)\}\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Counter → (what it is, whether one of it alone explains a broken step).
COUNTERS: Mapping[str, tuple[str, bool]] = {
    "DCGM_FI_DEV_XID_ERRORS": ("XID", True),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("double-bit ECC errors", True),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("single-bit ECC errors", False),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("uncorrectable remapped rows", True),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("correctable remapped rows", False),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("row remap failures", True),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": ("NVLink CRC errors", False),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("NVLink recoveries", False),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("PCIe replays", False),
}
# Events that schedulers, health checks and communication libraries report, by their usual names.
NODE_EVENTS: Mapping[str, tuple[str, bool]] = {
    "node_down": ("the node went down", True),
    "node_drained": ("the node was drained", False),
    "gpu_lost": ("a GPU fell off the bus", True),
    "link_down": ("a link went down", True),
    "link_flap": ("a link went down and came back", False),
    "nccl_timeout": ("a collective timed out", True),
    "ecc_error": ("an ECC error was reported", True),
    "thermal_throttle": ("the clocks were lowered for heat", False),
    "oom_kill": ("a process was killed for memory", False),
}
LARGEST_PAGE = 16 << 20
MOST_SERIES = 1 << 16
# DCGM writes these, and a little more, where a device does not have a counter (32 bits, a double,
# 64 bits); no counter that counts something comes near the second.
BLANK_32, BLANK = 0x7FFFFFF0, 1 << 47
Counters = dict[tuple[str, str], float]


def read_counters(page: str) -> Counters:
    """Return {(counter, device): value} of the counters that matter; other lines are passed over.

    A device is named host/gpu, as the exporter labels it; of several series of one device (its
    instances) the largest counts. What is no count (NaN, negative, blank) is passed over.

    Raises:
        ValueError: the page has none of the counters, or more than any machine has.
    """
    found: Counters = {}
    for line in page.splitlines():
        match = _LINE.match(line)
        if match is None or match[1] not in COUNTERS:
            continue
        labels = dict(_LABEL.findall(match[2]))
        device = f"{labels.get('Hostname', 'host')}/gpu{labels.get('gpu', '?')}"
        try:
            value = float(match[3])
        except ValueError:
            continue
        if 0 <= value < BLANK and not BLANK_32 <= value < 1 << 31:
            found[match[1], device] = max(value, found.get((match[1], device), 0.0))
        if len(found) > MOST_SERIES:
            raise ValueError(f"its page has more than {MOST_SERIES} counters")
    if not found:
        raise ValueError("its page has none of the counters")
    return found


def signs_between(before: Counters, now: Counters, step: int | None = None) -> list[HardwareSign]:
    """Return a sign for every counter that rose, and for an XID that is new.

    An XID is a code, not a count: any other code than before is a new fault. A counter that was
    not there before has not risen.
    """
    signs = []
    for (counter, device), value in sorted(now.items()):
        what, severe = COUNTERS[counter]
        earlier = before.get((counter, device), 0.0 if what == "XID" else value)
        if what == "XID":
            if math.isfinite(value) and value not in (0.0, earlier):
                signs.append(HardwareSign(step=step, what=f"XID {value:.0f} on {device}"))
        elif value > earlier:
            text = f"{what} rose from {earlier:.0f} to {value:.0f} on {device}"
            signs.append(HardwareSign(step=step, what=text, severe=severe))
    return signs


def node_sign(name: str, node: str, step: int | None = None) -> HardwareSign:
    """Return the sign of a node's or link's event; a name that is not known weighs little."""
    what, severe = NODE_EVENTS.get(name, (f"{name} was reported", False))
    return HardwareSign(step=step, what=f"{what} on {node}", severe=severe)


class _Reading:
    """What a source answers, in a thread of its own: nothing it does can hold a step for longer.

    A header that drips, a name that does not resolve and a driver that hangs have no time limit
    of their own.
    """

    def __init__(self, source: Callable[[], Counters]) -> None:
        self._thread, self._answer = aside(source, "counters")
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether the source has not answered yet."""
        return not self._answer.done()

    def answer(self, seconds: float) -> Counters:
        """Return what the source answers within `seconds`; raises what it raises."""
        if wait([self._answer], seconds).not_done:
            raise TimeoutError(f"it took longer than {seconds:g} s")
        return self._answer.result()


class HardwareWatch:
    """Remembers the last counters of one source, and says what is new.

    It never raises for a source that fails, and never waits for one for longer than its timeout:
    `unavailable` then says why, and what it last said still counts as before. While a source that
    was given up is still at it, it is not asked again.
    """

    def __init__(self, source: str | Callable[[], Counters], *, timeout: float = 2.0) -> None:
        """`source` is the address of a dcgm-exporter page, or a function such as `Nvml().read`.

        `timeout` is in seconds, for the whole answer.
        """
        if isinstance(source, str) and not source.startswith(("http://", "https://")):
            raise ValueError(f"{source!r} is no http address; give one, or a function")
        self._source, self._timeout = source, timeout
        self._before: Counters | None = None
        self._reading: _Reading | None = None
        self.unavailable: str | None = None

    def signs(self, step: int | None = None) -> list[HardwareSign]:
        """Return what is new since the last call; the first call only takes note."""
        now = self._read()
        if now is None:
            return []
        before, kept = self._before, {**(self._before or {}), **now}
        self._before = kept if len(kept) <= MOST_SERIES else now
        return [] if before is None else signs_between(before, now, step)

    def _read(self) -> Counters | None:
        self.unavailable = None
        if self._reading is not None and self._reading.is_open:
            self.unavailable = "the source of counters is still at its last answer"
            return None
        try:
            # Where no thread can be started, there is no answer either.
            self._reading = _Reading(self._asked)
            found = self._reading.answer(self._timeout)
            return {key: float(value) for key, value in found.items() if key[0] in COUNTERS}
        except Exception as error:  # whatever a driver raises or returns, the training goes on
            self.unavailable = (
                f"{self._source} does not answer with counters: {error}"
                if isinstance(self._source, str)
                else f"the source of counters failed: {error!r}"
            )
            return None

    def _asked(self) -> Counters:
        if not isinstance(self._source, str):
            return self._source()
        return read_counters(_page(self._source, self._timeout).decode("utf-8", "replace"))


def _page(address: str, seconds: float) -> bytes:
    """Return the page at an http `address`; its body may take `seconds`, however it drips.

    Of a page that is too large the first whole lines are returned.

    Raises:
        OSError, HTTPException: it does not answer in that time, or not in HTTP.
    """
    end, parts, size = time.monotonic() + seconds, [], 0
    # The address is one of http, checked where it was given.
    with urllib.request.urlopen(address, timeout=seconds) as answer:  # noqa: S310
        while size < LARGEST_PAGE and (part := answer.read1(1 << 16)):
            parts.append(part)
            size += len(part)
            if time.monotonic() > end:
                raise TimeoutError(f"its page took longer than {seconds:g} s")
    page = b"".join(parts)
    return page if size < LARGEST_PAGE else page[: page.rfind(b"\n") + 1]
