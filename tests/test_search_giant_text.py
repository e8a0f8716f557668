"""Text detectors get a head of a giant text, cut at a character, and their findings say so."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_search import chunk

from shardward.quarantine.search import columns, detectors
from shardward.quarantine.search.detectors import panel_findings
from shardward.quarantine.search.findings import Opinion
from shardward.quarantine.search.opinions import Panel


class Reading:
    """Says how much it was given."""

    name, version, family = "reading", 1, "size"

    def examine(self, text: str, source: str) -> Opinion:
        return Opinion(score=0.1, reason=text, spans=((0, len(text)),))


def test_only_the_head_of_a_long_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detectors, "MOST_READ", 6)
    rows = chunk("aaaa\U0001f600bb", "short", "sixsix")
    found, failed = panel_findings(rows, np.arange(3), [""] * 3, Panel(detectors=(Reading(),)))

    assert [f.reason.split(" (of the text's first")[0] for f in found] == [
        "aaaa",
        "short",
        "sixsix",
    ]
    assert ["which alone were read" in f.reason for f in found] == [True, False, False]
    assert not failed


def test_characters_are_counted_as_the_text_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "PART_BYTES", 3)
    rows = columns.chunk_of([b"", "na\u00efve \U0001f600".encode(), b"\xff\xe2\x82", b"a\xf0\x9f"])

    assert [rows.characters(row) for row in range(4)] == [len(rows.text(row)) for row in range(4)]
