"""How a result is printed: one JSON object a line, with machine and command."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any


def report(name: str, *, bar: str | None = None, holds: bool | None = None, **values: Any) -> None:
    """Print one result; `bar` says in words what was to be reached and `holds` whether it was."""
    line = {
        "benchmark": f"ledger.{name}",
        **values,
        "bar": bar,
        "holds": holds,
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
        },
        "command": " ".join(["python -m benchmarks.ledger", *sys.argv[1:]]),
    }
    print(json.dumps(line), flush=True)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of `values` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed(ask: Callable[[], Any], repeats: int) -> list[float]:
    """Return the seconds of each call."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        ask()
        found.append(time.perf_counter() - began)
    return found


def _cpu() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as stream:  # noqa: PTH123
        for line in stream:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()
