"""Play full drills and print one JSON object for each.

Usage: python -m benchmarks.drill [SEED ...]     (default: seeds 0 to 4, every variant)
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

VARIANTS = {"data": [], "learning-rate": ["--cause", "learning-rate"], "none": ["--no-salt"]}
"""Options of `shardward drill` by what goes wrong in it."""


def main(seeds: list[int]) -> int:
    """Play every variant of every seed; return 1 when a drill did not pass."""
    failed = 0
    for seed in seeds:
        for cause in VARIANTS:
            result = drill(seed, cause=cause)
            failed += not result["passed"]
            sys.stdout.write(json.dumps(result) + "\n")
    return min(failed, 1)


def drill(seed: int, *, cause: str) -> dict[str, Any]:
    """Play one drill in a process of its own and return what is worth comparing."""
    with tempfile.TemporaryDirectory() as scratch:
        words = ["drill", "--seed", str(seed), *VARIANTS[cause], "--json"]
        command = [sys.executable, "-m", "shardward", *words]
        command += ["--out", str(Path(scratch) / "out")]
        began, used = time.monotonic(), os.times().children_user
        played = subprocess.run(command, capture_output=True, text=True, check=False)
        wall, cpu = time.monotonic() - began, os.times().children_user - used
    base = {
        "benchmark": "drill",
        "command": f"shardward {' '.join(words)}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "seed": seed,
        "cause": cause,
        "exit_code": played.returncode,
        "wall_s": round(wall, 1),
        "user_s": round(cpu, 1),
    }
    if not played.stdout:
        return {**base, "passed": False, "error": played.stderr[-1000:]}
    return {**base, **_facts(json.loads(played.stdout))}


def _facts(result: dict[str, Any]) -> dict[str, Any]:
    facts = {
        "passed": result["passed"],
        "steps": result["steps"],
        "corpus": result["corpus"]["digest"],
        "incidents": len(result["incidents"]),
        "seconds": result["seconds"],
    }
    for incident in result["incidents"]:
        due = result["fault"]["step"] if result["fault"] else result["placement"]["first_step"]
        facts["onset"] = [due, incident["event"]["onset"]]
        facts["replay"] = [incident["replay"]["recurred"], incident["replay"]["bitwise"]]
        facts["watch"] = incident["watch"]["verdict"]
        facts["outcome"] = incident["outcome"]
        facts["likeliest"] = incident["causes"][0]
        facts["resumed_page"] = incident["resumed_page"] is not None
    if result["score"]:
        families = result["score"]["families"]
        facts["recall"] = {one["family"]: one["recall"] for one in families}
        facts["precision"] = {one["family"]: round(one["precision"], 4) for one in families}
        facts["unsalted"] = len(result["score"]["unsalted"])
        facts["precision_salt_alone"] = round(result["score"]["precision_salt_alone"], 4)
    return facts


if __name__ == "__main__":
    raise SystemExit(main([int(seed) for seed in sys.argv[1:]] or list(range(5))))
