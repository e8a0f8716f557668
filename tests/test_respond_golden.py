"""The formats of the response, version 1, frozen: the same acts give the same bytes for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from shardward.loader.cursor import Cursor
from shardward.loader.formats import canonical_json, parse_json
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.incident import IncidentStore
from shardward.quarantine.respond.resume import Resume
from shardward.quarantine.respond.rewind import Checkpoint
from shardward.quarantine.respond.scopes import PositionRange, Scope
from shardward.quarantine.respond.status import Decision
from shardward.quarantine.respond.watchplan import Threshold, WatchPlan

GOLDEN = Path(__file__).parent / "golden"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PLAN = "ab" * 32
CURSOR = Cursor(plan_id=PLAN, position=60, step=15, revision=1, revision_digest="cd" * 32, piece=1)
RANGE = PositionRange(plan_id=PLAN, epoch=0, start=40, end=64)
DECISIONS = (
    ("suspect", Scope.of_documents([5])),
    ("quarantine", Scope(kind="content", value="ef" * 16, documents=(5, 9))),
    ("skip", Scope(kind="positions", ranges=(RANGE,))),
    ("release", Scope(kind="shard", value="s1.parquet")),
    ("condemn", Scope.of_documents([9])),
    ("undo", Scope.of_entry(4)),
)
ORDERS = Resume(
    incident="INC-0001",
    round=1,
    checkpoint=Checkpoint(step=15, piece=1, path="ckpt-15", cursor=CURSOR.to_json()),
    cursor=CURSOR,
    ready=True,
    learning_rate_factor=0.5,
    watch=WatchPlan(
        first=16,
        last=35,
        thresholds=(Threshold(signal="loss", ceiling=3.5, level=3.25),),
    ),
    created="2026-01-02T03:04:05.000+00:00",
)


def write_log(home: Path) -> None:
    log = DecisionLog(home, manifest="12" * 32)
    for number, (action, scope) in enumerate(DECISIONS):
        decision = Decision(
            action=action,
            scope=scope,
            reason=f"reason {number} é",
            actor="kim",
            incident="INC-0001" if number == 1 else None,
            evidence={"score": 0.5} if number == 1 else {},
        )
        log.append(decision, now=START + timedelta(seconds=number))


def write_incident(home: Path) -> None:
    incident = IncidentStore(home).open(
        onset=10, detected=12, actor="kim", event={"z": 7.5}, now=START
    )
    checklist = {"verdict": "confirmed", "items": []}
    incident.record(
        "confirm", actor="kim", summary={"verdict": "confirmed", "accepted": None},
        evidence={"checklist": checklist}, now=START + timedelta(minutes=1),
    )  # fmt: skip


# --- tests


def test_a_decision_log_is_written_as_it_always_was(tmp_path: Path) -> None:
    write_log(tmp_path)

    assert (tmp_path / "decisions.log").read_bytes() == (GOLDEN / "decisions.v1.log").read_bytes()


def test_a_decision_log_of_version_1_is_read(tmp_path: Path) -> None:
    (tmp_path / "decisions.log").write_bytes((GOLDEN / "decisions.v1.log").read_bytes())

    entries = DecisionLog(tmp_path).entries()

    assert [(e.decision.action, e.decision.scope) for e in entries] == list(DECISIONS)
    assert entries[1].decision.reason == "reason 1 é"


def test_an_incident_is_written_as_it_always_was(tmp_path: Path) -> None:
    write_log(tmp_path)
    write_incident(tmp_path)

    written = (tmp_path / "incidents" / "INC-0001" / "events.log").read_bytes()
    assert written == (GOLDEN / "incident-events.v1.log").read_bytes()


def test_orders_are_written_and_read_as_they_always_were() -> None:
    golden = (GOLDEN / "resume.v1.json").read_bytes()

    assert canonical_json(ORDERS.to_json()) + b"\n" == golden
    assert Resume.from_json(parse_json(golden, where="golden")) == ORDERS
