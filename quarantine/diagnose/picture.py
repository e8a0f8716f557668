"""The loss and its events as a PNG; needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from ...loader.errors import MissingExtra
from .chart import COLOURS, LINE, OTHER
from .events import Event
from .series import Series


def png_chart(title: str, loss: Series, events: Sequence[Event]) -> bytes:
    """Return the curve with its pages marked, as the bytes of a PNG.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  an extra, and slow to import
    except ImportError as error:
        raise MissingExtra(
            "a PNG needs matplotlib; run: pip install 'shardward[report]', or ask for .html"
        ) from error
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots()
    finite = np.isfinite(loss.values)
    axes.plot(loss.steps[finite], loss.values[finite], linewidth=0.7, color=LINE)
    for event in events:
        if event.page:
            axes.axvline(event.onset, color=COLOURS.get(event.kind, OTHER), linestyle="--")
    axes.set(title=title, xlabel="step", ylabel="loss")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()
