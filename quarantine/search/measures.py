"""What the rules measure, and the gates that say where a measure means something."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .feature_names import CLASSES, Feature
from .features import Features

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]
LOWER_DIGIT, DIGIT_LOWER = 0 * CLASSES + 2, 2 * CLASSES + 0
"""Places in the matrix of byte classes."""


def column(feature: Feature) -> Callable[[Features], Column]:
    """Return a measure that is one feature."""
    return lambda features: features.column(feature).astype(np.float64)


def at_least(feature: Feature, least: float) -> Callable[[Features], Mask]:
    """Return a gate for documents with at least `least` of a feature."""
    return lambda features: features.column(feature) >= least


def control_share(features: Features) -> Column:
    """Return the share of control characters."""
    return (features.column(Feature.CONTROL) + features.column(Feature.C1)).astype(np.float64)


def spaced(features: Features) -> Mask:
    """Return where words are told by white space, in texts of 200 characters."""
    return (features.column(Feature.UNSPACED) < 0.2) & (features.column(Feature.CHARACTERS) >= 200)


def periodic(features: Features) -> Column:
    """Return the share of words in a run of four repeats or more."""
    often = features.column(Feature.WORD_PERIOD_TIMES) >= 4
    return np.where(often, features.column(Feature.WORD_PERIOD_SHARE), 0.0).astype(np.float64)


def worded(least: float) -> Callable[[Features], Mask]:
    """Return a gate for texts of at least `least` words, or as many characters without spaces."""

    def gate(features: Features) -> Mask:
        unspaced = features.column(Feature.UNSPACED) * features.column(Feature.CHARACTERS)
        return (features.column(Feature.WORDS) >= least) | (unspaced >= 2 * least)

    return gate


def three_controls(features: Features) -> Mask:
    """Return where there are three control characters or more."""
    characters = features.column(Feature.CHARACTERS)
    return (characters >= 32) & (control_share(features) * characters >= 2.5)


def three_lost(features: Features) -> Mask:
    """Return where there are three lost letters or more."""
    characters = features.column(Feature.CHARACTERS)
    return (characters >= 200) & (features.column(Feature.QUESTION) * characters >= 2.5)


def lettered(features: Features) -> Mask:
    """Return where two fifths are ASCII letters, in texts of 200 characters."""
    letters = features.column(Feature.LOWER) + features.column(Feature.UPPER)
    return (letters >= 0.4) & (features.column(Feature.CHARACTERS) >= 200)


def crowded(features: Features) -> Column:
    """Return what is no white space, where three tenths lie in long words."""
    long = features.column(Feature.LONG_WORD_SHARE) >= 0.3
    return np.where(long, 1.0 - features.column(Feature.SPACE), 0.0).astype(np.float64)


def digits_in_words(features: Features) -> Column:
    """Return the share of places on either side of a digit between small ASCII letters.

    As many of one side as of the other count, since `e4` and `3rd` have but one. What words mixed
    like base64 have of them is left out: a quarter of such words' characters.
    """
    into, out = features.transitions[:, LOWER_DIGIT], features.transitions[:, DIGIT_LOWER]
    encoded = 0.25 * features.column(Feature.ENCODED)
    value: Column = np.maximum(2.0 * np.minimum(into, out) - encoded, 0.0).astype(np.float64)
    return value


def enough_spaced(features: Features) -> Mask:
    """Return where words are told by white space, in texts of 500 characters."""
    return (features.column(Feature.UNSPACED) < 0.1) & (features.column(Feature.CHARACTERS) >= 500)


def millions(features: Features) -> Column:
    """Return the length in millions of characters."""
    return features.column(Feature.CHARACTERS).astype(np.float64) / 1e6


def breaks_gopher(features: Features) -> Column:
    """Return 1 where a rule of Gopher is broken."""
    return (features.column(Feature.GOPHER) > 0).astype(np.float64)
