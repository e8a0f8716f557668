"""How far the monitor's one threshold may be off before a real event is lost or noise pages.

    python benchmarks/monitor/margin.py [CURVES] [--points 10000] [--seeds 20 21 22]

Prints one JSON object a line: pages on synthetic noise of many kinds, none of which holds an
event but the last two, whose sources come in order; then, with CURVES, what is found on labelled
curves at other values of `false_page_rate`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from detection import CLASSES, judge, load, pages_of, report
from peers import Array

from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.monitor import Monitor
from shardward.quarantine.diagnose.replay import detect

RATES = (1e-5, 2e-5, 2.5e-5, 4e-5, 6e-5, 8e-5, 1e-4, 1.4e-4)
Noise = Callable[[np.random.Generator, int], Array]


def correlated(share: float) -> Noise:
    """Return noise whose neighbours have this correlation."""

    def noise(random: np.random.Generator, points: int) -> Array:
        news, values = random.normal(0, 1, points), np.zeros(points)
        for place in range(1, points):
            values[place] = share * values[place - 1] + (1 - share**2) ** 0.5 * news[place]
        return values

    return noise


def outliers(share: float) -> Noise:
    """Return normal noise with this share of one-point outliers."""
    return lambda random, points: (
        random.normal(0, 1, points)
        + (random.random(points) < share) * random.exponential(13, points)
    )


def pairs(random: np.random.Generator, points: int) -> Array:
    """Return normal noise with an adjacent pair of outliers in every 500 points."""
    values = random.normal(0, 1, points)
    for place in random.choice(points - 2, points // 500, replace=False):
        values[place : place + 2] += random.uniform(10, 100, 2)
    return values


def square(random: np.random.Generator, points: int) -> Array:
    """Return normal noise over two sources that take turns every 250 points."""
    return random.normal(0, 1, points) + 10 * (np.arange(points) % 500 < 250)


def ramp(random: np.random.Generator, points: int) -> Array:
    """Return normal noise over sources of rising difficulty, every 1,000 points."""
    return random.normal(0, 1, points) + 17 * (np.arange(points) % 1000 / 1000)


def swing(random: np.random.Generator, points: int) -> Array:
    """Return normal noise over a level that swings slowly, by 3 % of the last loss."""
    return random.normal(0, 1, points) + 2.5 * np.sin(np.arange(points) * 2 * np.pi / 1000)


FAMILIES: dict[str, Noise] = {
    "normal": lambda random, points: random.normal(0, 1, points),
    "laplace": lambda random, points: random.laplace(0, 1, points),
    "student 3": lambda random, points: random.standard_t(3, points),
    "log-normal": lambda random, points: 1.7 * (np.exp(random.normal(0, 0.8, points)) - 1),
    "correlated .6": correlated(0.6),
    "correlated .9": correlated(0.9),
    "correlated .95": correlated(0.95),
    "outliers 1 %": outliers(0.01),
    "outliers 5 %": outliers(0.05),
    "outliers in pairs": pairs,
    "slow swing": swing,
    "square of sources": square,
    "ramp of sources": ramp,
}


def on_noise(points: int, seeds: list[int]) -> None:
    """Count the pages on each family."""
    steps = np.arange(1, points + 1)
    trend = 2.2 + 6 * (1 + steps / 40) ** -0.5
    for name, noise in FAMILIES.items():
        found = 0
        for seed in seeds:
            monitor = Monitor()
            loss = trend + 0.03 * noise(np.random.default_rng(seed), points)
            for step, value in zip(steps.tolist(), loss.tolist(), strict=True):
                monitor.update(step, loss=value)
            found += len(monitor.pages)
        report(test="noise", family=name, points=points * len(seeds), pages=found)


def on_curves(folder: Path) -> None:
    """Find what each rate finds on the labelled curves."""
    labels = json.loads((folder / "labels.json").read_text())
    logs = load(folder, labels)
    for rate in RATES:
        totals = {"found": 0, "clean": 0, "outliers": 0, "elsewhere": 0}
        for log, series in logs.items():
            pages = pages_of(detect(series, MonitorConfig(false_page_rate=rate)))
            _, found, _, false = judge(labels[log], series["loss"].steps, pages)
            totals["found"] += found
            totals[CLASSES.get(labels[log]["class"], "elsewhere")] += false
        report(test="rate", false_page_rate=rate, **totals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("curves", type=Path, nargs="?")
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    options = parser.parse_args()
    on_noise(options.points, options.seeds)
    if options.curves is not None:
        on_curves(options.curves)


if __name__ == "__main__":
    main()
