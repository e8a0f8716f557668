"""Which events of real curves are found, at what price, beside other trainers' rules.

    python benchmarks/monitor/detection.py CURVES [--trials 100] [--plot power.png]

CURVES is a folder of logs with labels.json. Prints one JSON object a line: each rule on the
curves (the packages trainscope, losslint and trainpulse among them, where they are installed);
the power on spikes of real shapes put into clean real curves, by height; false pages on shuffled
outlier noise; the cost of an observation.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from packages import packages
from peers import RULES, Array

from shardward.quarantine.diagnose.events import Event
from shardward.quarantine.diagnose.monitor import Monitor
from shardward.quarantine.diagnose.replay import detect
from shardward.quarantine.diagnose.series import Series
from shardward.quarantine.diagnose.signals import read_series

NEAR = 3
HEIGHTS = {"8-12": (8.0, 12.0), "12-20": (12.0, 20.0), ">20": (20.0, 60.0)}
CLASSES = {"negative": "clean", "negative-transient": "clean", "data_outliers_only": "outliers"}
MACHINE = {"machine": platform.machine(), "command": " ".join(sys.argv)}


def report(**fields: Any) -> None:
    """Print one JSON object."""
    print(json.dumps(fields | MACHINE), flush=True)


def load(folder: Path, labels: dict[str, Any]) -> dict[str, dict[str, Series]]:
    """Return the labelled logs that are long enough to be judged."""
    logs = {}
    for name, label in labels.items():
        path = folder / f"{name}.csv"
        if name.startswith("_") or not path.exists() or label.get("class") == "mixed":
            continue
        series = read_series(path)
        if len(series["loss"]) >= 200:
            logs[name] = series
    return logs


def wanted(label: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Return (first, last, kind) of the events that must be found."""
    return [
        (event["step"], event["end"], event["kind"])
        for event in label.get("events", [])
        if "end" in event
    ]


def judge(
    label: dict[str, Any], steps: NDArray[np.int64], pages: list[tuple[int, int]]
) -> tuple[int, int, list[int], int]:
    """Return (events, found, delays of spikes in points, pages that match nothing)."""
    spacing = int(np.median(np.diff(steps)))
    events = wanted(label)
    spans = [(first, last) for first, last, _ in events]
    spans += [tuple(each) for each in label.get("optional", [])]
    spans += [(each["step"],) * 2 for each in label.get("events", []) if "step" in each]
    delays, found = [], 0
    for first, last, kind in events:
        hits = [
            page for page in pages if first - NEAR * spacing <= page[0] <= last + NEAR * spacing
        ]
        found += bool(hits)
        if hits and kind == "model_spike":
            at = min(page[1] for page in hits)
            delays.append(int(np.searchsorted(steps, at) - np.searchsorted(steps, first)))
    false = [
        page
        for page in pages
        if not any(low - NEAR * spacing <= page[0] <= high + NEAR * spacing for low, high in spans)
    ]
    return len(events), found, delays, len(false)


def incidents(steps: NDArray[np.int64], indices: list[int]) -> list[tuple[int, int]]:
    """Return (onset, page) of each run of alarms at most ten points apart."""
    starts = [
        index
        for place, index in enumerate(indices)
        if place == 0 or index - indices[place - 1] > 10
    ]
    return [(int(steps[index]), int(steps[index])) for index in starts]


def pages_of(events: list[Event]) -> list[tuple[int, int]]:
    """Return (onset, page) of the events that page."""
    return [(event.onset, event.detected) for event in events if event.page]


def arrays(series: dict[str, Series]) -> tuple[Array, Array]:
    """Return loss and gradient norm, NaN where it was not logged."""
    loss, gradient = series["loss"], series.get("grad_norm")
    norms = np.full(len(loss), np.nan)
    if gradient is not None:
        at = np.searchsorted(loss.steps, gradient.steps)
        norms[at] = gradient.values
    return loss.values, norms


def on_curves(folder: Path) -> None:
    """Compare all rules on the labelled curves."""
    labels = json.loads((folder / "labels.json").read_text())
    logs = load(folder, labels)
    others = packages()
    for name in (name for name, rule in others.items() if rule is None):
        report(test="curves", rule=name, skipped="the package is not installed")
    installed = {name: rule for name, rule in others.items() if rule is not None}
    for name, rule in {"shardward": None, **RULES, **installed}.items():
        totals = {"events": 0, "found": 0, "clean": 0, "outliers": 0, "elsewhere": 0}
        delays: list[int] = []
        for log, series in logs.items():
            steps = series["loss"].steps
            if rule is None:
                pages = pages_of(detect(series))
            else:
                pages = incidents(steps, rule(*arrays(series)))
            events, found, late, false = judge(labels[log], steps, pages)
            totals["events"] += events
            totals["found"] += found
            totals[CLASSES.get(labels[log]["class"], "elsewhere")] += false
            delays += late
        report(
            test="curves",
            rule=name,
            events=totals["events"],
            found=totals["found"],
            false_pages_clean=totals["clean"],
            false_pages_outliers=totals["outliers"],
            unlabelled_pages_in_spiking_runs=totals["elsewhere"],
            delay_median=float(np.median(delays)) if delays else None,
            delay_max=max(delays, default=None),
        )


def residuals(values: Array, window: int = 128) -> Array:
    """Return deviations from a line through the points before, in robust standard deviations."""
    places = np.arange(window)
    out = np.zeros(len(values))
    for index in range(window, len(values)):
        last = values[index - window : index]
        slope, level = np.polyfit(places, last, 1)
        rest = last - (slope * places + level)
        out[index] = (values[index] - slope * window - level) / _spread(rest)
    return out


