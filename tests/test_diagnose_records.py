"""Events beyond those that are kept are counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers_diagnose import curve

from shardward.cli.main import cli
from shardward.quarantine.diagnose import records
from shardward.quarantine.diagnose.records import Records


def test_pages_are_kept_longest_and_what_goes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_RECORDS", 4)
    kept = Records()
    for step in range(1, 10):
        kept.keep(kept.plain("spike", step, note="", page=step % 2 == 1))

    assert [event.number for event in kept.events] == [3, 5, 7, 9]
    assert kept.forgotten == {"spike": 4, "page": 1}

    again = Records()
    again.load_state_dict(json.loads(json.dumps(kept.state_dict())))
    assert again.forgotten == kept.forgotten


def test_an_event_that_was_forgotten_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_RECORDS", 2)
    kept = Records()
    pages = [kept.plain("spike", 1, note="", page=True)]
    for step in (2, 3, 4):
        kept.keep(pages[-1])
        pages.append(kept.plain("spike", step, note="", page=True))
    kept.keep(pages[0].changed(end=5))

    assert [event.number for event in kept.events] == [2, 3]
    assert kept.next_number == 4


def test_a_log_of_more_events_than_are_kept_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_RECORDS", 3)
    loss = curve(1500)
    loss[np.arange(600, 1500, 100)] += 1
    path = tmp_path / "log.csv"
    rows = [f"{step},{value:.5f}" for step, value in enumerate(loss.tolist(), start=1)]
    path.write_text("step,loss\n" + "\n".join(rows) + "\n", encoding="utf-8")
    result = CliRunner().invoke(cli, ["monitor", "check", str(path), "--json", "--blips"])
    answer = json.loads(result.stdout)

    assert (answer["blips"], len(answer["events"])) == (9, 3)
    assert answer["notes"] == ["older events are only counted: 6 of kind blip"]
    assert "only counted" in result.stderr
