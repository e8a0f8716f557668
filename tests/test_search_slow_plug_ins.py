"""Detectors of others that take too long: reported, left out of the rest, and no scan waits."""

from __future__ import annotations

import itertools
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers_search import corpus, prose

from shardward.loader.manifest import Manifest
from shardward.quarantine.search import triage as triage_module
from shardward.quarantine.search.corpus_scan import examine_documents, scan_corpus
from shardward.quarantine.search.findings import Opinion
from shardward.quarantine.search.foreign import Overdue, bounded
from shardward.quarantine.search.opinions import Panel
from shardward.quarantine.search.triage import triage

SHORT = 0.2
TEXTS = [prose(random.Random(i), 20) for i in range(40)]
TEXTS[7] = TEXTS[20] = "SLOW"


def computes() -> None:
    for _ in itertools.count():
        pass


def matches() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


def sleeps() -> None:
    time.sleep(60)


def insists() -> None:
    try:
        time.sleep(60)
    except BaseException as error:  # as hasty code of others does
        raise ValueError("it was disturbed") from error


def goes_on() -> None:
    with suppress(BaseException):
        time.sleep(60)
    time.sleep(60)


def hears_nothing() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(2 * SHORT)


class Slow:
    """Flags everything, and never has done with a text that begins with SLOW."""

    name, version, family = "slow", 1, "style"

    def examine(self, text: str, source: str) -> Opinion:
        if text.startswith("SLOW"):
            matches()
        return Opinion(score=0.9, reason="all of it", decides=True)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return corpus(tmp_path, TEXTS, shards=2, rows=8)


@pytest.fixture
def alarm() -> Iterator[list[int]]:
    """Give SIGALRM a use of the program's own; hold how often it rang."""
    rung: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    yield rung
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.parametrize("call", [computes, matches, sleeps, insists, goes_on, hears_nothing])
def test_a_call_ends_at_its_limit_whatever_it_is_at(call: Callable[[], Any]) -> None:
    with pytest.raises(Overdue):
        bounded(call, SHORT)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert bounded(lambda: 7, SHORT) == 7


def test_a_programs_own_alarm_is_left_alone(alarm: list[int]) -> None:
    with pytest.raises(Overdue):
        bounded(sleeps, SHORT)
    assert bounded(lambda: 7, 60) == 7
    signal.raise_signal(signal.SIGALRM)
    assert alarm == [signal.SIGALRM]


def test_a_call_in_another_thread_is_bounded_too() -> None:
    seen: list[BaseException | None] = []

    def work() -> None:
        try:
            bounded(sleeps, SHORT)
        except Overdue as error:
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(seen) == 1


def test_what_a_bounded_call_raises_is_raised(alarm: list[int]) -> None:
    with pytest.raises(TimeoutError, match="its own"):
        bounded(lambda: (_ for _ in ()).throw(TimeoutError("its own")), 60)


def test_a_slow_detector_is_left_out_of_the_rest_and_the_report_says_so(
    manifest: Manifest,
) -> None:
    opinions = Panel(detectors=(Slow(),), patience=SHORT)
    for _ in range(2):  # a second scan asks it again
        report = scan_corpus(manifest, panel=opinions)

        assert [f.doc for f in report.findings if f.detector == "slow"] == [*range(7)]
        assert report.problems == [
            "detector slow took over 0.2 s on document 7; it was left out of the rest, 32 documents"
        ]
    assert (
        examine_documents(manifest, [7, 8], panel=opinions)
        .problems[0]
        .endswith("rest, 1 documents")
    )


def test_workers_tell_of_a_slow_detector_once_for_all(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardward.quarantine.search.corpus_scan.TASK_DOCUMENTS", 20)
    report = scan_corpus(manifest, panel=Panel(detectors=(Slow(),), patience=SHORT), workers=2)
    (problem,) = report.problems
    left_out = int(problem.split()[-2])
    asked = sum(finding.detector == "slow" for finding in report.findings)
    slow = 2 if "and on 1 more" in problem else 1

    assert problem.startswith("detector slow took over 0.2 s on document 7")
    assert asked + slow + left_out == 40


def test_a_window_is_not_judged_by_a_detector_that_never_saw_the_controls(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    opinions = Panel(detectors=(Slow(),), patience=SHORT)
    monkeypatch.setattr(triage_module, "panel", lambda: opinions)
    told: list[str] = []

    assert triage(manifest, range(5, 8), range(20, 40), tell=told.append) == []
    assert [line.split(";")[0] for line in told] == ["detector slow took over 0.2 s on document 7"]
