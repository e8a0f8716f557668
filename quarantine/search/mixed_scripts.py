"""Words that mix Latin with Cyrillic or Greek letters, as spam does to hide from filters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from .findings import Opinion, Span

LINE = 0.1
LEAST_FOUND = 5
MOST_SPANS = 8
_WORD = re.compile("[A-Za-z\u0370-\u03ff\u0400-\u04ff]{4,}")
_LATIN = re.compile("[A-Za-z]")
_OTHER = re.compile("[\u0370-\u04ff]")


@dataclass(frozen=True, slots=True)
class MixedScripts:
    """Finds texts of which a tenth of the words of four letters or more are of two scripts.

    Shorter ones are left out, since formulas have them.
    """

    name: ClassVar[str] = "mixed-scripts"
    version: ClassVar[int] = 1
    family: ClassVar[str] = "mojibake"

    def examine(self, text: str, source: str) -> Opinion | None:
        """Return an opinion that decides, or None below the line."""
        if _OTHER.search(text) is None:
            return None
        spans: list[Span] = []
        words = mixed = 0
        for match in _WORD.finditer(text):
            words += 1
            if _LATIN.search(match[0]) and _OTHER.search(match[0]):
                mixed += 1
                if len(spans) < MOST_SPANS:
                    spans.append(match.span())
        share = mixed / max(words, 1)
        if mixed < LEAST_FOUND or share < LINE:
            return None
        return Opinion(
            score=share / (share + LINE),
            reason=f"{share:.0%} of the words have letters of two scripts (line {LINE:.0%})",
            spans=tuple(spans),
            values={"value": share, "line": LINE},
            decides=True,
        )
