"""Monitors from the package index, each as shipped, where they are installed.

They are looked up by name, so that neither the benchmark nor this project depends on them. The
rules have the shape that `peers` describes; a missing package gives None.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from peers import Array, Rule


def _trainscope(detector: str | None) -> Rule:
    config = import_module("trainscope.core.config").TrainScopeConfig
    make = import_module("trainscope.core.detectors").make_detector

    def rule(loss: Array, gradient: Array) -> list[int]:
        alarm = make(config(detector=detector) if detector else config())
        # It hands no loss to its detector that is not finite.
        finite = [(place, value) for place, value in enumerate(loss.tolist()) if np.isfinite(value)]
        return [place for place, value in finite if alarm.update(value) is not None]

    return rule


def _losslint() -> Rule:
    checks, parsing = import_module("losslint.checks"), import_module("losslint.parsing")

    def rule(loss: Array, gradient: Array) -> list[int]:
        steps = list(range(len(loss)))
        run = parsing.RunLog(steps=steps, series={"loss": loss.tolist()}, source=Path("log.csv"))
        findings: list[Any] = checks.run_all_checks(run)
        # A spike names its first five steps; a divergence is a verdict on the whole log.
        found = {step for each in findings for step in each.details.get("steps", [])}
        if any(each.check == "divergence" for each in findings):
            found.add(steps[-1])
        return sorted(found)

    return rule


def _trainpulse(*, plateau: bool) -> Rule:
    monitor = import_module("trainpulse.monitor").Monitor

    def rule(loss: Array, gradient: Array) -> list[int]:
        watching, found = monitor(), set()
        for place, (value, norm) in enumerate(zip(loss.tolist(), gradient.tolist(), strict=True)):
            alerts = watching.log("loss", place, value)
            if np.isfinite(norm):
                alerts += watching.log("grad_norm", place, norm)
            if any(plateau or "plateau" not in alert.detector.lower() for alert in alerts):
                found.add(place)
        return sorted(found)

    return rule


def packages() -> dict[str, Rule | None]:
    """Return {package and setting: rule, or None if it is not installed}."""
    makers = {
        "trainscope, default (CUSUM)": lambda: _trainscope(None),
        "trainscope, z_score": lambda: _trainscope("z_score"),
        "trainscope, percentile": lambda: _trainscope("percentile"),
        "losslint, default": _losslint,
        "trainpulse, default": lambda: _trainpulse(plateau=True),
        "trainpulse without its plateau alarm": lambda: _trainpulse(plateau=False),
    }
    return {
        name: make() if find_spec(name.replace(",", " ").split()[0]) else None
        for name, make in makers.items()
    }
