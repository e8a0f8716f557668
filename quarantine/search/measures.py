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
LETTERS, BLANKS = (0, 1, 7), (3, 4)
"""Byte classes of letters, and of white space."""
ABOVE_TWICE = 7 * CLASSES + 7


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


def misread(features: Features) -> Mask:
    """Return where three pairs or more are of a wrong decoding, or one per cent of the characters.

    There are 100 characters; a page that says how such text looks has a pair or two.
    """
    characters, share = features.column(Feature.CHARACTERS), features.column(Feature.MOJIBAKE)
    return (characters >= 100) & ((share * characters >= 5.5) | (share >= 0.01))


def three_lost(features: Features) -> Mask:
    """Return where there are three lost letters or more."""
    characters = features.column(Feature.CHARACTERS)
    return (characters >= 200) & (features.column(Feature.QUESTION) * characters >= 2.5)


def lettered(features: Features) -> Mask:
    """Return where two fifths are ASCII letters, in texts of 200 characters."""
    letters = features.column(Feature.LOWER) + features.column(Feature.UPPER)
    return (letters >= 0.4) & (features.column(Feature.CHARACTERS) >= 200)


def crowded(features: Features) -> Column:
    """Return what is no white space, where three tenths lie in long words, or four in encoded ones.

    Style sheets without white space have the second alone: links in them would be long words.
    """
    long = features.column(Feature.LONG_WORD_SHARE) >= 0.3
    long |= features.column(Feature.ENCODED) >= 0.4
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


def letters(features: Features) -> Column:
    """Return the share of ASCII letters and of all characters above ASCII."""
    others = [Feature.DIGIT, Feature.PUNCTUATION, Feature.SPACE, Feature.CONTROL]
    share: Column = 1.0 - features.values[:, others].sum(axis=1, dtype=np.float64)
    return np.maximum(share, 1e-9)


def lone_letters(features: Features) -> Column:
    """Return how many words there are to a letter: words that begin with one, or end, if fewer.

    It is 1 where every letter stands alone, a fifth in English, a third at most in Vietnamese.
    """
    moves = features.transitions.astype(np.float64)
    begin = sum(moves[:, CLASSES * blank + letter] for letter in LETTERS for blank in BLANKS)
    end = sum(moves[:, CLASSES * letter + blank] for letter in LETTERS for blank in BLANKS)
    value: Column = np.minimum(begin, end) / letters(features)
    return value


def spelled(features: Features) -> Mask:
    """Return where single letters would be those of a text.

    There are 200 characters, 55 % of what is seen are letters, as formulas have not, under
    two fifths of these capitals, as genetic sequences have, and they are many, as notes are not.
    Above ASCII characters are of two bytes, as letters of Latin, Greek, Cyrillic, Hebrew, Arabic.
    """
    letter = letters(features)
    above = letter - features.column(Feature.LOWER) - features.column(Feature.UPPER)
    mask: Mask = (
        (features.column(Feature.CHARACTERS) >= 200)
        & (letter >= 0.55 * (1.0 - features.column(Feature.SPACE)))
        & (features.column(Feature.UPPER) < 0.4 * letter)
        & (features.column(Feature.ENTROPY) >= 2.6)
        & (features.transitions[:, ABOVE_TWICE] - above <= 0.3 * letter)
        & (features.column(Feature.UNSPACED) < 0.1)
    )
    return mask


def wordy(features: Features) -> Mask:
    """Return where there are 20 words, and as many letters as digits."""
    return (features.column(Feature.WORDS) >= 20) & (
        letters(features) >= features.column(Feature.DIGIT)
    )


def enough_spaced(features: Features) -> Mask:
    """Return where words are told by white space, in texts of 500 characters."""
    return (features.column(Feature.UNSPACED) < 0.1) & (features.column(Feature.CHARACTERS) >= 500)


def millions(features: Features) -> Column:
    """Return the length in millions of characters."""
    return features.column(Feature.CHARACTERS).astype(np.float64) / 1e6


def breaks_gopher(features: Features) -> Column:
    """Return 1 where a rule of Gopher is broken."""
    return (features.column(Feature.GOPHER) > 0).astype(np.float64)
