"""Loss curves of several branches as JSON and as a PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import cycle
from typing import Any

from ...loader.errors import MissingExtra

# A replay lies exactly on the original, so the second line is dashed.
STYLES = ("-", "--", "-", "-.")
# Branch name → signal → value by step.
Branches = Mapping[str, Mapping[str, Mapping[int, float]]]


def curves_json(branches: Branches) -> dict[str, Any]:
    """Return the curves as the attachment `curves`; values that are not finite become null."""
    return {
        "branches": [
            {
                "name": name,
                "series": {
                    signal: [
                        [step, value if math.isfinite(value) else None]
                        for step, value in sorted(values.items())
                    ]
                    for signal, values in signals.items()
                },
            }
            for name, signals in branches.items()
        ]
    }


def signal_names(branches: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the signals of a report's branches, the loss first."""
    names = dict.fromkeys(name for branch in branches for name in branch["series"])
    return sorted(names, key=lambda name: name != "loss")


def curves_png(report: Mapping[str, Any]) -> bytes:
    """Return a PNG of the curves in a report, the window from onset to detection shaded.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        agg = import_module("matplotlib.backends.backend_agg")
        plots = import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingExtra(
            "pictures need matplotlib, which is not installed; run: pip install 'shardward[report]'"
        ) from error
    branches = report["curves"]["branches"]
    signals = signal_names(branches)
    figure = plots.Figure(figsize=(9, 2.6 * max(len(signals), 1)), dpi=110, layout="tight")
    agg.FigureCanvasAgg(figure)
    for index, signal in enumerate(signals):
        axes = figure.add_subplot(len(signals), 1, index + 1)
        _panel(axes, signal, branches, report["detection"])
    target = io.BytesIO()
    # No date or version in the file: the same curves give the same bytes.
    figure.savefig(target, format="png", metadata={"Software": None})
    return target.getvalue()


def _panel(axes: Any, signal: str, branches: Any, detection: Mapping[str, Any]) -> None:
    for style, branch in zip(cycle(STYLES), branches, strict=False):
        points = [p for p in branch["series"].get(signal, ()) if p[1] is not None]
        if points:
            steps, values = zip(*points, strict=True)
            axes.plot(steps, values, style, linewidth=1.2, label=branch["name"].replace("$", r"\$"))
    axes.axvspan(detection["onset"], detection["detected"] + 1, color="#fde68a", alpha=0.6)
    axes.set_xlabel("step")
    axes.set_ylabel(signal.replace("$", r"\$"))
    axes.grid(visible=True, alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize=8)
