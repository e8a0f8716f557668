"""The decision log: append-only, chained, anchored, and one order for two writers."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from shardward.loader.errors import DecisionError, FormatError, IntegrityError, NotFound
from shardward.quarantine.respond.decisions import DecisionConflict, DecisionLog
from shardward.quarantine.respond.scopes import PositionRange, Scope
from shardward.quarantine.respond.status import Decision, active_skips
from shardward.schemas import load_schema


def decide(action: str, *docs: int, actor: str = "kim", reason: str = "junk") -> Decision:
    return Decision(action=action, scope=Scope.of_documents(docs), reason=reason, actor=actor)


def undo(sequence: int) -> Decision:
    return Decision(action="undo", scope=Scope.of_entry(sequence), reason="wrong", actor="kim")


def filled(path: Path, count: int = 3) -> DecisionLog:
    log = DecisionLog(path)
    for doc in range(count):
        log.append(decide("quarantine", doc))
    return log


def test_a_decision_comes_back_as_it_was_made(tmp_path: Path) -> None:
    decision = Decision(
        action="quarantine",
        scope=Scope.of_documents([5, 3, 5]),
        reason="bidi \u202e and emoji 🦊",
        actor="kim",
        incident="INC-0001",
        evidence={"score": 0.9},
    )

    entry = DecisionLog(tmp_path).append(decision)

    assert DecisionLog(tmp_path).entries() == [entry]
    assert entry.decision == decision
    assert entry.decision.scope.documents == (3, 5)


def test_every_line_fits_the_schema(tmp_path: Path) -> None:
    log = filled(tmp_path)
    span = PositionRange(plan_id="p", epoch=0, start=3, end=9)
    log.append(
        Decision(
            action="skip", scope=Scope(kind="positions", ranges=(span,)), reason="r", actor="a"
        )
    )
    log.append(undo(1))

    validator = Draft202012Validator(load_schema("decision.v1"))

    for line in log.path.read_text().splitlines():
        validator.validate(json.loads(line))


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_a_reason_is_mandatory(reason: str) -> None:
    with pytest.raises(DecisionError, match="needs a reason"):
        decide("quarantine", 1, reason=reason)


def test_text_that_is_no_utf8_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no character of UTF-8"):
        DecisionLog(tmp_path).append(decide("quarantine", 1, reason="bytes \udcff"))
    assert DecisionLog(tmp_path).entries() == []


def test_evidence_that_is_not_finite_is_kept_as_words(tmp_path: Path) -> None:
    decision = Decision(
        action="quarantine", scope=Scope.of_documents([1]), reason="r", actor="a",
        evidence={"loss": float("nan"), "peaks": [1.0, float("inf")]},
    )  # fmt: skip

    entry = DecisionLog(tmp_path).append(decision)

    assert entry.decision.evidence == {"loss": "NaN", "peaks": [1.0, "Infinity"]}
    DecisionLog(tmp_path).verify()


def test_skip_takes_positions_and_nothing_else() -> None:
    with pytest.raises(DecisionError, match="to leave content out, quarantine it"):
        decide("skip", 1)


def test_an_undo_of_a_decision_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path)

    with pytest.raises(NotFound, match="no decision 9"):
        log.append(undo(9))
    assert len(log.entries()) == 3


def test_an_edited_line_breaks_the_chain(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.path.write_text(log.path.read_text().replace("junk", "fine", 1))

    with pytest.raises(IntegrityError, match=r"line 2.*edited"):
        log.entries()


def test_an_edited_last_line_is_seen_by_an_anchor(tmp_path: Path) -> None:
    log = filled(tmp_path)
    anchor = log.head()
    lines = log.path.read_text().splitlines()
    log.path.write_text("\n".join([*lines[:2], lines[2].replace("junk", "fine")]) + "\n")

    with pytest.raises(IntegrityError, match="revision 1 anchors decision 3"):
        log.verify([("revision 1", anchor)])


def test_a_log_cut_below_an_anchor_is_seen(tmp_path: Path) -> None:
    log = filled(tmp_path)
    anchor = log.head()
    lines = log.path.read_text().splitlines()
    log.path.write_text("\n".join(lines[:2]) + "\n")

    with pytest.raises(IntegrityError, match="lines were cut off"):
        log.verify([("INC-0001", anchor)])


def test_a_torn_line_is_reported_set_aside_and_written_over(tmp_path: Path) -> None:
    log = filled(tmp_path)
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + b'{"format":"shard')

    assert "never" in log.verify().remarks[0]
    log.append(decide("release", 1))

    assert len(log.entries()) == 4
    assert [p.read_bytes() for p in tmp_path.glob("*.torn-*")] == [b'{"format":"shard']


def test_every_cut_of_the_last_line_keeps_the_earlier_ones(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    data = log.path.read_bytes()
    first = data.index(b"\n") + 1

    for cut in range(first, len(data)):
        log.path.write_bytes(data[:cut])
        assert [e.sequence for e in log.entries()] == [1]


def test_a_log_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "decisions.log").write_text('{"format":"other","version":1}\n')

    with pytest.raises(FormatError, match="'other' version 1"):
        DecisionLog(tmp_path).entries()


def test_a_decision_is_synced_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path)
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    DecisionLog(tmp_path).append(decide("release", 1))

    assert synced == ["decisions.log"]


def test_a_full_disk_leaves_the_log_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path)
    before = log.path.read_bytes()
    real = os.write

    def write(handle: int, data: memoryview) -> int:
        if len(data) <= 10:
            raise OSError(28, "No space left on device")
        return real(handle, data[: len(data) - 10])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space") as caught:
            log.append(decide("release", 1))

    assert caught.value.filename == str(log.path)
    assert log.path.read_bytes() == before


def test_a_clock_that_jumps_back_is_remarked_and_the_order_stands(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.append(decide("quarantine", 1), now=datetime(2030, 1, 1, tzinfo=UTC))
    log.append(decide("release", 1), now=datetime(2029, 1, 1, tzinfo=UTC))

    assert [e.sequence for e in log.entries()] == [1, 2]
    assert "clock jumped" in log.verify().remarks[0]


def test_D14_the_later_of_two_reviewers_sees_the_earlier_and_both_are_kept(tmp_path: Path) -> None:
    log = filled(tmp_path)
    seen = log.head()
    log.append(decide("release", 7, actor="ann"), seen=seen)

    with pytest.raises(DecisionConflict, match="ann decided release of document 7") as caught:
        log.append(decide("condemn", 7, actor="bob"), seen=seen)
    done = log.append_after(decide("condemn", 7, actor="bob"), seen=seen)

    assert [e.decision.actor for e in caught.value.earlier] == ["ann"]
    assert [e.decision.actor for e in done.earlier] == ["ann"]
    assert [e.decision.actor for e in log.entries()[-2:]] == ["ann", "bob"]


def test_decisions_about_other_documents_do_not_conflict(tmp_path: Path) -> None:
    log = filled(tmp_path)
    seen = log.head()
    log.append(decide("release", 7), seen=seen)

    log.append(decide("release", 8), seen=seen)

    assert len(log.entries()) == 5


def test_many_writers_at_once_end_in_one_unbroken_order(tmp_path: Path) -> None:
    def write(name: str) -> None:
        for doc in range(10):
            DecisionLog(tmp_path).append(decide("suspect", doc, actor=name))

    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    entries = DecisionLog(tmp_path).entries()
    assert [e.sequence for e in entries] == list(range(1, 31))
    assert sorted(e.decision.actor for e in entries) == ["a"] * 10 + ["b"] * 10 + ["c"] * 10


def test_decisions_about_another_corpus_are_refused(tmp_path: Path) -> None:
    DecisionLog(tmp_path, manifest="aa").append(decide("quarantine", 1))

    with pytest.raises(DecisionError, match="corpus aa, this one is about bb"):
        DecisionLog(tmp_path, manifest="bb").append(decide("quarantine", 1))


def window_skip(action: str = "skip") -> Decision:
    span = PositionRange(plan_id="p", epoch=0, start=3, end=9)
    scope = Scope(kind="positions", ranges=(span,))
    return Decision(action=action, scope=scope, reason="r", actor="kim", incident="INC-0001")


def test_a_decision_that_holds_is_not_made_twice(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    first = log.append_once(window_skip())

    assert first is not None
    assert log.append_once(window_skip()) is None
    assert len(log.entries()) == 1


@pytest.mark.parametrize("taken_back", [undo(1), window_skip("release")])
def test_a_decision_that_was_taken_back_is_made_anew(tmp_path: Path, taken_back: Decision) -> None:
    log = DecisionLog(tmp_path)
    log.append_once(window_skip())
    log.append(taken_back)

    assert log.append_once(window_skip()) is not None
    assert log.append_once(window_skip()) is None
    assert [span.start for span, _ in active_skips(log.entries())] == [3]
