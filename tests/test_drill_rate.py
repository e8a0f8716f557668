"""The drill whose cause is not the data: it ends in the exit for that, and leaves nothing out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers_drill import SMALL, Quiet, killed_at_each_phase, own_corpus
from jsonschema import Draft202012Validator

from shardward.loader.run import Run
from shardward.quarantine.drill.play import PHASES, play
from shardward.quarantine.drill.score import blamed_rightly
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.schemas import load_schema


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    return own_corpus(tmp_path_factory.mktemp("own") / "corpus")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drill") / "out"


KILLS = {"replay": 1, "weigh": 1, "leave": 1, "resume": 14, "watch": 2, "file": 2}
"""Things that the phases after those of every drill say before they are killed."""


@pytest.fixture(scope="module")
def result(home: Path, pattern: str) -> dict[str, Any]:
    """Play the drill, killed in each phase of its own: it ends as it should all the same."""
    assert set(KILLS) <= set(PHASES["learning-rate"])
    return killed_at_each_phase(home, pattern, "learning-rate", KILLS)


def test_it_passes_and_fits_the_schema(result: dict[str, Any]) -> None:
    Draft202012Validator(load_schema("drill.v1")).validate(result)
    assert result["passed"]


def test_a_finished_drill_only_says_so_and_shows_its_result(
    result: dict[str, Any], home: Path, pattern: str
) -> None:
    heard = Quiet()
    again = play(heard, out=home, corpus=pattern, cause="learning-rate", scale=SMALL)

    count = len(PHASES["learning-rate"])
    assert heard.lines == [f"finished: all {count} phases were done; this is its result"]
    assert (heard.phases, again["digests"]) == ([], result["digests"])


def test_the_rate_is_blamed_above_the_data(result: dict[str, Any]) -> None:
    scores = {cause["name"]: cause["score"] for cause in result["incidents"][0]["causes"]}

    assert max(scores, key=lambda name: scores[name]) == "learning_rate"
    assert scores.get("bad_data", 0.0) < 0.5


def test_nothing_was_quarantined_or_skipped(result: dict[str, Any], home: Path) -> None:
    (incident,) = result["incidents"]
    report = json.loads(Path(result["paths"]["incident_json"]).read_bytes())

    assert DecisionLog(home / "run").entries() == []
    assert not (home / "run" / "revisions").exists()
    assert incident["outcome"] == report["outcome"] == "not-data"
    assert report["skip"] is None


def test_the_resumed_run_has_the_planned_rate_where_it_was_raised(
    result: dict[str, Any], home: Path
) -> None:
    orders = json.loads((home / "run" / "resume.json").read_bytes())
    assert orders["learning_rate_factor"] == pytest.approx(1 / SMALL.rate_factor, rel=1e-5)
    assert result["incidents"][0]["watch"]["verdict"] == "clear"
    reasons = [piece.reason for piece in Run.open(home / "run").pieces()]
    assert reasons == ["start", "trial", "rewind", "restart"]


RIGHT = [{"name": "learning_rate", "score": 0.6}, {"name": "bad_data", "score": 0.1}]


@pytest.mark.parametrize(
    ("changed", "passed"),
    [
        ({}, True),
        ({"decisions": 1}, False),
        ({"revision": 1}, False),
        ({"outcome": "resolved"}, False),
        ({"causes": RIGHT[::-1]}, False),
        ({"causes": [RIGHT[0], {"name": "bad_data", "score": 0.5}]}, False),
    ],
)
def test_the_blame_passes_only_without_a_skip_and_with_the_right_cause(
    changed: dict[str, Any], passed: bool
) -> None:
    given = {"causes": RIGHT, "decisions": 0, "revision": 0, "outcome": "not-data", **changed}
    assert blamed_rightly(given.pop("causes"), **given)["passed"] is passed
