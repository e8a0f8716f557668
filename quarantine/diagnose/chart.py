"""The loss and its events as text for a terminal, and as one HTML file without scripts."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .events import Event
from .series import Series

EIGHTHS = " ▁▂▃▄▅▆▇█"
MARKS = {"spike": "▲", "divergence": "◆", "nonfinite": "!", "blip": "·", "context_change": "|"}
COLOURS = {"spike": "#c0392b", "divergence": "#8e44ad", "nonfinite": "#000000"}
LINE, OTHER = "#2c6fbb", "#888888"


def text_chart(loss: Series, events: Sequence[Event], *, width: int = 80, height: int = 10) -> str:
    """Return the loss as rows of blocks, the highest value of each column, with marks below.

    Values are clipped at the 99th percentile and what lies more than that above the rest, so
    that a tall spike does not flatten the curve.
    """
    finite = np.isfinite(loss.values)
    if not finite.any():
        return "no finite loss"
    columns = min(width, int(finite.sum()))
    heights, low, high = _heights(loss.values[finite], columns, height * 8)
    edges = np.array_split(loss.steps[finite], columns)
    rows = []
    for row in range(height - 1, -1, -1):
        label = f"{high:9.4g} " if row == height - 1 else f"{low:9.4g} " if row == 0 else " " * 10
        rows.append(label + "".join(EIGHTHS[_level(value, row)] for value in heights.tolist()))
    rows.append(" " * 10 + _marks(edges, events))
    first, last = int(loss.steps[finite][0]), int(loss.steps[finite][-1])
    rows.append(
        " " * 10 + f"step {first}" + f"{last}".rjust(max(1, columns - len(f"step {first}")))
    )
    return "\n".join(row.rstrip() for row in rows)


def _level(value: int, row: int) -> int:
    return min(max(value - 8 * row, 0), 8)


def _heights(
    values: NDArray[np.float64], columns: int, most: int
) -> tuple[NDArray[np.int64], float, float]:
    tops = np.array([part.max() for part in np.array_split(values, columns)])
    low, high = _range(tops)
    scaled = (np.clip(tops, low, high) - low) / max(high - low, 1e-12) * (most - 1) + 1
    return np.asarray(np.round(scaled), dtype=np.int64), low, high


def _range(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return what to show: everything, but for the few highest of a young or broken run."""
    low, typical = float(values.min()), float(np.percentile(values, 90))
    return low, min(float(values.max()), typical + 1.5 * (typical - low) + 1e-9)


def _marks(edges: Sequence[NDArray[np.int64]], events: Sequence[Event]) -> str:
    line = [" "] * len(edges)
    starts = np.array([part[0] for part in edges])
    for event in sorted(events, key=lambda each: each.page):
        place = int(np.searchsorted(starts, event.onset, side="right")) - 1
        line[max(place, 0)] = MARKS.get(event.kind, " ")
    return "".join(line)


def html_chart(title: str, loss: Series, events: Sequence[Event]) -> str:
    """Return one HTML page with the curve as SVG and the events as a table; no network, no script.

    Long logs are drawn by the lowest and highest value of each of 1,200 columns.
    """
    rows = "".join(
        f"<tr><td>{event.kind}</td><td>{event.onset}</td><td>{event.detected}</td>"
        f"<td>{'' if event.end is None else event.end}</td><td>{event.z:.1f}</td>"
        f"<td>{html.escape(', '.join(event.signals))}</td>"
        f"<td>{html.escape(event.note)}</td></tr>"
        for event in events
        if event.page
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>"
        "<style>body{font:15px sans-serif;margin:2em;max-width:1240px}"
        "td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}</style>"
        f"<h1>{html.escape(title)}</h1>{_svg(loss, events)}"
        "<table><tr><th>event<th>onset<th>paged<th>back<th>score<th>signals<th>note</tr>"
        f"{rows}</table></html>"
    )


def _svg(loss: Series, events: Sequence[Event], *, width: int = 1200, height: int = 360) -> str:
    finite = np.isfinite(loss.values)
    steps, values = loss.steps[finite], loss.values[finite]
    if not len(steps):
        return "<p>no finite loss</p>"
    low, high = _range(values)
    first, span = int(steps[0]), max(int(steps[-1]) - int(steps[0]), 1)

    def place(step: int, value: float) -> str:
        clipped = min(max(value, low), high)
        x = (step - first) / span * width
        return f"{x:.1f},{height - (clipped - low) / max(high - low, 1e-12) * (height - 20):.1f}"

    points = " ".join(place(step, value) for step, value in _thinned(steps, values, width))
    marks = "".join(
        f'<line x1="{(event.onset - first) / span * width:.1f}" y1="0" '
        f'x2="{(event.onset - first) / span * width:.1f}" y2="{height}" '
        f'stroke="{COLOURS.get(event.kind, OTHER)}" stroke-dasharray="4 3">'
        f"<title>{event.kind} at step {event.onset}</title></line>"
        for event in events
        if event.page
    )
    return (
        f'<svg viewBox="0 0 {width} {height + 20}" role="img" aria-label="loss over steps">'
        f'{marks}<polyline points="{points}" fill="none" stroke="{LINE}" stroke-width="1"/>'
        f'<text x="0" y="{height + 16}" font-size="12">{first}</text>'
        f'<text x="{width / 2}" y="{height + 16}" font-size="12" text-anchor="middle">step</text>'
        f'<text x="{width}" y="{height + 16}" font-size="12" text-anchor="end">'
        f"{first + span}</text>"
        f'<text x="4" y="14" font-size="12">{high:.4g}</text>'
        f'<text x="4" y="{height - 4}" font-size="12">{low:.4g}</text></svg>'
    )


def _thinned(
    steps: NDArray[np.int64], values: NDArray[np.float64], columns: int
) -> list[tuple[int, float]]:
    if len(steps) <= 2 * columns:
        return list(zip(steps.tolist(), values.tolist(), strict=True))
    points: list[tuple[int, float]] = []
    for part in np.array_split(np.arange(len(steps)), columns):
        ends = sorted({int(part[values[part].argmin()]), int(part[values[part].argmax()])})
        points += [(int(steps[index]), float(values[index])) for index in ends]
    return points
