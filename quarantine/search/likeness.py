"""Junk likeness: documents whose features lie near those of known culprits.

Features become comparable numbers (square roots of shares, logarithms of counts), scaled by their
spread in a background sample of the corpus. Up to ten medoids of the culprits stand for them. The
threshold needs no labels: it stays below the distance of (nearly) every background document whose
own verdict is no, and within the culprits' own spread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .feature_names import Feature
from .features import Features

MEDOIDS = 10
CLEAN_SHARE = 1e-3
REACH = 1.5
CAP = 8.0
_COUNTS = (
    Feature.RUN,
    Feature.LONGEST_WORD,
    Feature.WORD_PERIOD_TIMES,
    Feature.BYTE_PERIOD_TIMES,
)
_LEFT_OUT = (
    Feature.BYTES,
    Feature.CHARACTERS,
    Feature.WORDS,
    Feature.LINES,
    Feature.TOP3,
    Feature.TOP4,
    Feature.DUPLICATE5,
    Feature.DUPLICATE6,
    Feature.DUPLICATE7,
    Feature.DUPLICATE8,
    Feature.DUPLICATE9,
    Feature.DUPLICATE10,
    Feature.GOPHER,
)
_USED = tuple(feature for feature in Feature if feature not in _LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Medoids float32[M, D] of the culprits `docs`, the scaling, and the reach."""

    docs: tuple[int, ...]
    medoids: NDArray[np.float32]
    centre: NDArray[np.float32]
    spread: NDArray[np.float32]
    threshold: float

    def distances(self, features: Features) -> NDArray[np.float32]:
        """Return the distance of each document to each medoid, float32[N, M]."""
        scaled = _scaled(vectors(features), self.centre, self.spread)
        return np.stack([_distance(scaled, medoid) for medoid in self.medoids], axis=1)


def vectors(features: Features) -> NDArray[np.float32]:
    """Return float32[N, D]: transformed features and square roots of the transitions."""
    columns = [
        np.log1p(features.column(f)) if f in _COUNTS else np.sqrt(features.column(f)) for f in _USED
    ]
    return np.concatenate(
        [np.stack(columns, axis=1), np.sqrt(features.transitions)], axis=1, dtype=np.float32
    )


def learn(
    culprits: Features, docs: tuple[int, ...], background: Features, clean: NDArray[np.bool_]
) -> Likeness:
    """Return the likeness to `culprits` against `background`, `clean` where its verdict is no."""
    sample = vectors(background)
    centre, spread = sample.mean(axis=0), sample.std(axis=0)
    spread[spread < 1e-3] = 1e-3
    points = _scaled(vectors(culprits), centre, spread)
    chosen = _medoids(points)
    medoids = points[chosen]
    others = _scaled(sample[clean], centre, spread)
    return Likeness(
        docs=tuple(docs[i] for i in chosen),
        medoids=medoids,
        centre=centre,
        spread=spread,
        threshold=_threshold(points, medoids, others),
    )


def _threshold(
    points: NDArray[np.float32], medoids: NDArray[np.float32], others: NDArray[np.float32]
) -> float:
    reach = REACH * max(
        (float(np.sort(_distance(points, point))[1:2].sum()) for point in points), default=0.0
    )
    if not len(others):
        return reach
    near = np.min([_distance(others, medoid) for medoid in medoids], axis=0)
    return min(reach, 0.9 * float(np.quantile(near, CLEAN_SHARE)))


def _medoids(points: NDArray[np.float32]) -> list[int]:
    """Return at most MEDOIDS rows, farthest first, starting at the most central one."""
    distances = np.stack([_distance(points, point) for point in points])
    chosen = [int(distances.sum(axis=1).argmin())]
    while len(chosen) < min(MEDOIDS, len(points)):
        chosen.append(int(distances[chosen].min(axis=0).argmax()))
    return chosen


def _scaled(
    points: NDArray[np.float32], centre: NDArray[np.float32], spread: NDArray[np.float32]
) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = np.clip((points - centre) / spread, -CAP, CAP)
    return scaled.astype(np.float32)


def _distance(points: NDArray[np.float32], point: NDArray[np.float32]) -> NDArray[np.float32]:
    squares: NDArray[np.float32] = ((points - point) ** 2).mean(axis=1)
    return np.sqrt(squares)
