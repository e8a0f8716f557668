"""A whole drill at a small scale: what it does, that it repeats, that the control stays quiet."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from helpers_drill import (
    SMALL,
    Hiding,
    Quiet,
    as_printed,
    killed_at_each_phase,
    own_corpus,
)
from jsonschema import Draft202012Validator

from shardward.cli.main import cli
from shardward.loader.manifest import Manifest
from shardward.quarantine.drill.play import PHASES, play
from shardward.quarantine.drill.result import comparable
from shardward.schemas import load_schema


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    return own_corpus(tmp_path_factory.mktemp("own") / "corpus")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drill") / "out"


@pytest.fixture(scope="module")
def played(home: Path, pattern: str) -> tuple[dict[str, Any], Quiet]:
    """Play a salted drill whose truth is out of reach until the scoring."""
    narrator = Hiding(home / "truth.json")
    return play(narrator, out=home, seed=0, corpus=pattern, scale=SMALL), narrator


@pytest.fixture(scope="module")
def result(played: tuple[dict[str, Any], Quiet]) -> dict[str, Any]:
    return played[0]


@pytest.fixture(scope="module")
def incident(result: dict[str, Any]) -> dict[str, Any]:
    (only,) = result["incidents"]
    return only  # type: ignore[no-any-return]


def test_the_result_fits_its_schema(result: dict[str, Any]) -> None:
    Draft202012Validator(load_schema("drill.v1")).validate(as_printed(result))


def test_every_phase_is_played_in_order(played: tuple[dict[str, Any], Quiet]) -> None:
    assert played[1].phases == list(PHASES["data"])


def test_the_drill_passes_without_having_seen_the_truth(result: dict[str, Any]) -> None:
    assert result["passed"]


def test_the_onset_is_the_first_step_of_the_bad_block(
    result: dict[str, Any], incident: dict[str, Any]
) -> None:
    placement = result["placement"]

    assert 0.5 <= placement["first_step"] / result["steps"] <= 0.6
    assert placement["first_step"] <= incident["event"]["onset"] <= placement["first_step"] + 2


def test_gradient_norm_and_sources_agree_with_the_loss(incident: dict[str, Any]) -> None:
    agreeing = {i["signal"] for i in incident["checklist"]["items"] if i["agrees"]}

    assert incident["checklist"]["verdict"] == "confirmed"
    assert {"loss", "grad_norm"} <= agreeing


def test_the_rewind_goes_before_the_onset_and_the_latest_checkpoint_is_refused(
    incident: dict[str, Any],
) -> None:
    assert incident["rewind"]["step"] < incident["event"]["onset"]
    assert "head" in incident["refusal"]


def test_the_replay_brings_the_spike_back_bit_for_bit(incident: dict[str, Any]) -> None:
    assert incident["replay"]["recurred"]
    assert incident["replay"]["bitwise"]


def test_each_family_is_found(result: dict[str, Any]) -> None:
    for family in result["score"]["families"]:
        assert family["recall"] >= 0.95, family
        assert family["precision"] >= 0.95, family
    assert all(one["reason"] for one in result["score"]["unsalted"])


def test_the_resumed_run_is_proved_and_stays_quiet(incident: dict[str, Any]) -> None:
    assert incident["proof"]["holds"]
    assert incident["watch"]["verdict"] == "clear"
    assert incident["resumed_page"] is None


def test_the_likeliest_cause_is_the_data(incident: dict[str, Any]) -> None:
    assert incident["causes"][0]["name"] == "bad_data"


def test_the_filed_report_fits_its_schema_and_needs_no_network(result: dict[str, Any]) -> None:
    report = json.loads(Path(result["paths"]["incident_json"]).read_bytes())
    page = Path(result["paths"]["incident_html"]).read_text(encoding="utf-8")

    Draft202012Validator(load_schema("incident.v1")).validate(report)
    assert report["state"] == "filed"
    assert not [mark for mark in ('src="http', 'href="http', "@import", "url(http") if mark in page]


def test_rows_in_are_rows_out_and_removed_and_the_rebuilt_corpus_is_another(
    result: dict[str, Any],
) -> None:
    rebuilt = result["rebuild"]
    files = sorted(Path(result["paths"]["rebuilt"]).rglob("*.parquet"))

    assert rebuilt["rows_in"] == rebuilt["rows_out"] + rebuilt["removed"]
    assert sum(pq.read_metadata(file).num_rows for file in files) == rebuilt["rows_out"]
    assert rebuilt["fingerprint"] != result["manifest"]


def test_scattered_members_lie_in_shards_that_the_window_never_touched(
    home: Path, incident: dict[str, Any]
) -> None:
    manifest = Manifest.load(home / "manifest")
    truth = json.loads((home / "truth.json").read_bytes())["families"]
    table = manifest.documents(list(range(manifest.documents_count)), columns=("id",))
    place = {name: doc for doc, name in enumerate(table["id"].to_pylist())}
    touched = set(incident["window"]["shards"])

    for members in truth.values():
        inside = [m for m in members if manifest.locate(place[m]).shard_uri in touched]
        assert len(inside) in (3, SMALL.bulk)


KILLS = {
    "corpus": 0,
    "index": 1,
    "train": 37,
    "confirm": 4,
    "identify": 1,
    "rewind": 1,
    "replay": 2,
    "find": 2,
    "quarantine": 5,
    "resume": 27,
    "watch": 1,
    "file": 1,
    "rebuild": 3,
}
"""Things that each phase says before it is killed."""


def test_a_drill_that_is_killed_in_each_phase_ends_as_if_nobody_had_stopped_it(
    result: dict[str, Any], pattern: str, tmp_path: Path
) -> None:
    assert list(KILLS) == list(PHASES["data"])
    again = killed_at_each_phase(tmp_path / "out", pattern, "data", KILLS)

    assert again["digests"] == result["digests"]
    assert again["corpus"] == result["corpus"]
    assert comparable(again) == comparable(as_printed(result))


def test_every_command_of_the_response_is_kept_to_be_repeated(
    result: dict[str, Any], home: Path
) -> None:
    state = json.loads((home / "drill.json").read_bytes())
    ran = [each["command"] for done in state["done"].values() for each in done["commands"]]
    kept = Path(result["paths"]["commands"]).read_text(encoding="utf-8").splitlines()
    acts = ("open", "confirm", "identify", "rewind", "trial", "skip", "resume", "watch", "file")

    assert sorted(line for line in kept if not line.startswith("#")) == sorted(ran)
    assert all(any(f"shardward incident {act} " in line for line in ran) for act in acts)


def test_what_to_type_next_works_as_typed(result: dict[str, Any]) -> None:
    for line in result["next"][:-1]:  # the last one is another drill
        words = shlex.split(line)
        assert words[0] == "shardward"
        assert CliRunner().invoke(cli, words[1:]).exit_code == 0, line


def test_the_control_pages_nobody(pattern: str, tmp_path: Path) -> None:
    clean = play(Quiet(), out=tmp_path / "clean", seed=0, corpus=pattern, cause="none", scale=SMALL)

    Draft202012Validator(load_schema("drill.v1")).validate(as_printed(clean))
    assert clean["incidents"] == []
    assert clean["passed"]
