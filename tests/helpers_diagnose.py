"""Synthetic training logs, each a pure function of its seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.events import Event
from shardward.quarantine.diagnose.monitor import Monitor
from shardward.quarantine.diagnose.series import Series

Array = NDArray[np.float64]


def curve(points: int, *, seed: int = 0, noise: float = 0.02, first: float = 8.0) -> Array:
    """Return a healthy loss: a power law of the step with white noise, float64 [points]."""
    steps = np.arange(1, points + 1)
    trend = 2.0 + (first - 2.0) * (1 + steps / 20) ** -0.6
    return trend + np.random.default_rng(seed).normal(0, noise, points)


def gradients(points: int, *, seed: int = 0, noise: float = 0.1) -> Array:
    """Return a healthy gradient norm, float64 [points]."""
    steps = np.arange(1, points + 1)
    level = 0.3 + 2.0 * np.exp(-steps / 50)
    return np.asarray(level * np.exp(np.random.default_rng(seed + 1000).normal(0, noise, points)))


def spiked(loss: Array, step: int, heights: Sequence[float]) -> Array:
    """Return `loss` with `heights` added from `step` (counted from 1) on."""
    result = loss.copy()
    result[step - 1 : step - 1 + len(heights)] += heights
    return result


def watch(
    loss: Array,
    gradient: Array | None = None,
    *,
    config: MonitorConfig | None = None,
    every: int = 1,
) -> list[Event]:
    """Return the events of a log whose points are `every` steps apart."""
    monitor = Monitor(config)
    for index, value in enumerate(loss.tolist()):
        norm = None if gradient is None else float(gradient[index])
        monitor.update((index + 1) * every, loss=value, grad_norm=norm)
    return monitor.events


def pages(events: list[Event]) -> list[Event]:
    """Return the events that page."""
    return [event for event in events if event.page]


def series_of(values: Mapping[str, Array]) -> dict[str, Series]:
    """Return series over steps 1..n."""
    return {
        name: Series(
            name=name,
            steps=np.arange(1, len(each) + 1, dtype=np.int64),
            values=np.asarray(each, dtype=np.float64),
        )
        for name, each in values.items()
    }


def an_event(**fields: object) -> Event:
    """Return a spike at step 600 with `fields` replaced."""
    given: dict[str, object] = {
        "number": 1,
        "kind": "spike",
        "onset": 600,
        "detected": 602,
        "end": None,
        "peak": 4.0,
        "peak_step": 601,
        "z": 20.0,
        "baseline": 2.5,
        "page": True,
    }
    return Event(**{**given, **fields})  # type: ignore[arg-type]
