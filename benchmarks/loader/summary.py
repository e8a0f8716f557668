"""Medians over the rounds, and ratios taken within each round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .meter import median

RATE = "tokens_per_cpu_s"
NUMBERS = (
    RATE,
    "tokens_per_wall_s",
    "peak_mb",
    "above_import_mb",
    "plan_s",
    "plan_total_s",
    "first_batch_s",
    "total_s",
    "cpu_s",
    "added_s",
    "added_cpu_s",
    "next_us_p50",
    "next_us_p99",
    "next_cpu_us_p50",
    "next_cpu_us_p99",
    "step_us_p50",
    "step_us_p99",
    "step_cpu_us_p50",
    "step_cpu_us_p99",
)


def summaries(results: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one line per case with its medians, then one per pair of ours and another."""
    rounds: dict[str, dict[int, dict[str, Any]]] = {}
    for result in results:
        if "turn" in result and "skipped" not in result:
            rounds.setdefault(result["case"], {})[result["turn"]] = result
    for name, found in rounds.items():
        rows = list(found.values())
        medians = {
            f"{key}_median": round(median([row[key] for row in rows]), 4)
            for key in NUMBERS
            if key in rows[0]
        }
        yield {"summary": name, "rounds": len(rows), **medians}
    yield from _ratios(rounds)


def _ratios(rounds: dict[str, dict[int, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    rated = {name for name, found in rounds.items() if RATE in next(iter(found.values()))}
    mine = sorted(name for name in rated if name.startswith("ours"))
    for name in mine:
        for other in sorted(rated - set(mine) - {"limit: memcpy"}):
            shared = rounds[name].keys() & rounds[other].keys()
            ratios = [rounds[name][turn][RATE] / rounds[other][turn][RATE] for turn in shared]
            if ratios:
                yield {
                    "ratio": f"{name} / {other}",
                    "rounds": len(ratios),
                    "median": round(median(ratios), 3),
                    "lowest": round(min(ratios), 3),
                    "highest": round(max(ratios), 3),
                }
