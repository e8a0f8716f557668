"""The features that an index keeps: one byte each, fine where it matters.

A share is kept as its square root, a count as its logarithm, so that one byte tells 0.1 % from
0.2 % as well as 40 % from 41 %. Searches use these bytes whether they come from an index or from
the text, so both give the same hits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .feature_names import CLASSES, Feature
from .features import Features

_COUNTS = (
    Feature.WORD_PERIOD_TIMES,
    Feature.BYTE_PERIOD_TIMES,
)
_LEFT_OUT = (
    Feature.BYTES,
    Feature.CHARACTERS,
    Feature.WORDS,
    Feature.LINES,
    Feature.RUN,
    Feature.LONGEST_WORD,
    Feature.PARAGRAPH_DUPLICATES,
    Feature.LINE_DUPLICATES,
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
KEPT = tuple(feature for feature in Feature if feature not in _LEFT_OUT)
WIDTH = len(KEPT) + CLASSES * CLASSES
_ENTROPY_BITS = 8.0
Array = NDArray[np.floating]
_LOG_TOP = float(np.log1p(2.0**32))


def quantise(features: Features) -> NDArray[np.uint8]:
    """Return uint8[N, WIDTH]: the kept features, then the transitions."""
    columns = [_unit(feature, features.column(feature)) for feature in KEPT]
    unit = np.concatenate([np.stack(columns, axis=1), np.sqrt(features.transitions)], axis=1)
    rounded: NDArray[np.float32] = np.rint(np.clip(unit, 0.0, 1.0) * np.float32(255.0))
    return rounded.astype(np.uint8)


def restore(vectors: NDArray[np.uint8]) -> Features:
    """Return the features of uint8[N, WIDTH]; those not kept are 0."""
    unit = vectors.astype(np.float32) / np.float32(255.0)
    values = np.zeros((len(vectors), len(Feature)), dtype=np.float32)
    for place, feature in enumerate(KEPT):
        values[:, feature] = _value(feature, unit[:, place])
    return Features(values=values, transitions=unit[:, len(KEPT) :] ** 2)


def _unit(feature: Feature, value: Array) -> Array:
    if feature in _COUNTS:
        return np.asarray(np.log1p(value) / np.float32(_LOG_TOP))
    if feature == Feature.ENTROPY:
        return np.asarray(value / np.float32(_ENTROPY_BITS))
    return np.sqrt(value)


def _value(feature: Feature, unit: Array) -> Array:
    if feature in _COUNTS:
        return np.asarray(np.expm1(unit * np.float32(_LOG_TOP)))
    if feature == Feature.ENTROPY:
        return np.asarray(unit * np.float32(_ENTROPY_BITS))
    return np.asarray(unit**2)
