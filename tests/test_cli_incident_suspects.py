"""Suspects in one act, previews of what comes back, and exits with the evidence for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers_incident import Desk

from shardward.cli.main import cli
from shardward.loader.manifest import Manifest
from shardward.quarantine.respond.incident import IncidentStore


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    return Desk(tmp_path, manifest)


def quarantine(desk: Desk, *words: str) -> Result:
    return CliRunner().invoke(cli, ["quarantine", *words, "--run", str(desk.run.path)])


def asked(desk: Desk, *words: str) -> Any:
    result = quarantine(desk, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def suspected(desk: Desk, *docs: int) -> None:
    """Let the window be identified with these suspects."""
    incident = IncidentStore(desk.run.path).get("INC-0001")
    rows = [{"doc": doc, "verdict": True, "reasons": [f"junk {doc}"]} for doc in docs]
    rows.append({"doc": 99, "verdict": False, "reasons": ["a copy, acquitted"]})
    incident.attach("suspects", {"suspects": rows}, actor="kim")


ALL = ("add", "--suspects", "--incident", "INC-0001", "--reason", "junk in the window")


def test_all_suspects_are_quarantined_in_one_act_once_their_number_is_confirmed(desk: Desk) -> None:
    desk.go("confirm")
    suspected(desk, 5, 3)

    assert asked(desk, *ALL)["documents"] == 2
    refused = quarantine(desk, *ALL, "--yes")
    done = asked(desk, *ALL, "--expect", "2", "--yes")

    assert "INC-0001 has 2 suspects and nothing was confirmed" in refused.stderr
    assert done["decision"]["scope"]["documents"] == [3, 5]
    assert done["decision"]["evidence"] == {"documents": {"3": "junk 3", "5": "junk 5"}}
    assert asked(desk, "list")["total"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "--suspects", "--reason", "x"), "name it with --incident"),
        (ALL, "run incident identify first"),
        ((*ALL, "--doc", "3"), "2 things are named"),
        (("add", "--suspects", "--incident", "INC-0009", "--reason", "x"), "known: INC-0001"),
    ],
)
def test_suspects_that_nobody_can_mean_are_refused(
    desk: Desk, words: tuple[str, ...], said: str
) -> None:
    desk.go("confirm")

    result = quarantine(desk, *words, "--expect", "1", "--yes")

    assert result.exit_code != 0
    assert said in result.stderr


def test_a_window_without_suspects_is_said_with_the_ways_on(desk: Desk) -> None:
    desk.go("confirm")
    suspected(desk)

    assert "no document of INC-0001 crossed the line" in quarantine(desk, *ALL, "--yes").stderr


def test_what_similar_printed_can_be_quarantined_by_its_number(desk: Desk, tmp_path: Path) -> None:
    found = CliRunner().invoke(
        cli, ["similar", "--manifest", str(desk.manifest.path), "--docs", "7", "--json"]
    )
    hits = json.loads(found.stdout)["hits"]
    (tmp_path / "hits.json").write_text(found.stdout)
    words = ("bulk", "--findings", str(tmp_path / "hits.json"), "--reason", "relatives")

    done = asked(desk, *words, "--expect", str(len({hit["doc"] for hit in hits})), "--yes")

    assert done["decision"]["scope"]["documents"] == sorted({hit["doc"] for hit in hits})


def test_an_undo_shows_what_comes_back_before_it_is_done(desk: Desk) -> None:
    asked(desk, "add", "--doc", "3", "--doc", "5", "--reason", "junk", "--yes")
    asked(desk, "add", "--doc", "5", "--reason", "junk too", "--yes")

    shown = asked(desk, "undo", "1", "--reason", "wrong")
    told = quarantine(desk, "undo", "1", "--reason", "wrong")

    back = shown["preview"]["back"]
    assert (back["documents"], back["named"]) == (1, [3])
    assert back["tokens"] == desk.manifest.lengths(3, 4)[0]
    assert shown["preview"]["out"]["documents"] == 0
    assert "comes back" in told.output
    assert asked(desk, "list")["total"] == 2


def test_a_release_shows_the_positions_that_come_back(desk: Desk) -> None:
    desk.go("skip")

    shown = asked(
        desk, "release", "--steps", "60-65", "--incident", "INC-0001", "--reason", "harmless"
    )

    assert len(shown["preview"]["back"]["difference"]["skips_added"]) == 1
