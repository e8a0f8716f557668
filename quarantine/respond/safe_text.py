"""Making hostile text visible: no document may act on a terminal, page or reader. Pure."""

from __future__ import annotations

import html
import re
import unicodedata

# Controls, formats (bidi and zero-width among them), surrogates, private, unassigned, separators.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_MARKS = frozenset(("Mn", "Me"))
_MOST_MARKS = 3
_MARKDOWN = re.compile(r"([\\`*_{}\[\]#!|<>&~$^])")
_LINE_START = re.compile(r"\A\s*(?:([-+=])|(\d+)([.)])(?=\s|\Z))")
_AUTOLINK = re.compile(r"(?i)(:)(?=//)|(?<=www)(\.)")
_MENTION = re.compile(r"@(?=\w)")
_AT = "\uff20"  # looks like @ and notifies nobody


def visible(text: str, limit: int = 400) -> str:
    """Return `text` on one line with every invisible or directing character spelled out.

    Line ends become ⏎, spaces of any width a space. A fourth combining mark in a row is spelled
    out too, so that stacked marks cannot paint over their surroundings. At most `limit`
    characters of `text` are shown.
    """
    parts: list[str] = []
    marks = 0
    for char in text[:limit]:
        category = unicodedata.category(char)
        marks = marks + 1 if category in _MARKS else 0
        if char in "\n\r":
            parts.append("⏎")
        elif char == "\t" or category == "Zs":
            parts.append(" ")
        elif category in _HIDDEN or marks > _MOST_MARKS:
            parts.append(f"⟨U+{ord(char):04X}⟩")
        else:
            parts.append(char)
    return "".join(parts) + ("…" if len(text) > limit else "")


def html_text(text: object, limit: int = 400) -> str:
    """Return `text` safe inside an HTML element or a quoted attribute."""
    return html.escape(visible(str(text), limit), quote=True)


def markdown_text(text: object, limit: int = 400) -> str:
    """Return `text` safe in a Markdown paragraph or cell: no markup, link, HTML or mention."""
    escaped = _MARKDOWN.sub(r"\\\1", visible(str(text), limit))
    escaped = _AUTOLINK.sub(r"\\\1\2", escaped)
    escaped = _LINE_START.sub(r"\2\\\1\3", escaped)
    return _MENTION.sub(_AT, escaped)


def markdown_block(text: str, limit: int = 2000) -> str:
    """Return `text` as a fenced block whose fence is longer than any run of backticks in it."""
    shown = visible(text, limit)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"
