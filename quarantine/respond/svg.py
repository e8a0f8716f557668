"""Line charts as inline SVG: no script, no network, only numbers and escaped labels. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .safe_text import html_text

WIDTH, HEIGHT = 860, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 14, 30
COLOURS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207", "#475569")
MOST_POINTS = 2000

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The plotted range: steps `x0`..`x1`, values `y0`..`y1`."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, step: float) -> float:
        """Return the horizontal pixel of `step`."""
        return _LEFT + (step - self.x0) / (self.x1 - self.x0) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Return the vertical pixel of `value`."""
        share = (value - self.y0) / (self.y1 - self.y0)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)


def chart(
    title: str,
    lines: Mapping[str, Points],
    *,
    marks: Mapping[str, tuple[float, float]] | None = None,
) -> str:
    """Return one chart; `marks` are shaded step ranges by label. Values must be finite."""
    finite = {
        name: [(s, v) for s, v in points if math.isfinite(s) and math.isfinite(v)]
        for name, points in lines.items()
    }
    every = [point for points in finite.values() for point in points]
    if not every:
        return f"<p>No data for {html_text(title)}.</p>"
    frame = _frame(every)
    body = [_shade(frame, label, span) for label, span in (marks or {}).items()]
    body += _axes(frame)
    for index, (name, points) in enumerate(finite.items()):
        body.append(_line(frame, thin(points), COLOURS[index % len(COLOURS)], index, name))
    return (
        f'<figure><figcaption>{html_text(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{html_text(title)}">' + "".join(body) + "</svg></figure>"
    )


def thin(points: Points, most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Return at most about `most` points, keeping the lowest and highest of every bucket."""
    if len(points) <= most:
        return list(points)
    size = math.ceil(len(points) / (most / 2))
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), size):
        bucket = points[start : start + size]
        ends = {min(bucket, key=lambda p: p[1]), max(bucket, key=lambda p: p[1])}
        kept += sorted(ends)
    return kept


def ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    """Return four to seven or so round values within [`low`, `high`], at least `least` apart.

    They are multiples of 1, 2 or 5 times a power of ten.
    """
    rough = (high - low) / 5
    if not 1e-300 < rough < 1e300:
        return [low, high]  # at the ends of what a float holds there is no room for round ones
    power = 10.0 ** math.floor(math.log10(rough))
    gap = max(min((1, 2, 5, 10), key=lambda factor: abs(factor * power - rough)) * power, least)
    return [gap * n for n in range(math.ceil(low / gap), math.floor(high / gap) + 1)]


def _frame(points: Points) -> Frame:
    steps = [s for s, _ in points]
    values = [v for _, v in points]
    x0, x1, y0, y1 = min(steps), max(steps), min(values), max(values)
    pad = (y1 - y0) * 0.05 or max(abs(y1) * 0.05, 0.5)
    return Frame(x0=x0, x1=x1 if x1 > x0 else x0 + 1, y0=y0 - pad, y1=y1 + pad)


def _line(frame: Frame, points: Points, colour: str, index: int, name: str) -> str:
    path = " ".join(f"{frame.x(s):.1f},{frame.y(v):.1f}" for s, v in points)
    label_x = _LEFT + 10 + index * 150
    dash = ' stroke-dasharray="5 3"' if index % 2 else ""  # a replay lies on the original
    return (
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.4"{dash} points="{path}"/>'
        f'<text x="{label_x}" y="{_TOP + 2}" fill="{colour}">{html_text(name, 24)}</text>'
    )


def _shade(frame: Frame, label: str, span: tuple[float, float]) -> str:
    low = min(max(span[0], frame.x0), frame.x1)
    high = min(max(span[1], frame.x0), frame.x1)
    x, width = frame.x(low), max(frame.x(high) - frame.x(low), 2.0)
    return (
        f'<rect x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{HEIGHT - _TOP - _BOTTOM}" '
        f'fill="#fde68a" fill-opacity="0.6"><title>{html_text(label)}</title></rect>'
    )


def _axes(frame: Frame) -> list[str]:
    parts = []
    for value in ticks(frame.y0, frame.y1):
        y = frame.y(value)
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="#cbd5e1" stroke-width="0.6"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.6g}</text>'
        )
    for step in ticks(frame.x0, frame.x1, least=1):
        x, label = frame.x(step), f"step {step:.0f}"
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{label}</text>')
    return parts
