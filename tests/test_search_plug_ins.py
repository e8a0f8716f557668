"""Detectors of others that do what they must not."""

from __future__ import annotations

import json
import random
import sys
import threading
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers_search import corpus, prose
from jsonschema import Draft202012Validator

from shardward.cli.scan import scan
from shardward.quarantine.search import opinions
from shardward.quarantine.search import triage as triage_module
from shardward.quarantine.search.corpus_scan import scan_corpus
from shardward.quarantine.search.findings import Opinion
from shardward.quarantine.search.opinions import GROUP, Failure, Panel, merged, panel
from shardward.quarantine.search.triage import triage
from shardward.schemas import load_schema


class Says:
    """Returns what it was made with, whatever the text."""

    name, version, family = "says", 1, "style"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def examine(self, text: str, source: str) -> Any:
        print("a line that is no result")
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Shared(Says):
    """A name that is taken."""

    name = "binary"

    def __init__(self) -> None:
        super().__init__(None)


class Numbered(Shared):
    """A version that is none."""

    name, version = "numbered", "2"  # type: ignore[assignment]


class Spaced(Shared):
    """A name with a space."""

    name = "Two Words"


class Exits:
    """Ends the process when it is made."""

    def __init__(self) -> None:
        sys.exit(3)


class Good(Shared):
    """Flags everything."""

    name = "good"

    def examine(self, text: str, source: str) -> Opinion:
        return Opinion(score=0.9, reason="all of it", decides=True)


class Locked(Good):
    """Holds what no other process can have, as a loaded model does."""

    name = "locked"

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Wrong(Shared):
    """Returns a number."""

    name = "wrong"

    def examine(self, text: str, source: str) -> Any:
        return len(text)


@pytest.mark.parametrize(
    "answer",
    [
        7,
        "junk",
        {"score": 1.0},
        Opinion(score=1.5, reason="too much"),
        Opinion(score=float("nan"), reason="no number"),
        Opinion(score="high", reason="no number"),  # type: ignore[arg-type]
        Opinion(score=0.5, reason=""),
        Opinion(score=0.5, reason=None),  # type: ignore[arg-type]
        Opinion(score=0.5, reason="r", spans=((0, 99),)),
        Opinion(score=0.5, reason="r", spans=((2, 1),)),
        Opinion(score=0.5, reason="r", spans=((0.0, 1.0),)),  # type: ignore[arg-type]
        Opinion(score=0.5, reason="r", spans=(3,)),  # type: ignore[arg-type]
        Opinion(score=0.5, reason="r", values={"value": "x"}),  # type: ignore[dict-item]
        Opinion(score=0.5, reason="r", values={"value": float("inf")}),
        ValueError("boom"),
        SystemExit(3),
        RecursionError(),
    ],
    ids=repr,
)
def test_what_means_nothing_is_reported(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found, failures = Panel(detectors=(Says(answer),)).examine(4, "some text", "web")

    assert found == []
    assert [(failure.detector, failure.doc) for failure in failures] == [("says", 4)]
    assert capsys.readouterr().out == ""


def test_a_persons_interrupt_goes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        Panel(detectors=(Says(KeyboardInterrupt()),)).examine(0, "text", "web")


@pytest.mark.parametrize("name", ["Shared", "Numbered", "Spaced", "Exits"])
def test_what_cannot_take_part_is_named(name: str) -> None:
    found = panel([EntryPoint(name=name, value=f"test_search_plug_ins:{name}", group=GROUP)])

    assert found.detectors == panel([]).detectors
    assert f"detector {name} of test_search_plug_ins:{name} cannot be used" in found.problems[0]


def test_the_earliest_failure_of_each_detector_is_told_with_the_count_of_all() -> None:
    failures = [Failure(detector="b", doc=doc, error=f"e{doc}") for doc in (9, 2, 5)]
    found = merged([*failures, Failure(detector="a", doc=1, error="x", count=3)])

    assert [str(failure) for failure in found] == [
        "detector a failed on document 1: x; and on 2 more",
        "detector b failed on document 2: e2; and on 2 more",
    ]


def test_many_failures_are_one_line_with_any_number_of_workers(tmp_path: Path) -> None:
    texts = [prose(random.Random(i), 20) for i in range(40)]
    manifest = corpus(tmp_path, texts, shards=2, rows=8)
    broken = Panel(detectors=(Wrong(), Good()))
    report = scan_corpus(manifest, panel=broken)

    assert report.problems == [
        "detector wrong failed on document 0: "
        "UsageError('it returned int, not an Opinion or None'); and on 39 more"
    ]
    assert sum(finding.detector == "good" for finding in report.findings) == 40
    again = scan_corpus(manifest, panel=broken, workers=2)
    assert (again.problems, again.findings) == (report.problems, report.findings)


def test_a_window_tells_of_broken_detectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = corpus(tmp_path, [prose(random.Random(i), 20) for i in range(9)])
    broken = Panel(detectors=(Wrong(),), problems=("detector gone cannot be used",))
    monkeypatch.setattr(triage_module, "panel", lambda: broken)
    told: list[str] = []
    triage(manifest, [0, 1], range(2, 9), tell=told.append)

    assert told[0] == "detector gone cannot be used"
    assert told[1].endswith("and on 8 more")
    with pytest.warns(RuntimeWarning, match="detector"):
        triage(manifest, [0, 1], range(2, 9))


def test_the_json_of_a_scan_stands_alone_and_names_the_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = corpus(tmp_path, ["one text", "another text"]).path
    points = [
        EntryPoint(name=name, value=f"test_search_plug_ins:{name}", group=GROUP)
        for name in ("Wrong", "Good", "Exits")
    ]
    monkeypatch.setattr(opinions, "entry_points", lambda group: points)
    result = CliRunner().invoke(scan, ["--manifest", str(place), "--thorough", "--json"])
    payload = json.loads(result.stdout)
    Draft202012Validator(load_schema("scan.v1")).validate(payload)

    assert result.exit_code == 0
    assert len(payload["problems"]) == 2
    assert payload["flagged"] == 2


def test_a_detector_that_cannot_be_sent_to_workers_stops_nothing(tmp_path: Path) -> None:
    manifest = corpus(tmp_path, [prose(random.Random(1), 50)] * 6)
    opinions = Panel(detectors=(Locked(), Good()))

    alone = scan_corpus(manifest, panel=opinions)
    spread = scan_corpus(manifest, panel=opinions, workers=2)

    assert {finding.detector for finding in alone.findings} >= {"locked", "good"}
    assert "good" in {finding.detector for finding in spread.findings}
    assert "locked" not in {finding.detector for finding in spread.findings}
    (problem,) = spread.problems
    assert problem.startswith("detector locked cannot be sent to worker processes")
