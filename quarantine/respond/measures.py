"""How a window of steps compares with control windows from before it. Pure."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, pstdev

MEASURES = (
    "documents",
    "tokens_per_document",
    "top_shard_share",
    "source_distance",
    "odd_characters",
    "compressed_size",
)
# A control spread below this share of the control mean is noise, not a yardstick.
SMALLEST_SPREAD = 0.05
UNUSUAL = 4.0
TEXT_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One document's part of a window: tokens delivered, and what a glance at its text gives."""

    doc: int
    shard: str
    source: str
    tokens: int
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One measure of the window beside the controls; `unusual` is None without two controls."""

    name: str
    value: float
    controls: tuple[float, ...]
    distance: float | None
    unusual: bool | None


def shares(pieces: Sequence[Piece], key: str) -> dict[str, float]:
    """Return the share of tokens per shard or source."""
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts[getattr(piece, key)] += piece.tokens
    total = sum(counts.values()) or 1
    return {name: tokens / total for name, tokens in counts.most_common()}


def measure(pieces: Sequence[Piece], usual_sources: Mapping[str, float]) -> dict[str, float]:
    """Return the measures of one window; text measures only where texts are given."""
    documents = len({piece.doc for piece in pieces})
    result = {
        "documents": float(documents),
        "tokens_per_document": sum(p.tokens for p in pieces) / max(documents, 1),
        "top_shard_share": max(shares(pieces, "shard").values(), default=0.0),
        "source_distance": _distance(shares(pieces, "source"), usual_sources),
    }
    texts = [piece for piece in pieces if piece.text]
    if texts:
        weight = sum(p.tokens for p in texts) or 1
        result["odd_characters"] = sum(_odd(p.text or "") * p.tokens for p in texts) / weight
        result["compressed_size"] = (
            sum(_compressed(p.text or "") * p.tokens for p in texts) / weight
        )
    return result


def compare(
    window: Mapping[str, float], controls: Sequence[Mapping[str, float]]
) -> list[Comparison]:
    """Return each measure of `window` beside the same measure of every control.

    The distance is in standard deviations of the controls, floored at 5 % of their mean;
    4 or more is unusual.
    """
    return [
        _compare(name, window[name], tuple(c[name] for c in controls if name in c))
        for name in MEASURES
        if name in window
    ]


def _compare(name: str, value: float, controls: tuple[float, ...]) -> Comparison:
    if len(controls) < 2:
        return Comparison(name=name, value=value, controls=controls, distance=None, unusual=None)
    middle = mean(controls)
    spread = max(pstdev(controls), SMALLEST_SPREAD * abs(middle), 1e-3)
    distance = (value - middle) / spread
    return Comparison(
        name=name,
        value=value,
        controls=controls,
        distance=distance,
        unusual=abs(distance) >= UNUSUAL,
    )


def _distance(mix: Mapping[str, float], usual: Mapping[str, float]) -> float:
    """Return the total variation distance of two mixes, 0 to 1."""
    if not usual:
        return 0.0
    return sum(abs(mix.get(n, 0.0) - usual.get(n, 0.0)) for n in {*mix, *usual}) / 2


def _odd(text: str) -> float:
    """Return the share of characters that are neither ASCII nor letters nor ordinary space."""
    odd = sum(
        1 for c in text if not (c.isalpha() or (" " <= c <= "~") or c in "\t\n\r") or c == "\ufffd"
    )
    return odd / len(text)


def _compressed(text: str) -> float:
    """Return compressed over raw size; repetition is near 0, noise near 1."""
    data = text.encode("utf-8", "surrogatepass")[:TEXT_BYTES]
    return len(zlib.compress(data, 1)) / len(data)
