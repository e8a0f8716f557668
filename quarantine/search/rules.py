"""The built-in detectors that read features: what each measures, its line and its gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import spans as where
from .feature_names import GOPHER_RULES, Feature
from .features import Features
from .findings import Span

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A detector that compares one measure with a line, where its gate is open.

    `line` maps to score 0.5 by value / (value + line). `decides` False annotates only.
    `ceiling` is how far the line may rise to what is usual for a document's source; None: it stays.
    """

    name: str
    family: str
    measure: Callable[[Features], Column]
    line: float
    reason: str
    spans: Callable[[str], tuple[Span, ...]]
    gate: Callable[[Features], Mask] | None = None
    ceiling: float | None = None
    decides: bool = True
    version: int = 1

    def values(self, features: Features) -> Column:
        """Return the measure of each document, float64[N], 0 where the gate is shut."""
        value = self.measure(features)
        if self.gate is not None:
            value[~self.gate(features)] = 0.0
        return value

    def scores(self, features: Features, line: Column | float | None = None) -> Column:
        """Return float64[N] in [0, 1); `line` overrides the rule's own."""
        value = np.maximum(self.values(features), 0.0)
        scores: Column = value / (value + (self.line if line is None else line))
        return scores

    def explain(self, features: Features, row: int) -> str:
        """Return the reason for one document."""
        value = float(self.values(features)[row])
        return self.reason.format(
            value=value,
            line=self.line,
            gopher=GOPHER_RULES[int(features.values[row, Feature.GOPHER])],
        )


def column(feature: Feature) -> Callable[[Features], Column]:
    """Return a measure that is one feature."""
    return lambda features: features.column(feature).astype(np.float64)


def _at_least(feature: Feature, least: float) -> Callable[[Features], Mask]:
    return lambda features: features.column(feature) >= least


def _binary(features: Features) -> Column:
    return (features.column(Feature.CONTROL) + features.column(Feature.C1)).astype(np.float64)


def _spaced(features: Features) -> Mask:
    return (features.column(Feature.UNSPACED) < 0.2) & (features.column(Feature.CHARACTERS) >= 200)


def _periodic(features: Features) -> Column:
    often = features.column(Feature.WORD_PERIOD_TIMES) >= 4
    return np.where(often, features.column(Feature.WORD_PERIOD_SHARE), 0.0).astype(np.float64)


def _millions(features: Features) -> Column:
    return features.column(Feature.CHARACTERS).astype(np.float64) / 1e6


def _gopher(features: Features) -> Column:
    return (features.column(Feature.GOPHER) > 0).astype(np.float64)


_LONG_TEXT = _at_least(Feature.WORDS, 50)
_SOME_TEXT = _at_least(Feature.CHARACTERS, 200)

