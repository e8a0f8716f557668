"""One log, one answer: streamed or held, saved and loaded anywhere, in blocks of any size."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from helpers_diagnose import Array, curve, gradients, spiked

from shardward.quarantine.diagnose import logfile
from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.judged import judge_log
from shardward.quarantine.diagnose.monitor import Monitor
from shardward.quarantine.diagnose.replay import detect
from shardward.quarantine.diagnose.signals import read_log

POINTS = 1500
STEPS: Array = np.arange(1, POINTS + 1, dtype=np.float64)
CONFIG = MonitorConfig(warmup_steps=200, window=64)
Curve = tuple[Array, Array, Array]


def correlated(seed: int) -> Array:
    news, noise = np.random.default_rng(seed).normal(0, 0.02, POINTS), np.zeros(POINTS)
    for place in range(1, POINTS):
        noise[place] = 0.8 * noise[place - 1] + news[place]
    return noise


def fragile() -> Curve:
    """A spike with its gradient norm, outliers and a lasting shift, every fifth step."""
    loss, norm = spiked(curve(POINTS), 500, (1.2, 1.0, 0.7, 0.5, 0.3, 0.1)), gradients(POINTS)
    loss[[300, 420, 421, 900]] += 0.4
    loss[1100:] += 0.08
    norm[495:503] *= 12
    return 5 * STEPS, loss, norm


def rounded() -> Curve:
    """Rounded losses with correlated noise, losses and norms that are no numbers, one value."""
    loss, norm = np.round(curve(POINTS, noise=0.001) + correlated(3), 2), gradients(POINTS)
    loss[[700, 701, 760]] = np.nan
    norm[800:880] = np.inf
    loss[1000:1200] = 2.5
    return STEPS, loss, norm


def restarted() -> Curve:
    """A run that diverges, goes back, and meets noise that has trebled."""
    loss = curve(POINTS)
    loss[600:900] += np.linspace(0, 1, 300)
    loss[1200:] += 2 * np.random.default_rng(5).normal(0, 0.02, 300)
    steps = STEPS.copy()
    steps[900:] -= 320
    return steps, loss, gradients(POINTS)


CURVES = {"fragile": fragile, "rounded": rounded, "restarted": restarted}


def answer(monitor: Monitor) -> str:
    """Return all that the monitor knows."""
    return json.dumps([[event.to_state() for event in monitor.events], monitor.state_dict()])


@pytest.mark.parametrize("name", CURVES)
def test_a_monitor_that_is_saved_and_loaded_anywhere_goes_on_alike(name: str) -> None:
    rows = list(zip(*(column.tolist() for column in CURVES[name]()), strict=True))
    whole = Monitor(CONFIG)
    saved: list[tuple[int, str]] = []
    told = []
    for place, (step, loss, norm) in enumerate(rows):
        if place % 61 == 0:
            saved.append((place, json.dumps(whole.state_dict())))
        told.append(repr(whole.update(int(step), loss=loss, grad_norm=norm)))

    assert any(event.page for event in whole.events)
    for place, state in saved:
        again = Monitor(CONFIG)
        again.load_state_dict(json.loads(state))
        # It is followed until its points have passed through every window.
        for at, (step, loss, norm) in enumerate(rows[place : place + 400], start=place):
            assert repr(again.update(int(step), loss=loss, grad_norm=norm)) == told[at]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("name", CURVES)
def test_a_log_in_blocks_of_any_size_has_the_events_of_one_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str
) -> None:
    path = tmp_path / f"log.{form}"
    rows = list(zip(*(column.tolist() for column in CURVES[name]()), strict=True))
    if form == "csv":
        lines = ["step,loss,grad_norm", *(f"{int(a)},{b!r},{c!r}" for a, b, c in rows)]
    else:
        names = ("step", "loss", "grad_norm")
        lines = [json.dumps(dict(zip(names, (int(a), b, c), strict=True))) for a, b, c in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    watched = Monitor(CONFIG)
    for step, loss, norm in rows:
        watched.update(int(step), loss=loss, grad_norm=norm)
    expected = json.dumps([event.to_state() for event in watched.events])
    answers = []
    for block in (97, 1000, 1 << 18):
        monkeypatch.setattr(logfile, "BLOCK", block)
        found = judge_log(path, lambda _: CONFIG, lambda *_: nullcontext(lambda _: None))
        answers.append(json.dumps([event.to_state() for event in found.events]))
    if name != "restarted":
        # Series that are held give a step that was logged twice its later gradient norm.
        held = detect(read_log(path).series, CONFIG)
        answers.append(json.dumps([event.to_state() for event in held]))

    assert set(answers) == {expected}
