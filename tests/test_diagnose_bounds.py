"""What the monitor holds has bounds, and what is left out for them is said."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from helpers_diagnose import an_event, curve, spiked

from shardward.quarantine.diagnose import extras
from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.evidence import Change, Evidence, changes_from
from shardward.quarantine.diagnose.judged import judge_log
from shardward.quarantine.diagnose.monitor import Monitor
from shardward.quarantine.diagnose.rules_context import mixture


def many(step: int, count: int) -> dict[str, float]:
    return {f"update_ratio/{layer:04}": 9.0 if step > 600 else 1.0 for layer in range(count)}


def test_signals_beyond_the_most_are_left_out_and_named() -> None:
    monitor = Monitor()
    for step in (1, 2):
        monitor.update(step, loss=2.0, **many(1, 5000))
    state = json.loads(json.dumps(monitor.state_dict()))
    again = Monitor()
    again.load_state_dict(state)

    assert len(state["extras"]) == extras.MOST == 4096
    assert len(json.dumps(state)) < 800_000
    assert monitor.unwatched == again.unwatched
    assert monitor.unwatched == tuple(f"update_ratio/{layer:04}" for layer in range(4096, 4104))


def test_a_monitor_of_few_signals_leaves_none_out() -> None:
    monitor = Monitor()
    monitor.update(1, loss=2.0, **many(1, 4096))

    assert monitor.unwatched == ()


def test_a_page_lists_the_first_signals_that_moved() -> None:
    monitor = Monitor()
    for step, loss in enumerate(spiked(curve(620), 603, [1.0, 0.9, 0.8, 0.7]).tolist(), start=1):
        monitor.update(step, loss=loss, **many(step, 100))
    (page,) = monitor.pages

    assert page.onset == 601
    assert [name for name, _ in page.moved] == [*sorted(many(1, 64)), "loss"]


def test_a_log_with_too_many_columns_is_judged_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "MOST", 2)
    log = tmp_path / "log.csv"
    log.write_text("step,loss,a,b,c,d\n1,2.0,1,1,1,1\n2,2.0,1,1,1,1\n", encoding="utf-8")
    found = judge_log(log, lambda _: MonitorConfig(), lambda *_: nullcontext(lambda _: None))

    assert [note for note in found.notes if "'c', 'd'" in note]


def changes(word: str) -> tuple[Change, ...]:
    monitor = Monitor()
    monitor.announce(word)
    monitor.update(1, loss=2.0)
    return changes_from(monitor.events)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("batch", "batch_size"),
        ("Batch size 512", "batch_size"),
        ("learning rate", "learning_rate"),
        ("mixture: more code", "mixture"),
        ("resume", "resume"),
    ],
)
def test_an_announced_change_is_evidence_of_its_kind(word: str, kind: str) -> None:
    (change,) = changes(word)

    assert (change.step, change.kind, change.announced, change.note) == (1, kind, True, word)


def test_an_announcement_of_another_kind_is_no_evidence() -> None:
    assert changes("lunch") == ()


def test_a_change_that_the_log_shows_was_not_announced() -> None:
    monitor = Monitor()
    for step, loss in enumerate(curve(700).tolist(), start=1):
        monitor.update(step, loss=loss, lr=1e-3 if step <= 600 else 1e-4)

    assert [each.announced for each in changes_from(monitor.events)] == [False]


def test_a_planned_mixture_is_said_to_have_been_announced() -> None:
    monitor = Monitor()
    monitor.announce("mixture")
    monitor.load_state_dict(json.loads(json.dumps(monitor.state_dict())))
    monitor.update(595, loss=2.0)
    known = Evidence(event=an_event(), changes=changes_from(monitor.events))

    assert next(mixture(known)).text == "a change of the mixture was announced at step 595"
