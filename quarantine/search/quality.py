"""Gopher's quality rules (Rae et al. 2021, section A.1.1) in the reading that datatrove gives them.

They are meant for English web text, so they annotate and never decide.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from .findings import Opinion

STOP_WORDS = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
SYMBOLS = frozenset(string.punctuation)
LEAST_WORDS, MOST_WORDS = 50, 100_000
LEAST_MEAN, MOST_MEAN = 3, 10
MOST_SYMBOLS = 0.1
MOST_BULLETS = 0.9
MOST_ELLIPSIS_LINES = 0.3
LEAST_ALPHABETIC = 0.8
LEAST_STOP_WORDS = 2


@dataclass(frozen=True, slots=True)
class GopherQuality:
    """Annotates documents that break a quality rule; the score grows with the rules broken."""

    name: ClassVar[str] = "gopher-quality"
    version: ClassVar[int] = 1
    family: ClassVar[str] = "quality"

    def examine(self, text: str, source: str) -> Opinion | None:
        """Return an annotation that names every rule broken."""
        broken = quality_rules_broken(text, text.split())
        if not broken:
            return None
        return Opinion(
            score=len(broken) / (len(broken) + 1),
            reason=f"breaks Gopher's quality rules on {', '.join(broken)}",
            values={"rules": float(len(broken))},
        )


def quality_rules_broken(text: str, words: Sequence[str]) -> list[str]:
    """Return the names of the rules that `text`, split into `words`, breaks."""
    if not words:
        return ["too few words"]
    real = [word for word in words if any(char not in SYMBOLS for char in word)]
    mean = sum(map(len, real)) / len(real) if real else 0.0
    lines = text.splitlines()
    checks = {
        "too few words": len(real) < LEAST_WORDS,
        "too many words": len(real) > MOST_WORDS,
        "short words": mean < LEAST_MEAN,
        "long words": mean > MOST_MEAN,
        "hash signs": text.count("#") / len(words) > MOST_SYMBOLS,
        "ellipses": (text.count("...") + text.count("…")) / len(words) > MOST_SYMBOLS,
        "bullet lines": _share(line.lstrip().startswith(("•", "-")) for line in lines)
        > MOST_BULLETS,
        "lines ending in an ellipsis": _share(
            line.rstrip().endswith(("...", "…")) for line in lines
        )
        > MOST_ELLIPSIS_LINES,
        "few alphabetic words": _share(any(map(str.isalpha, word)) for word in words)
        < LEAST_ALPHABETIC,
        "few stop words": len(STOP_WORDS.intersection(words)) < LEAST_STOP_WORDS,
    }
    return [name for name, bad in checks.items() if bad]


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values) if values else 0.0
