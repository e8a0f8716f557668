"""Text of one old code page read as another page of the same script.

Every character of such a text is one that the script has, so only what stands beside what tells it.
Cyrillic letters of a wrong page make pairs that no language has, or stand beside signs that the
wrong page has for capitals. Of ideographs, GB 2312 orders the frequent ones by their sound: a third
of any Chinese text lies in its last rows, and what was Korean in EUC-KR lies in none of them.
Chinese read as EUC-KR mixes Hangul with ideographs, which are Chinese again when read back.
"""

# ruff: noqa: RUF001

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from .cyrillic_pairs import COMMON_CYRILLIC_PAIRS
from .findings import Opinion

SEARCHED = 50_000
"""Characters of a text that are looked at."""
LEAST_PAIRS = 100
PAIRS_LINE = 0.25
LEAST_SIGNS, SIGNS_LINE = 5, 0.01
LEAST_IDEOGRAPHS = 50
LATE_ROW, SECOND_LEVEL = 0xC9, 0xD8
"""The rows of GB 2312 from which Korean is absent, and from which ideographs are rare."""
EARLY_LINE = 0.95
LEAST_HANGUL, MIXED_LINE, FREQUENT_LINE = 30, 0.2, 0.02
FREQUENT = frozenset(
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过"
)
"""Ideographs of which a quarter of any Chinese text consists."""
_CYRILLIC = re.compile("[\u0400-\u04ff]{2,}")
_SIGN_IN_WORD = re.compile("[а-яё][€√≈∆ƒ¬÷]|[€√≈∆ƒ¬÷](?=[а-яё])")
_IDEOGRAPH = re.compile("[\u4e00-\u9fff]+")
_HANGUL = re.compile("[\uac00-\ud7a3]+")
_KANA = re.compile("[\u3040-\u30ff]")


@dataclass(frozen=True, slots=True)
class OldCodePage:
    """Finds Cyrillic, Korean and Chinese of an old code page that was read as another such page."""

    name: ClassVar[str] = "old-code-page"
    version: ClassVar[int] = 1
    family: ClassVar[str] = "mojibake"

    def examine(self, text: str, source: str) -> Opinion | None:
        """Return an opinion that decides, or None where nothing crosses its line."""
        part = text[:SEARCHED]
        for judge in (_cyrillic, _korean, _chinese):
            found = judge(part)
            if found is not None:
                value, line, reason = found
                return Opinion(
                    score=value / (value + line),
                    reason=f"{value:.0%} of {reason} (line {line:.0%})",
                    spans=((0, len(text)),),
                    values={"value": value, "line": line},
                    decides=True,
                )
        return None


def _cyrillic(text: str) -> tuple[float, float, str] | None:
    pairs = rare = 0
    for word in _CYRILLIC.findall(text.lower()):
        for first, second in pairwise(word):
            if first in COMMON_CYRILLIC_PAIRS and second in COMMON_CYRILLIC_PAIRS:
                pairs += 1
                rare += second not in COMMON_CYRILLIC_PAIRS[first]
    if pairs < LEAST_PAIRS:
        return None
    if rare >= PAIRS_LINE * pairs:
        return rare / pairs, PAIRS_LINE, "the pairs of Cyrillic letters are of no language"
    signs = len(_SIGN_IN_WORD.findall(text))
    if signs >= max(LEAST_SIGNS, SIGNS_LINE * pairs):
        return signs / pairs, SIGNS_LINE, "the Cyrillic letters stand beside a sign within a word"
    return None


def _korean(text: str) -> tuple[float, float, str] | None:
    ideographs = "".join(_IDEOGRAPH.findall(text))
    if len(ideographs) < LEAST_IDEOGRAPHS or len(_KANA.findall(text)) > 0.05 * len(ideographs):
        return None
    rows = ideographs.encode("gb2312", "ignore")[::2]
    level = sum(row < SECOND_LEVEL for row in rows)
    early = sum(row < LATE_ROW for row in rows)
    if level < LEAST_IDEOGRAPHS or early < EARLY_LINE * level:
        return None
    return early / level, EARLY_LINE, "the ideographs are where Korean in EUC-KR lies in GB 2312"


def _chinese(text: str) -> tuple[float, float, str] | None:
    hangul = sum(map(len, _HANGUL.findall(text)))
    ideographs = sum(map(len, _IDEOGRAPH.findall(text)))
    if hangul < LEAST_HANGUL or ideographs < MIXED_LINE * (hangul + ideographs):
        return None
    back = text.encode("euc_kr", "ignore").decode("gb2312", "ignore")
    again = "".join(_IDEOGRAPH.findall(back))
    if sum(character in FREQUENT for character in again) < FREQUENT_LINE * len(again):
        return None
    share = ideographs / (hangul + ideographs)
    return share, MIXED_LINE, "the Korean characters are ideographs, Chinese when read as GB 2312"