BUILT_IN: tuple[Rule, ...] = (
    Rule(
        name="binary",
        family="binary",
        measure=_binary,
        line=0.01,
        reason="{value:.1%} of the characters are control characters (line {line:.1%})",
        spans=where.control_spans,
        gate=_at_least(Feature.CHARACTERS, 32),
        ceiling=None,
    ),
    Rule(
        name="replacement-characters",
        family="mojibake",
        measure=column(Feature.REPLACEMENT),
        line=0.01,
        reason="{value:.1%} of the characters are U+FFFD, lost in a decoding (line {line:.1%})",
        spans=where.control_spans,
        gate=_at_least(Feature.CHARACTERS, 32),
        ceiling=None,
    ),
    Rule(
        name="character-run",
        family="repetition",
        measure=column(Feature.RUN_SHARE),
        line=0.3,
        reason="{value:.0%} of the text is runs of one character (line {line:.0%})",
        spans=where.run_spans,
        gate=_SOME_TEXT,
        ceiling=0.8,
    ),
    Rule(
        name="byte-period",
        family="repetition",
        measure=column(Feature.BYTE_PERIOD_SHARE),
        line=0.3,
        reason="{value:.0%} of the bytes are one unit of 1 to 13 bytes repeated (line {line:.0%})",
        spans=where.whole,
        gate=_SOME_TEXT,
        ceiling=0.8,
    ),
    Rule(
        name="word-period",
        family="repetition",
        measure=_periodic,
        line=0.3,
        reason="{value:.0%} of the words are one unit of 1 to 64 words repeated (line {line:.0%})",
        spans=where.repeated_word_spans,
        gate=_at_least(Feature.WORDS, 20),
        ceiling=0.8,
        version=2,
    ),
    Rule(
        name="duplicate-lines",
        family="repetition",
        measure=column(Feature.LINE_DUPLICATE_CHARACTERS),
        line=0.6,
        reason="{value:.0%} of the characters lie in repeated lines (line {line:.0%})",
        spans=where.repeated_line_spans,
        gate=_SOME_TEXT,
        ceiling=0.9,
    ),
    Rule(
        name="duplicate-paragraphs",
        family="repetition",
        measure=column(Feature.PARAGRAPH_DUPLICATE_CHARACTERS),
        line=0.5,
        reason="{value:.0%} of the characters lie in repeated paragraphs (line {line:.0%})",
        spans=where.repeated_line_spans,
        gate=_SOME_TEXT,
        ceiling=0.9,
    ),
    Rule(
        name="repeated-5-grams",
        family="repetition",
        measure=column(Feature.REPEATED5),
        line=0.65,
        reason="{value:.0%} of the characters lie in repeated word 5-grams (line {line:.0%})",
        spans=where.repeated_word_spans,
        gate=_LONG_TEXT,
        ceiling=0.9,
    ),
    Rule(
        name="top-2-gram",
        family="repetition",
        measure=column(Feature.TOP2),
        line=0.6,
        reason="one pair of words makes up {value:.0%} of the characters (line {line:.0%})",
        spans=where.repeated_word_spans,
        gate=_LONG_TEXT,
        ceiling=0.9,
    ),
    Rule(
        name="long-words",
        family="encoded",
        measure=column(Feature.LONG_WORD_SHARE),
        line=0.6,
        reason="{value:.0%} of the characters lie in words over 40 characters (line {line:.0%})",
        spans=where.long_word_spans,
        gate=_spaced,
        ceiling=0.9,
        version=2,
    ),
    Rule(
        name="encoded-words",
        family="encoded",
        measure=column(Feature.ENCODED),
        line=0.5,
        reason="{value:.0%} of the characters lie in words mixed like base64 (line {line:.0%})",
        spans=where.long_word_spans,
        gate=_SOME_TEXT,
        ceiling=0.9,
        version=2,
    ),
    Rule(
        name="number-table",
        family="numbers",
        measure=column(Feature.TABLE),
        line=0.8,
        reason="{value:.0%} of the bytes are lines of numbers in one pattern (line {line:.0%})",
        spans=where.digit_spans,
        gate=_SOME_TEXT,
        ceiling=1.0,
    ),
    Rule(
        name="digits",
        family="numbers",
        measure=column(Feature.DIGIT),
        line=0.35,
        reason="{value:.0%} of the characters are digits (line {line:.0%})",
        spans=where.digit_spans,
        gate=_SOME_TEXT,
        ceiling=1.0,
    ),
    Rule(
        name="punctuation",
        family="markup",
        measure=column(Feature.PUNCTUATION),
        line=0.45,
        reason="{value:.0%} of the characters are punctuation (line {line:.0%})",
        spans=where.whole,
        gate=_SOME_TEXT,
        ceiling=1.0,
    ),
    Rule(
        name="markup",
        family="markup",
        measure=column(Feature.MARKUP),
        line=0.06,
        reason="{value:.1%} of the characters are angle brackets (line {line:.1%})",
        spans=where.markup_spans,
        gate=_SOME_TEXT,
        ceiling=1.0,
    ),
    Rule(
        name="mojibake",
        family="mojibake",
        measure=column(Feature.MOJIBAKE),
        line=0.01,
        reason="{value:.1%} of the characters are pairs left by a wrong decoding (line {line:.1%})",
        spans=where.mojibake_spans,
        gate=_at_least(Feature.CHARACTERS, 100),
        ceiling=None,
    ),
    Rule(
        name="latin1-letters",
        family="mojibake",
        measure=column(Feature.LATIN1),
        line=0.35,
        reason="{value:.0%} of the characters are U+00A0 to U+00FF, as no language has "
        "(line {line:.0%})",
        spans=where.latin1_spans,
        gate=_at_least(Feature.CHARACTERS, 100),
        ceiling=None,
    ),
    Rule(
        name="unlikely-characters",
        family="mojibake",
        measure=column(Feature.UNLIKELY),
        line=0.03,
        reason="{value:.1%} of the characters are for private use or as UTF-16 misread leaves "
        "behind (line {line:.1%})",
        spans=where.unlikely_spans,
        gate=_SOME_TEXT,
        ceiling=None,
    ),
    Rule(
        name="giant",
        family="size",
        measure=_millions,
        line=1.0,
        reason="it has {value:.1f} million characters (line {line:.0f})",
        spans=where.whole,
        decides=False,
    ),
    Rule(
        name="gopher-repetition",
        family="repetition",
        measure=_gopher,
        line=1.0,
        reason="breaks Gopher's limit on {gopher}",
        spans=where.repeated_word_spans,
        gate=_LONG_TEXT,
        decides=False,
        ceiling=None,
    ),
)
