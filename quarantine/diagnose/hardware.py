"""What the machines report: counters before and now, and events of nodes and links by name.

watch = HardwareWatch("http://node12:9400/metrics")      # or HardwareWatch(Nvml().read)
watch.signs(step)                                         # now and then, and at a page
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException

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
Counters = dict[tuple[str, str], float]


def read_counters(page: str) -> Counters:
    """Return {(counter, device): value} of the counters that matter; other lines are passed over.

    A device is named host/gpu, as the exporter labels it.
    """
    found: Counters = {}
    for line in page.splitlines():
        match = _LINE.match(line)
        if match is None or match[1] not in COUNTERS:
            continue
        labels = dict(_LABEL.findall(match[2]))
        device = f"{labels.get('Hostname', 'host')}/gpu{labels.get('gpu', '?')}"
        try:
            found[match[1], device] = float(match[3])
        except ValueError:
            continue
    return found


def signs_between(before: Counters, now: Counters, step: int | None = None) -> list[HardwareSign]:
    """Return a sign for every counter that rose, and for an XID that is new.

    An XID is a code, not a count: any other code than before is a new fault.
    """
    signs = []
    for (counter, device), value in sorted(now.items()):
        what, severe = COUNTERS[counter]
        earlier = before.get((counter, device), 0.0)
        if what == "XID":
            if value not in (0.0, earlier):
                signs.append(HardwareSign(step=step, what=f"XID {value:.0f} on {device}"))
        elif value > earlier:
            text = f"{what} rose from {earlier:.0f} to {value:.0f} on {device}"
            signs.append(HardwareSign(step=step, what=text, severe=severe))
    return signs


def node_sign(name: str, node: str, step: int | None = None) -> HardwareSign:
    """Return the sign of a node's or link's event; a name that is not known weighs little."""
    what, severe = NODE_EVENTS.get(name, (f"{name} was reported", False))
    return HardwareSign(step=step, what=f"{what} on {node}", severe=severe)


class HardwareWatch:
    """Remembers the last counters of one source, and says what is new.

    It never raises for a source that fails: `unavailable` then says why, and what it last said
    still counts as before.
    """

    def __init__(self, source: str | Callable[[], Counters], *, timeout: float = 2.0) -> None:
        """`source` is the address of a dcgm-exporter page, or a function such as `Nvml().read`.

        `timeout` is in seconds, for the connection and for the page.
        """
        if isinstance(source, str) and not source.startswith(("http://", "https://")):
            raise ValueError(f"{source!r} is no http address; give one, or a function")
        self._source, self._timeout = source, timeout
        self._before: Counters | None = None
        self.unavailable: str | None = None

    def signs(self, step: int | None = None) -> list[HardwareSign]:
        """Return what is new since the last call; the first call only takes note."""
        now = self._read()
        if now is None:
            return []
        before, self._before = self._before, {**(self._before or {}), **now}
        return [] if before is None else signs_between(before, now, step)

    def _read(self) -> Counters | None:
        self.unavailable = None
        if not isinstance(self._source, str):
            try:
                return self._source()
            # Whatever a driver raises, the training goes on.
            except Exception as error:
                self.unavailable = f"the source of counters failed: {error!r}"
                return None
        try:
            return read_counters(_page(self._source, self._timeout).decode("utf-8", "replace"))
        except (OSError, HTTPException, ValueError) as error:
            self.unavailable = f"{self._source} does not answer: {error}"
            return None


def _page(address: str, seconds: float) -> bytes:
    """Return the page at an http `address`; its body may take `seconds`, however it drips.

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
    return b"".join(parts)
