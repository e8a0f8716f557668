"""The built-in detectors that read features: what each measures, its line and its gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import measures
from . import spans as where
from .feature_names import GOPHER_RULES, Feature
from .features import Features
from .findings import Span
from .measures import Column, Mask


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
            rest=1.0 - value,
            gopher=GOPHER_RULES[int(features.values[row, Feature.GOPHER])],
        )


_LONG_TEXT = measures.at_least(Feature.WORDS, 50)
_SOME_TEXT = measures.at_least(Feature.CHARACTERS, 200)

BUILT_IN: tuple[Rule, ...] = (
    Rule(
        name="binary",
        family="binary",
        measure=measures.control_share,
        line=0.001,
        reason="{value:.2%} of the characters are control characters (line {line:.1%})",
        spans=where.control_spans,
        gate=measures.three_controls,
        ceiling=None,
        version=2,
    ),
    Rule(
        name="replacement-characters",
        family="mojibake",
        measure=measures.column(Feature.REPLACEMENT),
        line=0.01,
        reason="{value:.1%} of the characters are U+FFFD, lost in a decoding (line {line:.1%})",
        spans=where.control_spans,
        gate=measures.at_least(Feature.CHARACTERS, 32),
        ceiling=None,
    ),
    Rule(
        name="character-run",
        family="repetition",
        measure=measures.column(Feature.RUN_SHARE),
        line=0.3,
        reason="{value:.0%} of the text is runs of one character (line {line:.0%})",
        spans=where.run_spans,
        gate=_SOME_TEXT,
        ceiling=0.8,
    ),
    Rule(
        name="byte-period",
        family="repetition",
        measure=measures.column(Feature.BYTE_PERIOD_SHARE),
        line=0.3,
        reason="{value:.0%} of the bytes are one unit of 1 to 13 bytes repeated (line {line:.0%})",
        spans=where.whole,
        gate=_SOME_TEXT,
        ceiling=0.8,
    ),
    Rule(
        name="word-period",
        family="repetition",
        measure=measures.periodic,
        line=0.3,
        reason="{value:.0%} of the words are one unit of 1 to 64 words repeated (line {line:.0%})",
        spans=where.repeated_word_spans,
        gate=measures.worded(20),
        ceiling=0.8,
        version=3,
    ),
    Rule(
        name="duplicate-lines",
        family="repetition",
        measure=measures.column(Feature.LINE_DUPLICATE_CHARACTERS),
        line=0.65,
        reason="{value:.0%} of the characters lie in repeated lines (line {line:.0%})",
        spans=where.repeated_line_spans,
        gate=_SOME_TEXT,
        ceiling=0.9,
        version=2,
    ),
    Rule(
        name="duplicate-paragraphs",
        family="repetition",
        measure=measures.column(Feature.PARAGRAPH_DUPLICATE_CHARACTERS),
        line=0.5,
        reason="{value:.0%} of the characters lie in repeated paragraphs (line {line:.0%})",
        spans=where.repeated_line_spans,
        gate=_SOME_TEXT,
        ceiling=0.9,
    ),
    Rule(
        name="repeated-5-grams",
        family="repetition",
        measure=measures.column(Feature.REPEATED5),
        line=0.65,
        reason="{value:.0%} of the characters lie in repeated word 5-grams (line {line:.0%})",
        spans=where.repeated_word_spans,
        gate=measures.worded(50),
        ceiling=0.9,
        version=2,
    ),
    Rule(
        name="top-2-gram",
        family="repetition",
        measure=measures.column(Feature.TOP2),
        line=0.6,
        reason="one pair of words makes up {value:.0%} of the characters (line {line:.0%})",
        spans=where.repeated_word_spans,
        gate=_LONG_TEXT,
        ceiling=0.9,
    ),
    Rule(
        name="long-words",
        family="encoded",
        measure=measures.column(Feature.LONG_WORD_SHARE),
        line=0.6,
        reason="{value:.0%} of the characters lie in words over 40 characters (line {line:.0%})",
        spans=where.long_word_spans,
        gate=measures.spaced,
        ceiling=0.75,
        version=2,
    ),
    Rule(
        name="encoded-words",
        family="encoded",
        measure=measures.column(Feature.ENCODED),
        line=0.55,
        reason="{value:.0%} of the characters lie in words mixed like base64 (line {line:.0%})",
        spans=where.long_word_spans,
        gate=_SOME_TEXT,
        ceiling=0.6,
        version=4,
    ),
    Rule(
        name="number-table",
        family="numbers",
        measure=measures.column(Feature.TABLE),
        line=0.58,
        reason="table lines, less twice the prose, make up {value:.0%} of the bytes: a pattern "
        "seen before, numbers in it, few letters or words seen before (line {line:.0%})",
        spans=where.digit_spans,
        gate=measures.at_least(Feature.CHARACTERS, 500),
        ceiling=1.0,
        version=5,
    ),
    Rule(
        name="digits",
        family="numbers",
        measure=measures.column(Feature.DIGIT),
        line=0.38,
        reason="{value:.0%} of the characters are digits (line {line:.0%})",
        spans=where.digit_spans,
        gate=_SOME_TEXT,
        ceiling=1.0,
        version=2,
    ),
    Rule(
        name="punctuation",
        family="markup",
        measure=measures.column(Feature.PUNCTUATION),
        line=0.45,
        reason="{value:.0%} of the characters are punctuation (line {line:.0%})",
        spans=where.whole,
        gate=_SOME_TEXT,
        ceiling=1.0,
    ),
    Rule(
        name="markup",
        family="markup",
        measure=measures.column(Feature.MARKUP),
        line=0.1,
        reason="{value:.1%} of the characters are angle brackets (line {line:.1%})",
        spans=where.markup_spans,
        gate=_SOME_TEXT,
        ceiling=1.0,
        version=2,
    ),
    Rule(
        name="mojibake",
        family="mojibake",
        measure=measures.column(Feature.MOJIBAKE),
        line=0.005,
        reason="{value:.1%} of the characters are pairs left by a wrong decoding (line {line:.1%})",
        spans=where.mojibake_spans,
        gate=measures.misread,
        ceiling=None,
        version=3,
    ),
    Rule(
        name="latin1-letters",
        family="mojibake",
        measure=measures.column(Feature.LATIN1),
        line=0.35,
        reason="{value:.0%} of the characters are U+00A0 to U+00FF, as no language has "
        "(line {line:.0%})",
        spans=where.latin1_spans,
        gate=measures.at_least(Feature.CHARACTERS, 100),
        ceiling=None,
    ),
    Rule(
        name="unlikely-characters",
        family="mojibake",
        measure=measures.column(Feature.UNLIKELY),
        line=0.03,
        reason="{value:.1%} of the characters are for private use, as UTF-16 misread leaves "
        "behind, rare, or beside others that no language puts there (line {line:.1%})",
        spans=where.unlikely_spans,
        gate=_SOME_TEXT,
        ceiling=None,
        version=2,
    ),
    Rule(
        name="lost-letters",
        family="mojibake",
        measure=measures.column(Feature.QUESTION),
        line=0.005,
        reason="{value:.1%} of the characters are question marks in place of letters "
        "(line {line:.1%})",
        spans=where.lost_letter_spans,
        gate=measures.three_lost,
        ceiling=None,
    ),
    Rule(
        name="invisible-characters",
        family="mojibake",
        measure=measures.column(Feature.INVISIBLE),
        line=0.35,
        reason="{value:.0%} of the characters are invisible, or marks piled on letters "
        "(line {line:.0%})",
        spans=where.whole,
        gate=measures.at_least(Feature.CHARACTERS, 50),
        ceiling=None,
    ),
    Rule(
        name="stutter",
        family="repetition",
        measure=measures.column(Feature.STUTTER),
        line=0.48,
        reason="{value:.0%} of the words are the word before or the one before that "
        "(line {line:.0%})",
        spans=where.whole,
        gate=measures.wordy,
        ceiling=0.7,
        version=2,
    ),
    Rule(
        name="rare-letter-pairs",
        family="encoded",
        measure=measures.column(Feature.RARE_PAIRS),
        line=0.22,
        reason="{value:.0%} of the pairs of letters are ones that no language has often "
        "(line {line:.0%})",
        spans=where.whole,
        gate=measures.lettered,
        ceiling=0.28,
    ),
    Rule(
        name="digits-in-words",
        family="encoded",
        measure=measures.digits_in_words,
        line=0.1,
        reason="{value:.0%} of the places lie between a letter and a digit, as a poor scan leaves "
        "or a code has (line {line:.0%})",
        spans=where.whole,
        gate=measures.at_least(Feature.CHARACTERS, 500),
        ceiling=0.25,
        version=2,
    ),
    Rule(
        name="no-spaces",
        family="encoded",
        measure=measures.crowded,
        line=0.94,
        reason="only {rest:.1%} of the characters are white space, and words are long",
        spans=where.long_word_spans,
        gate=measures.enough_spaced,
        ceiling=0.98,
        version=2,
    ),
    Rule(
        name="spaced-letters",
        family="encoded",
        measure=measures.lone_letters,
        line=0.6,
        reason="there are {value:.0%} as many words as letters: letters stand alone "
        "(line {line:.0%})",
        spans=where.lone_letter_spans,
        gate=measures.spelled,
        ceiling=None,
    ),
    Rule(
        name="giant",
        family="size",
        measure=measures.millions,
        line=1.0,
        reason="it has {value:.1f} million characters (line {line:.0f})",
        spans=where.whole,
        decides=False,
    ),
    Rule(
        name="gopher-repetition",
        family="repetition",
        measure=measures.breaks_gopher,
        line=1.0,
        reason="breaks Gopher's limit on {gopher}",
        spans=where.repeated_word_spans,
        gate=_LONG_TEXT,
        decides=False,
        ceiling=None,
    ),
)
