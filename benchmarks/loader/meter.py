"""What every case is measured with: wall clock, CPU of the whole process, resident memory."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


class Meter:
    """Wall and CPU seconds since it was made or restarted; CPU of all threads and children."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start from zero."""
        self._wall = time.perf_counter()
        self._cpu = _cpu_seconds()

    def rates(self, tokens: int) -> dict[str, float]:
        """Return seconds so far and `tokens` per second, by the wall clock and by CPU time."""
        wall, cpu = time.perf_counter() - self._wall, _cpu_seconds() - self._cpu
        return {
            "tokens": tokens,
            "wall_s": round(wall, 4),
            "cpu_s": round(cpu, 4),
            "tokens_per_cpu_s": round(tokens / cpu),
            "tokens_per_wall_s": round(tokens / wall),
        }


def peak_memory_mb() -> float:
    """Return the peak resident memory of this process in MB.

    `ru_maxrss` would start from that of the parent, so the kernel's own mark is read.
    """
    return _status_mb("VmHWM:")


def memory_mb() -> float:
    """Return the resident memory of this process in MB."""
    return _status_mb("VmRSS:")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of `values` lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """Return the middle value, the upper one of two."""
    return percentile(values, 0.5)


def machine() -> dict[str, Any]:
    """Return what the figures depend on besides the code."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions(names: Sequence[str]) -> dict[str, str]:
    """Return the installed versions of the distributions `names`."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _status_mb(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return 0.0


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
