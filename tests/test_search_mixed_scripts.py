"""Words of two scripts are told from words of two languages, and from formulas."""

from __future__ import annotations

import random

import pytest
from helpers_search import prose

from shardward.quarantine.search.mixed_scripts import MixedScripts
from shardward.quarantine.search.opinions import panel

RNG = random.Random(10)
HIDDEN = prose(RNG, 60).translate(str.maketrans("ao", "\u0430\u043e"))
CLEAN = {
    "ascii": prose(RNG, 60),
    "two languages": "Подключите USB-кабель и откройте Firefox или Chrome на сервере Linux. " * 9,
    "formulas": "The shift \u0394x of \u03b1n and \u03c0r is small where \u03c3x is. " * 9,
    "four words": prose(RNG, 30) + " b\u0430nk p\u0430yp\u0430l l\u043egin p\u0430ss",
    "nothing": "",
}


def test_letters_that_look_the_same_are_found() -> None:
    opinion = MixedScripts().examine(HIDDEN, "")

    assert "mixed-scripts" in {detector.name for detector in panel(()).detectors}
    assert opinion is not None
    assert opinion.decides
    assert opinion.score >= 0.5
    assert any("\u0430" in HIDDEN[start:end] for start, end in opinion.spans)


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_words_of_one_script_each_are_left_alone(name: str) -> None:
    assert MixedScripts().examine(CLEAN[name], "") is None