def _spread(rest: Array) -> float:
    return max(1.4826 * float(np.median(np.abs(rest - np.median(rest)))), 1e-9)


def shapes(folder: Path, labels: dict[str, Any]) -> list[Array]:
    """Return the real spikes over the trend before them, each scaled to a height of one."""
    found = []
    for log, series in load(folder, labels).items():
        loss = series["loss"]
        for first, last, kind in wanted(labels[log]):
            low, high = np.searchsorted(loss.steps, [first, min(last, first + 100)])
            if kind != "model_spike" or low < 128:
                continue
            part = np.maximum(loss.values[low : high + 1] - _ahead(loss, low, high), 0)
            found.append(part / part.max())
    return found


def _ahead(loss: Series, low: int, high: int) -> Array:
    """Return where the line through the 128 points before `low` leads, from low to high."""
    places = np.arange(128)
    line = np.polyfit(places, np.minimum(*_held(loss.values[low - 128 : low])), 1)
    return np.polyval(line, np.arange(128, 128 + high + 1 - low))


def _held(before: Array) -> tuple[Array, Array]:
    """Return the values and the most that an earlier spike may count for."""
    spread = _spread(before - np.median(before))
    return before, np.full(len(before), np.median(before) + 4 * spread)


def power(folder: Path, trials: int) -> dict[str, tuple[int, int]]:
    """Put spikes of real shapes into clean real curves; return {height: (found, trials)}."""
    labels = json.loads((folder / "labels.json").read_text())
    kinds = shapes(folder, labels)
    clean = [
        series["loss"]
        for log, series in load(folder, labels).items()
        if labels[log]["class"] == "negative"
    ]
    results: dict[str, tuple[int, int]] = {}
    for height, (low, high) in HEIGHTS.items():
        random = np.random.default_rng(len(height))
        found, delays = 0, []
        for _ in range(trials):
            delay = _one_trial(random, clean, kinds, random.uniform(low, high))
            found += delay is not None
            delays += [delay] if delay is not None else []
        results[height] = (found, trials)
        report(
            test="power",
            height=height,
            trials=trials,
            recall=found / trials,
            delay_median=float(np.median(delays)) if delays else None,
        )
    return results


def _one_trial(
    random: np.random.Generator, clean: list[Series], kinds: list[Array], height: float
) -> int | None:
    log = clean[random.integers(len(clean))]
    start = int(random.integers(600, len(log) - 800))
    loss, steps = log.values[start : start + 700].copy(), log.steps[start : start + 700]
    at, shape = int(random.integers(450, 600)), kinds[random.integers(len(kinds))]
    before = loss[at - 128 : at]
    line = np.polyval(np.polyfit(np.arange(128), before, 1), np.arange(128))
    length = min(len(shape), len(loss) - at)
    loss[at : at + length] += shape[:length] * height * _spread(before - line)
    monitor = Monitor()
    for step, value in zip(steps.tolist(), loss.tolist(), strict=True):
        monitor.update(step, loss=value)
    hits = [
        page
        for page in monitor.pages
        if steps[at - NEAR] <= page.detected <= steps[min(at + length + NEAR, len(steps) - 1)]
    ]
    return int(np.searchsorted(steps, hits[0].detected)) - at if hits else None


def shuffled_noise(folder: Path, points: int) -> None:
    """Count the pages on outlier noise whose order was shuffled, so that no spike is real."""
    labels = json.loads((folder / "labels.json").read_text())
    noises = []
    for log, series in load(folder, labels).items():
        if labels[log]["class"] in ("data_outliers_only", "negative"):
            deviations = residuals(series["loss"].values)[len(series["loss"]) // 8 :]
            noises.append(deviations)
    random, false = np.random.default_rng(0), 0
    each = points // len(noises)
    steps = np.arange(1, each + 1)
    for noise in noises:
        loss = 3.3 + 2 * (1 + steps / 500) ** -0.5 + 0.03 * random.choice(noise, each)
        monitor = Monitor()
        for step, value in zip(steps.tolist(), loss.tolist(), strict=True):
            monitor.update(step, loss=value)
        false += len(monitor.pages)
    report(test="shuffled outlier noise", points=points, false_pages=false)


def cost(observations: int = 10_000) -> None:
    """Time an observation with two, eight and fifty-eight scalars."""
    random = np.random.default_rng(0)
    loss = (2 + random.normal(0, 0.02, observations)).tolist()
    norm = np.exp(random.normal(0, 0.1, observations)).tolist()
    for extra in (0, 6, 56):
        rows = random.lognormal(0, 0.1, (observations, extra)).tolist()
        names = [f"signal/{index}" for index in range(extra)]
        monitor = Monitor()
        started = time.process_time()
        for index in range(observations):
            others = dict(zip(names, rows[index], strict=True))
            monitor.update(index + 1, loss=loss[index], grad_norm=norm[index], **others)
        spent = (time.process_time() - started) / observations * 1e6
        report(test="cost", scalars=extra + 2, microseconds=round(spent, 1))


def plot(results: dict[str, tuple[int, int]], path: Path) -> None:
    """Draw recall by height."""
    from matplotlib.figure import Figure  # noqa: PLC0415  only where it is asked for

    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    axes.bar(list(results), [found / trials for found, trials in results.values()])
    axes.set(xlabel="height of the spike in standard deviations", ylabel="recall", ylim=(0, 1.02))
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("curves", type=Path)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--noise", type=int, default=100_000)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    on_curves(options.curves)
    results = power(options.curves, options.trials)
    shuffled_noise(options.curves, options.noise)
    cost()
    if options.plot is not None:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
