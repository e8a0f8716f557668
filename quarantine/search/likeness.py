"""Junk likeness: documents whose features lie near those of known culprits.

The kept features (see `vectors.py`) are scaled by their spread in a background sample of the
corpus. Up to ten medoids of the culprits stand for them. The threshold needs no labels: it stays
well below the distance of every background document whose own verdict is no, and within the
culprits' own spread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MEDOIDS = 10
INSIDE = 0.85
REACH = 1.5
CAP = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Medoids float32[M, D] of the culprits `docs`, the scaling, and the reach."""

    docs: tuple[int, ...]
    medoids: NDArray[np.float32]
    centre: NDArray[np.float32]
    spread: NDArray[np.float32]
    threshold: float

    def distances(self, vectors: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the distance of each of uint8[N, D] to each medoid, float32[N, M]."""
        scaled = _scaled(vectors, self.centre, self.spread)
        return np.stack([_distance(scaled, medoid) for medoid in self.medoids], axis=1)


def learn(
    culprits: NDArray[np.uint8],
    docs: tuple[int, ...],
    background: NDArray[np.uint8],
    clean: NDArray[np.bool_],
) -> Likeness:
    """Return the likeness to `culprits` against `background`, `clean` where its verdict is no."""
    centre = background.mean(axis=0, dtype=np.float64).astype(np.float32)
    spread = np.maximum(background.std(axis=0, dtype=np.float64), 1.0).astype(np.float32)
    points = _scaled(culprits, centre, spread)
    chosen = _medoids(points)
    medoids = points[chosen]
    return Likeness(
        docs=tuple(docs[i] for i in chosen),
        medoids=medoids,
        centre=centre,
        spread=spread,
        threshold=_threshold(points, medoids, _scaled(background[clean], centre, spread)),
    )


def _threshold(
    points: NDArray[np.float32], medoids: NDArray[np.float32], others: NDArray[np.float32]
) -> float:
    nearest = [float(np.sort(_distance(points, point))[1:2].sum()) for point in points]
    reach = REACH * max(nearest, default=0.0)
    if not len(others):
        return reach
    near = np.min([_distance(others, medoid) for medoid in medoids], axis=0)
    return min(reach, INSIDE * float(near.min()))


def _medoids(points: NDArray[np.float32]) -> list[int]:
    """Return at most MEDOIDS rows, farthest first, starting at the most central one."""
    distances = np.stack([_distance(points, point) for point in points])
    chosen = [int(distances.sum(axis=1).argmin())]
    while len(chosen) < min(MEDOIDS, len(points)):
        chosen.append(int(distances[chosen].min(axis=0).argmax()))
    return chosen


def _scaled(
    vectors: NDArray[np.uint8], centre: NDArray[np.float32], spread: NDArray[np.float32]
) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = np.clip((vectors - centre) / spread, -CAP, CAP)
    return scaled.astype(np.float32)


def _distance(points: NDArray[np.float32], point: NDArray[np.float32]) -> NDArray[np.float32]:
    squares: NDArray[np.float32] = ((points - point) ** 2).mean(axis=1)
    return np.sqrt(squares)
