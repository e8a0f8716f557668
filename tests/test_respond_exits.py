"""Leaving and reopening an incident in any state: the run can always start again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers_respond import checkpoint, make_corpus, start_piece
from helpers_scene import Scene

from shardward.loader.cursor import Cursor
from shardward.loader.errors import IncidentError
from shardward.loader.manifest import Manifest
from shardward.quarantine.respond import response
from shardward.quarantine.respond.exits import leave, reopen
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.machine import EXIT_FROM, REACHED
from shardward.quarantine.respond.orders import Factors, begun_rewind
from shardward.quarantine.respond.resume import Resume, read_resume, resume
from shardward.quarantine.respond.rewind import RewindPlan, plan_rewind
from shardward.quarantine.respond.watchplan import generate_watch_plan

STEP_TO = {state: step for step, state in REACHED.items() if step != "reopen"}
CASES = [(state, exit_) for exit_, states in EXIT_FROM.items() for state in states]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def scene(tmp_path: Path, manifest: Manifest) -> Scene:
    return Scene(tmp_path, manifest)


def reach(scene: Scene, state: str) -> Incident:
    incident = scene.open()
    if state != "opened":
        scene.go(incident, STEP_TO[state])
    assert incident.case().state == state
    return incident


def written(scene: Scene) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in scene.run.path.rglob("*") if p.is_file() and p.suffix}


def start(scene: Scene, orders: Resume | None) -> int:
    newest = Cursor.from_json(checkpoint(scene.run, 20).cursor)
    return start_piece(scene.run, "again", cursor=orders.cursor if orders else newest)


@pytest.mark.parametrize(("state", "exit_"), CASES)
def test_after_any_exit_from_any_state_a_trainer_can_start(
    scene: Scene, state: str, exit_: str
) -> None:
    leave(reach(scene, state), scene.run, exit_, actor="kim", reason="it is over")

    assert start(scene, resume(scene.run)) == 2


@pytest.mark.parametrize("state", ["rewound", "skipped", "resumed", "watched"])
@pytest.mark.parametrize("exit_", ["dismiss", "recover", "escalate"])
def test_after_a_reopening_and_any_exit_a_trainer_can_start(
    scene: Scene, state: str, exit_: str
) -> None:
    incident = reach(scene, state)
    reopen(incident, actor="kim", reason="look again")
    leave(incident, scene.run, exit_, actor="kim", reason="it is over")

    assert start(scene, resume(scene.run)) == 2


def test_leaving_after_the_rewind_says_why_nothing_is_skipped(scene: Scene) -> None:
    leave(reach(scene, "rewound"), scene.run, "not-data", actor="kim", reason="ECC errors")

    orders = resume(scene.run)

    assert orders is not None
    assert (orders.checkpoint.step, orders.cursor.revision) == (15, 0)
    assert (orders.no_skip, orders.watch) == ("not-data: ECC errors", None)


def test_leaving_after_the_skip_keeps_the_revision(scene: Scene) -> None:
    incident = reach(scene, "skipped")

    event = leave(incident, scene.run, "escalate", actor="kim", reason="too hard")

    orders = resume(scene.run)
    assert orders is not None
    assert (orders.cursor.revision, orders.no_skip) == (1, None)
    assert (event.summary["step"], event.summary["revision"]) == (15, 1)


def test_leaving_a_run_that_was_never_rewound_gives_no_orders(scene: Scene) -> None:
    leave(reach(scene, "identified"), scene.run, "not-data", actor="kim", reason="ECC errors")

    assert resume(scene.run) is None


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, act: str) -> Iterator[None]:
    """Die before the event `act` is recorded."""
    real = Incident.record

    def record(self: Incident, name: str, **more: Any) -> Any:
        if name == act:
            raise KeyboardInterrupt
        return real(self, name, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Incident, "record", record)
        yield


def test_an_exit_that_died_before_its_event_is_taken_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = reach(scene, "rewound")
    with dying(monkeypatch, "not-data"), pytest.raises(KeyboardInterrupt):
        leave(incident, scene.run, "not-data", actor="kim", reason="ECC errors")

    start(scene, resume(scene.run))
    leave(incident, scene.run, "not-data", actor="kim", reason="ECC errors")

    assert incident.case().state == "not-data"


def test_a_rate_that_was_lowered_before_the_exit_died_can_be_lowered_again_and_by_no_other_factor(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = reach(scene, "rewound")
    asked: dict[str, Any] = {"actor": "kim", "reason": "raised"}
    with dying(monkeypatch, "not-data"), pytest.raises(KeyboardInterrupt):
        leave(incident, scene.run, "not-data", **asked, factors=Factors(learning_rate=0.1))
    stands = read_resume(scene.run.path)
    assert stands is not None

    with pytest.raises(IncidentError, match=r"learning rate times 0\.1 and not recorded"):
        leave(incident, scene.run, "not-data", **asked, factors=Factors(learning_rate=0.2))
    event = leave(incident, scene.run, "not-data", **asked, factors=Factors(learning_rate=0.1))

    assert read_resume(scene.run.path) == stands
    assert (stands.learning_rate_factor, event.summary["orders"]) == (0.1, stands.id)
    assert incident.evidence(event, "orders") == replace(stands, heads=0).to_json()


def test_an_exit_without_a_factor_records_the_orders_that_a_crash_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = reach(scene, "rewound")
    factors = Factors(learning_rate=0.1)
    with dying(monkeypatch, "not-data"), pytest.raises(KeyboardInterrupt):
        leave(incident, scene.run, "not-data", actor="kim", reason="r", factors=factors)

    event = leave(incident, scene.run, "not-data", actor="kim", reason="r")

    stands = read_resume(scene.run.path)
    assert stands is not None
    assert (event.summary["orders"], stands.learning_rate_factor) == (stands.id, 0.1)


@pytest.mark.parametrize("exit_", ["not-data", "recover", "escalate"])
def test_leaving_after_half_a_rewind_ends_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, exit_: str
) -> None:
    incident = reach(scene, "identified")
    with monkeypatch.context() as patched:
        patched.setattr(response, "move_head", lambda *_, **__: (_ for _ in ()).throw(EOFError))
        with pytest.raises(EOFError):
            response.rewind(incident, scene.run, scene.plan(), actor="kim")
    assert incident.case().state == "identified"

    leave(incident, scene.run, exit_, actor="kim", reason="r")

    head, orders = scene.run.head(), resume(scene.run)
    assert head is not None
    assert orders is not None
    assert (head.step, orders.checkpoint.step, orders.kind) == (15, 15, "rewind")
    assert start(scene, orders) == 2


def test_a_resume_that_died_before_its_event_is_completed_from_the_orders_that_stand(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = reach(scene, "skipped")
    with dying(monkeypatch, "resume"), pytest.raises(KeyboardInterrupt):
        response.resume(incident, scene.run, actor="kim", watch=scene.watch_plan())
    stands = read_resume(scene.run.path)
    start(scene, resume(scene.run))
    other = generate_watch_plan({"loss": dict.fromkeys(range(20), 9.0)}, resume_step=15)

    orders = response.resume(incident, scene.run, actor="kim", watch=other)

    assert orders == stands
    assert response.watch_plan(incident) == scene.watch_plan()


def test_a_skipped_incident_can_be_reopened_after_a_trainer_started_too_early(
    scene: Scene,
) -> None:
    incident = reach(scene, "skipped")
    start_piece(scene.run, "eager", cursor=Cursor.from_json(checkpoint(scene.run, 15).cursor))

    reopen(incident, actor="kim", reason="a trainer was started")
    scene.go(incident, "resume")

    orders = resume(scene.run)
    assert orders is not None
    assert (orders.round, orders.checkpoint.step, orders.cursor.revision) == (2, 15, 1)


def test_a_reopened_incident_keeps_its_spike_unless_another_is_named(scene: Scene) -> None:
    incident = reach(scene, "resumed")
    start(scene, resume(scene.run))

    reopen(incident, actor="kim", reason="look again")
    assert incident.opening().summary["piece"] == 1

    leave(incident, scene.run, "escalate", actor="kim", reason="hand over")
    reopen(incident, actor="kim", reason="another", onset=30, detected=32)
    opened = incident.opening().summary
    assert [opened[name] for name in ("onset", "detected", "piece")] == [30, 32, 2]


def test_reopening_at_steps_that_cannot_be_is_refused(scene: Scene) -> None:
    incident = reach(scene, "resumed")

    with pytest.raises(IncidentError, match="onset 9 and detection 3 do not fit"):
        reopen(incident, actor="kim", reason="r", onset=9, detected=3)
    with pytest.raises(IncidentError, match="needs the onset"):
        reopen(incident, actor="kim", reason="r", detected=3)
    assert incident.case().state == "resumed"


def second(scene: Scene, onset: int) -> Incident:
    incident = IncidentStore(scene.run.path).open(
        onset=onset, detected=onset + 1, actor="kim", separate=True
    )
    scene.go(incident, "identify")
    return incident


def plan_for(scene: Scene, step: int, onset: int) -> RewindPlan:
    return plan_rewind(
        [checkpoint(scene.run, step)], scene.run.lineage(), onset=onset, head_step=24
    )


def test_one_rewind_of_a_run_is_undecided_at_a_time(scene: Scene) -> None:
    reach(scene, "rewound")
    other = second(scene, 19)
    before = written(scene)

    with pytest.raises(IncidentError, match="INC-0001 has rewound the run to step 15"):
        response.rewind(other, scene.run, scene.plan(), actor="kim")

    assert written(scene) == before


def test_final_orders_to_the_same_checkpoint_are_not_replaced_before_they_are_taken(
    scene: Scene,
) -> None:
    reach(scene, "resumed")
    other = second(scene, 19)
    before = written(scene)

    with pytest.raises(IncidentError, match="no trainer has taken them"):
        response.rewind(other, scene.run, scene.plan(), actor="kim")
    assert written(scene) == before

    start(scene, resume(scene.run))
    response.rewind(other, scene.run, scene.plan(), actor="kim")
    assert other.case().state == "rewound"


def test_a_rewind_to_a_superseded_checkpoint_is_refused_and_writes_nothing(scene: Scene) -> None:
    first = scene.open()
    scene.go(first, "identify")
    late = scene.plan()
    first.record(
        "intent", actor="kim", summary={"step": 15, "piece": 1}, evidence={"plan": late.to_json()}
    )
    deeper = second(scene, 8)
    response.rewind(deeper, scene.run, plan_for(scene, 5, 8), actor="kim")
    scene.decide(deeper, 12)
    response.skip(deeper, scene.run, scene.manifest, actor="kim")
    response.resume(deeper, scene.run, actor="kim", watch=None)
    before = written(scene)

    with pytest.raises(IncidentError, match="no longer in the run's history"):
        response.rewind(first, scene.run, late, actor="kim")

    assert written(scene) == before
    assert begun_rewind(first, scene.run) is None
    orders = resume(scene.run)
    assert orders is not None
    assert (orders.incident, orders.checkpoint.step) == (deeper.id, 5)
