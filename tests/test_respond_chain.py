"""A chain that is read from its end says the same as one that is read whole, for less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.loader.errors import FormatError, IntegrityError
from shardward.loader.formats import parse_json
from shardward.quarantine.respond import chain as chain_module
from shardward.quarantine.respond.chain import ChainFile, ChainState
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision


def filled(home: Path, sizes: list[int]) -> ChainFile:
    chain = ChainFile(path=home / "some.log", name="shardward.decision")
    chain.path.unlink(missing_ok=True)
    for size in sizes:
        chain.append(lambda _, size=size: {"text": "x" * size})  # type: ignore[misc]
    return chain


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), max_size=8),
    since=st.integers(1, 16),
    block=st.integers(1, 400),
    torn=st.binary(max_size=40).filter(lambda data: b"\n" not in data),
)
def test_the_end_of_a_chain_is_read_as_if_all_of_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    since: int,
    block: int,
    torn: bytes,
) -> None:
    chain = filled(tmp_path_factory.getbasetemp(), sizes)
    with chain.path.open("ab") as stream:
        stream.write(torn)
    whole = chain.read()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain_module, "BLOCK", block)
        end = chain.read(since)

    assert (end.head, end.torn) == (whole.head, torn)
    assert end.first <= max(min(since, len(sizes)), 1)
    assert end.lines == whole.lines[end.first - 1 :]
    for number in range(max(since - 1, 1), len(sizes) + 1):
        assert end.digest_of(number) == whole.digests[number - 1]


def decide(log: DecisionLog, doc: int) -> None:
    log.append(
        Decision(
            action="quarantine",
            scope=Scope.of_documents([doc]),
            reason="junk " * 300,
            actor="kim",
        )
    )


def test_a_decision_reads_no_more_of_a_long_log_than_of_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = DecisionLog(tmp_path)
    IncidentStore(tmp_path).open(onset=1, detected=1, actor="kim")
    for doc in range(120):
        decide(log, doc)
    IncidentStore(tmp_path).get("INC-0001").attach("lessons", {"lessons": []}, actor="kim")
    read: list[bytes] = []

    def parse(raw: bytes, *, where: str) -> Any:
        read.append(raw)
        return parse_json(raw, where=where)

    monkeypatch.setattr("shardward.quarantine.respond.chain.parse_json", parse)

    decide(log, 120)

    lines = [raw for raw in read if b"quarantine" in raw]
    assert len(lines) < 60
    assert log.head().count == 121


@pytest.mark.parametrize("place", [0, 60])
def test_an_edit_before_the_newest_anchor_is_seen_by_every_question(
    tmp_path: Path, place: int
) -> None:
    log = DecisionLog(tmp_path)
    for doc in range(120):
        decide(log, doc)
    lines = log.path.read_bytes().split(b"\n")
    lines[place] = lines[place].replace(b"junk", b"fine", 1)
    log.path.write_bytes(b"\n".join(lines))

    with pytest.raises(IntegrityError, match="edited"):
        log.entries()
    with pytest.raises(IntegrityError, match="edited"):
        log.verify()


def test_an_edit_after_the_newest_anchor_is_seen_by_the_next_decision(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    decide(log, 0)
    IncidentStore(tmp_path).open(onset=1, detected=1, actor="kim")
    decide(log, 1)
    decide(log, 2)
    lines = log.path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"junk", b"fine", 1)
    log.path.write_bytes(b"\n".join(lines))

    with pytest.raises(IntegrityError, match="edited"):
        decide(log, 3)


def test_a_last_line_that_is_no_json_is_said(tmp_path: Path) -> None:
    chain = filled(tmp_path, [1, 2])
    with chain.path.open("ab") as stream:
        stream.write(b"what\n")

    with pytest.raises(FormatError, match="line 3"):
        chain.read(3)


def test_an_incident_reads_its_events_again_only_when_they_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = IncidentStore(tmp_path).open(onset=10, detected=12, actor="kim")
    other = IncidentStore(tmp_path).get(incident.id)
    incident.events()
    read: list[int] = []
    whole = ChainFile.read

    def count(chain: ChainFile, since: int = 1) -> ChainState:
        read.append(since)
        return whole(chain, since)

    monkeypatch.setattr(ChainFile, "read", count)

    assert (incident.case().state, incident.opening().act, len(read)) == ("opened", "open", 0)

    other.attach("lessons", {"lessons": []}, actor="lee")
    assert incident.events()[-1].actor == "lee"
