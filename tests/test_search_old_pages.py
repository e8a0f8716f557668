"""Texts of an old code page read as another page of the same script."""

# ruff: noqa: E501, RUF001 (wide characters)

from __future__ import annotations

import pytest

from shardward.quarantine.search.old_pages import OldCodePage
from shardward.quarantine.search.opinions import panel

RUSSIAN = (
    "Все люди рождаются свободными и равными в своём достоинстве и правах. Они наделены разумом "
    "и совестью и должны поступать в отношении друг друга в духе братства. Каждый человек имеет "
    "право на жизнь, на свободу и на личную неприкосновенность. Никто не должен содержаться в "
    "рабстве; рабство запрещается во всех его видах. Ямская площадь, Яна Райниса, Елена и Жанна."
)
SERBIAN = (
    "Сва људска бића рађају се слободна и једнака у достојанству и правима. Она су обдарена "
    "разумом и свешћу и треба једни према другима да поступају у духу братства. Свако има право "
    "на живот, слободу и безбедност личности. Нико се не сме држати у ропству или потчињености."
)
KOREAN = (
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 "
    "양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다. 모든 사람은 인종, 피부색, 성, 언어에 "
    "따른 어떠한 종류의 차별도 없이 이 선언에 규정된 모든 권리와 자유를 향유할 자격이 있다."
)
CHINESE = (
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"
    "人人有资格享有本宣言所载的一切权利和自由，不分种族、肤色、性别、语言、宗教、政治或其他见解，"
    "国籍或社会出身、财产、出生或其他身份等任何区别。人人有权享有生命、自由和人身安全。"
)
JAPANESE = (
    "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、"
    "理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。"
) * 2
MIXED = (
    "大韓民國은 民主共和國이다. 大韓民國의 主權은 國民에게 있고, 모든 權力은 國民으로부터 나온다. "
)
MISREAD = [
    (RUSSIAN, "koi8-r", "cp1251"),
    (RUSSIAN, "cp1251", "koi8-r"),
    (RUSSIAN, "iso8859-5", "cp1251"),
    (RUSSIAN, "cp1251", "mac_cyrillic"),
    (SERBIAN, "iso8859-5", "cp1251"),
    (KOREAN, "euc_kr", "gbk"),
    (CHINESE, "gbk", "euc_kr"),
]


@pytest.mark.parametrize(("text", "written", "read"), MISREAD)
def test_an_old_page_read_as_another_of_the_same_script_is_told(
    text: str, written: str, read: str
) -> None:
    misread = text.encode(written, "ignore").decode(read, "replace")
    opinion = OldCodePage().examine(misread, "")

    assert opinion is not None
    assert opinion.decides
    assert opinion.score >= 0.5
    assert opinion.spans == ((0, len(misread)),)


@pytest.mark.parametrize("text", [RUSSIAN, SERBIAN, KOREAN, CHINESE, JAPANESE, MIXED * 4, "", "a"])
def test_a_text_that_was_read_right_is_left_alone(text: str) -> None:
    assert OldCodePage().examine(text, "") is None
    assert OldCodePage().examine(text.upper(), "") is None


def test_prices_beside_words_are_no_capitals_of_a_wrong_page() -> None:
    assert OldCodePage().examine(RUSSIAN + " 5 €, €7, 3÷4, ≈ 9, цена €8. " * 9, "") is None


def test_it_takes_part_wherever_texts_are_read() -> None:
    assert "old-code-page" in {detector.name for detector in panel(()).detectors}
