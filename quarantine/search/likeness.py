"""Junk likeness: how near the features of documents lie to those of known culprits.

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
MOST_CULPRITS = 1024
"""Culprits that are compared with each other; of more, as many spread evenly over them are."""
MOST_POINTS = 256
"""Culprits that distances are taken to where another reason stands beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Medoids float32[M, D] of the culprits `docs`, the scaling, and the reach.

    `points` float32[P, D] are culprits, at most MOST_POINTS; `spread` scales the features;
    `apart` is the median distance from a culprit to the nearest other.
    """

    docs: tuple[int, ...]
    medoids: NDArray[np.float32]
    points: NDArray[np.float32]
    apart: float
    centre: NDArray[np.float32]
    spread: NDArray[np.float32]
    threshold: float

    def distances(self, vectors: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the distance of each of uint8[N, D] to each medoid, float32[N, M]."""
        scaled = _scaled(vectors, self.centre, self.spread)
        return np.stack([_distance(scaled, medoid) for medoid in self.medoids], axis=1)

    def nearest(self, vectors: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the distance of each of uint8[N, D] to the nearest culprit, float32[N]."""
        scaled = _scaled(vectors, self.centre, self.spread)
        least = np.full(len(scaled), np.inf, dtype=np.float32)
        for point in self.points:
            np.minimum(least, _distance(scaled, point), out=least)
        return least


def learn(
    culprits: NDArray[np.uint8],
    docs: tuple[int, ...],
    background: NDArray[np.uint8],
    clean: NDArray[np.bool_],
) -> Likeness:
    """Return the likeness to `culprits` against `background`, `clean` where its verdict is no."""
    if len(culprits) > MOST_CULPRITS:
        spread_evenly = np.linspace(0, len(culprits) - 1, MOST_CULPRITS).astype(np.int64)
        culprits, docs = culprits[spread_evenly], tuple(docs[i] for i in spread_evenly.tolist())
    centre = background.mean(axis=0, dtype=np.float64).astype(np.float32)
    spread = np.maximum(background.std(axis=0, dtype=np.float64), 1.0).astype(np.float32)
    points = _scaled(culprits, centre, spread)
    apart = np.stack([_distance(points, point) for point in points])
    chosen = _medoids(apart, MEDOIDS)
    medoids = points[chosen]
    nearest = np.sort(apart, axis=1)[:, 1] if len(points) > 1 else np.zeros(1)
    return Likeness(
        docs=tuple(docs[i] for i in chosen),
        medoids=medoids,
        points=points if len(points) <= MOST_POINTS else points[_medoids(apart, MOST_POINTS)],
        apart=float(np.median(nearest)),
        centre=centre,
        spread=spread,
        threshold=_threshold(
            float(nearest.max()), medoids, _scaled(background[clean], centre, spread)
        ),
    )


def _threshold(apart: float, medoids: NDArray[np.float32], others: NDArray[np.float32]) -> float:
    reach = REACH * apart
    if not len(others):
        return reach
    near = np.min([_distance(others, medoid) for medoid in medoids], axis=0)
    return min(reach, INSIDE * float(near.min()))


def _medoids(distances: NDArray[np.float32], most: int) -> list[int]:
    """Return at most `most` places, farthest first, starting at the most central one."""
    chosen = [int(distances.sum(axis=1).argmin())]
    least = distances[chosen[0]].copy()
    while len(chosen) < min(most, len(distances)):
        chosen.append(int(least.argmax()))
        np.minimum(least, distances[chosen[-1]], out=least)
    return chosen


def _scaled(
    vectors: NDArray[np.uint8], centre: NDArray[np.float32], spread: NDArray[np.float32]
) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = np.clip((vectors - centre) / spread, -CAP, CAP)
    return scaled.astype(np.float32)


def _distance(points: NDArray[np.float32], point: NDArray[np.float32]) -> NDArray[np.float32]:
    squares: NDArray[np.float32] = ((points - point) ** 2).mean(axis=1)
    return np.sqrt(squares)
