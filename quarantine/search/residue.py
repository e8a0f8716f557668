"""What a step that was left out leaves in a text: markup, marks of tokens, and filling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from .findings import Opinion, Span

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
# A search that fails must not begin again within what it read: long runs would cost their square.
_RTF = re.compile(r"\\(?!u\d|x\d)[a-z]{1,32}-?\d{1,16} ?")
_PIECE = re.compile(r"(?<!\S)(?:(?:[\u0120\u2581]|##(?=\w))\S+|\S{1,64}@@(?!\S))")
_ESCAPED_TWICE = re.compile(r"(?<!\\)\\{2,16}[nrt\"']")


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What is looked for, its line, a sign without which it cannot be there, and its name."""

    pattern: re.Pattern[str]
    line: float
    sign: str
    what: str


_PATTERNS = (
    _Pattern(_PLACEHOLDER, 0.2, "", "unfilled placeholders"),
    _Pattern(_LATIN, 0.6, "ipsum", "the words of Lorem ipsum"),
    _Pattern(_RTF, 0.2, "{\\", "control words of RTF"),
    _Pattern(_PIECE, 0.3, "", "pieces of words with the marks of a tokenizer"),
    _Pattern(_ESCAPED_TWICE, 0.03, "\\\\", "line ends and quotes escaped twice"),
)


@dataclass(frozen=True, slots=True)
class TemplateResidue:
    """Finds texts with much that a template, a converter or a tokenizer should have replaced.

    Placeholders are those of Jinja, ERB and Python, and notes to a writer in square brackets.
    `%s` and `${name}` are none, since message catalogues and shell scripts live by them. A control
    word of RTF ends with a number, as none of TeX or roff does; tokens are marked as by byte-level
    BPE, SentencePiece, WordPiece and subword-nmt.
    """

    name: ClassVar[str] = "template-residue"
    version: ClassVar[int] = 2
    family: ClassVar[str] = "markup"

    def examine(self, text: str, source: str) -> Opinion | None:
        """Return an opinion that decides, or None below all lines."""
        folded = text.casefold()
        judged = (_judged(text, known) for known in _PATTERNS if known.sign in folded)
        return next((found for found in judged if found is not None), None)


def _judged(text: str, known: _Pattern) -> Opinion | None:
    spans: list[Span] = []
    found = covered = 0
    for match in known.pattern.finditer(text):
        found += 1
        covered += match.end() - match.start()
        if len(spans) < MOST_SPANS:
            spans.append(match.span())
    share = covered / max(len(text), 1)
    if found < LEAST_FOUND or share < known.line:
        return None
    return Opinion(
        score=share / (share + known.line),
        reason=f"{share:.0%} of the characters are {known.what} (line {known.line:.0%})",
        spans=tuple(spans),
        values={"value": share, "line": known.line},
        decides=True,
    )
