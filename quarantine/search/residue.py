"""Templates that nothing filled, and the Latin that printers fill pages with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from .findings import Opinion, Span

LINE = 0.2
LATIN_LINE = 0.6
LEAST_FOUND = 5
MOST_SPANS = 8
_PLACEHOLDER = re.compile(
    r"\{\{[^{}\n]{1,80}\}\}|\{%[^%\n]{1,80}%\}|(?:<|&lt;)%[^%\n]{1,80}%(?:>|&gt;)"
    r"|%\([A-Za-z_]\w{0,40}\)s"
    r"|\[(?:INSERT|ENTER|ADD|YOUR|NAME|DATE|TITLE|COMPANY|CUSTOMER|CLIENT|ADDRESS)\b[^\]\n]{0,60}\]"
)
_LATIN = re.compile(
    r"\b(?:lorem|ipsum|dolor|sit|amet|consectetur|adipiscing|elit|sed|do|eiusmod|tempor|incididunt"
    r"|ut|labore|et|dolore|magna|aliqua|enim|ad|minim|veniam|quis|nostrud|exercitation|ullamco"
    r"|laboris|nisi|aliquip|ex|ea|commodo|consequat|duis|aute|irure|in|reprehenderit|voluptate|velit"
    r"|esse|cillum|eu|fugiat|nulla|pariatur|excepteur|sint|occaecat|cupidatat|non|proident|sunt"
    r"|culpa|qui|officia|deserunt|mollit|anim|id|est|laborum)\b[\s.,;]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TemplateResidue:
    """Finds texts of which a fifth are placeholders, or three fifths the words of Lorem ipsum.

    Placeholders are those of Jinja, ERB and Python, and notes to a writer in square brackets.
    `%s` and `${name}` are none, since message catalogues and shell scripts live by them.
    """

    name: ClassVar[str] = "template-residue"
    version: ClassVar[int] = 1
    family: ClassVar[str] = "markup"

    def examine(self, text: str, source: str) -> Opinion | None:
        """Return an opinion that decides, or None below both lines."""
        found = _judged(text, _PLACEHOLDER, LINE, "unfilled placeholders")
        if found is None and "ipsum" in text.casefold():
            found = _judged(text, _LATIN, LATIN_LINE, "the words of Lorem ipsum")
        return found


def _judged(text: str, pattern: re.Pattern[str], line: float, what: str) -> Opinion | None:
    spans: list[Span] = []
    found = covered = 0
    for match in pattern.finditer(text):
        found += 1
        covered += match.end() - match.start()
        if len(spans) < MOST_SPANS:
            spans.append(match.span())
    share = covered / max(len(text), 1)
    if found < LEAST_FOUND or share < line:
        return None
    return Opinion(
        score=share / (share + line),
        reason=f"{share:.0%} of the characters are {what} (line {line:.0%})",
        spans=tuple(spans),
        values={"value": share, "line": line},
        decides=True,
    )
