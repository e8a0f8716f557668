"""Deaths between any two writes of any act: what was begun can be done again, once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers_crash import dying
from helpers_respond import losses, make_corpus
from helpers_scene import Scene
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from shardward.loader.errors import IncidentError
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.quarantine.respond import exits
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.machine import NOTES, fold
from shardward.quarantine.respond.orders import Factors
from shardward.quarantine.respond.resume import read_resume, resume
from shardward.quarantine.respond.revisions import list_revisions, publish_revision


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return make_corpus(tmp_path_factory.mktemp("corpus"))


class Again(Scene):
    """A scene whose run directory is there already."""

    def __init__(self, run_path: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        self.run = Run.open(run_path)

    @property
    def incident(self) -> Incident:
        return IncidentStore(self.run.path).all()[-1]


def leave(act: str) -> Callable[[Again], Any]:
    return lambda scene: exits.leave(scene.incident, scene.run, act, actor="kim", reason="so")


def step(name: str) -> Callable[[Again], Any]:
    return lambda scene: scene.steps(scene.incident)[name]()


def decided(scene: Again) -> int:
    return len(DecisionLog(scene.run.path).entries())


def acts_of(scene: Again) -> list[str]:
    return [e.act for e in scene.incident.events() if e.act not in NOTES]


# What is done → (up to which step it was done before, what does it).
ACTS: dict[str, tuple[str, Callable[[Again], Any]]] = {
    "open": ("", lambda scene: scene.open()),
    **{
        name: (before, step(name))
        for before, name in (
            ("open", "confirm"),
            ("confirm", "identify"),
            ("identify", "rewind"),
            ("decided", "skip"),
            ("skip", "resume"),
            ("resume", "watch"),
            ("watch", "file"),
        )
    },
    "dismiss": ("open", leave("dismiss")),
    "not-data": ("rewind", leave("not-data")),
    "escalate": ("skip", leave("escalate")),
    "reopen": ("rewind", lambda scene: exits.reopen(scene.incident, actor="kim", reason="so")),
    "decide": ("rewind", lambda scene: scene.decide(scene.incident, 12, 13)),
    "publish": ("decided", lambda scene: publish_revision(scene.run.path, scene.manifest)),
}


def prepared(home: Path, manifest: Manifest, before: str) -> Path:
    """Return a run directory in which everything up to `before` was done."""
    scene = Scene(home, manifest)
    if before:
        incident = scene.open()
        if before != "open":
            scene.go(incident, "rewind" if before == "decided" else before)
        if before == "decided":
            scene.decide(incident, 12, 13)
    return scene.run.path


def done(scene: Again, act: str) -> bool:
    """Whether a person who looks would see that `act` was done."""
    if act == "open":
        return bool(IncidentStore(scene.run.path).ids())
    if act == "decide":
        return decided(scene) > 0
    if act == "publish":
        return 1 in list_revisions(scene.run.path)
    return act in acts_of(scene)


def standing(scene: Again) -> dict[str, Any]:
    """Return all that an act may change, without times and what hangs on them."""
    orders, head = read_resume(scene.run.path), scene.run.head()
    documents = [e.decision.scope.documents for e in DecisionLog(scene.run.path).entries()]
    return {
        "acts": acts_of(scene),
        "decisions": documents,
        "revisions": sorted(list_revisions(scene.run.path)),
        "head": head and (head.piece, head.step, head.revision),
        "orders": orders and (orders.ready, orders.checkpoint.step, orders.cursor.revision),
    }


@pytest.mark.parametrize("act", ACTS)
def test_an_act_that_died_at_any_write_can_be_done_again(
    tmp_path: Path, manifest: Manifest, act: str
) -> None:
    before, carry_out = ACTS[act]
    base = prepared(tmp_path / "base", manifest, before)
    shutil.copytree(base, tmp_path / "whole")
    with dying(0) as life:
        carry_out(Again(tmp_path / "whole", manifest))
    wanted = standing(Again(tmp_path / "whole", manifest))
    assert life.seen >= 4

    for at in range(1, life.seen + 1):
        for after in (False, True):
            place = tmp_path / f"{at}{after}"
            shutil.copytree(base, place)
            with dying(at, after=after):
                carry_out(Again(place, manifest))
            scene = Again(place, manifest)
            DecisionLog(place).verify()
            if not done(scene, act):
                carry_out(scene)
            assert standing(scene) == wanted, (at, after)


@pytest.mark.parametrize("before", ["rewind", "identify"])
def test_a_not_data_that_died_at_any_write_can_be_repeated(
    tmp_path: Path, manifest: Manifest, before: str
) -> None:
    base = prepared(tmp_path / "base", manifest, before)
    if before == "identify":
        half_rewound(base, manifest)

    def carry_out(scene: Again) -> None:
        asked: dict[str, Any] = {"actor": "kim", "reason": "the rate was raised"}
        exits.leave(
            scene.incident, scene.run, "not-data", **asked, factors=Factors(learning_rate=0.1)
        )

    shutil.copytree(base, tmp_path / "whole")
    with dying(0) as life:
        carry_out(Again(tmp_path / "whole", manifest))
    wanted = standing(Again(tmp_path / "whole", manifest))

    for at in range(1, life.seen + 1):
        for after in (False, True):
            place = tmp_path / f"{at}{after}"
            shutil.copytree(base, place)
            with dying(at, after=after):
                carry_out(Again(place, manifest))
            scene = Again(place, manifest)
            if not done(scene, "not-data"):
                carry_out(scene)
            orders, left = resume(scene.run), scene.incident.last("not-data")
            assert orders is not None
            assert left is not None
            assert standing(scene) == wanted, (at, after)
            assert (orders.learning_rate_factor, left.summary["orders"]) == (0.1, orders.id)


def half_rewound(place: Path, manifest: Manifest) -> None:
    """Die in a rewind when the pending orders stand and the head does not move any more."""
    scene = Again(place, manifest)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "move_head", lambda *_, **__: (_ for _ in ()).throw(EOFError))
        with pytest.raises(EOFError):
            step("rewind")(scene)


SIGNALS = {"loss": losses(16, 35, level=2.9, seed=3)}
WORST = {"loss": {**losses(16, 35), 20: 9.0, 21: 9.0, 22: 9.0}}


class ResponseUnderFire(RuleBasedStateMachine):
    """Any act at any time, dying anywhere: no act is lost, doubled or out of order."""

    home: Path
    manifest: Manifest
    number = 0

    @initialize()
    def begin(self) -> None:
        type(self).number += 1
        path = prepared(self.home / str(self.number), self.manifest, "open")
        self.scene = Again(path, self.manifest)
        self.acknowledged = ["open"]

    @rule(
        act=st.sampled_from([*ACTS]),
        at=st.one_of(st.just(0), st.integers(1, 60)),
        after=st.booleans(),
    )
    def try_it(self, act: str, at: int, after: bool) -> None:
        if act == "open":
            return
        begun = acts_of(self.scene)
        with dying(at, after=after) as death:
            try:
                ACTS[act][1](self.scene)
            except IncidentError:
                assert acts_of(self.scene) == begun
                return
        self.scene = Again(self.scene.run.path, self.manifest)
        if act not in ("decide", "publish"):
            new = acts_of(self.scene)[len(begun) :]
            assert new == [act] or (death.dead and new == [])
            self.acknowledged += new

    @invariant()
    def what_was_done_is_there_once_and_in_order(self) -> None:
        incident = self.scene.incident
        assert acts_of(self.scene) == self.acknowledged
        assert incident.case() == fold(e.act for e in incident.events())
        DecisionLog(self.scene.run.path).verify()

    @invariant()
    def a_trainer_starts_only_where_the_response_lets_it(self) -> None:
        state = self.scene.incident.case().state
        orders = read_resume(self.scene.run.path)
        if state in ("rewound", "skipped"):
            assert orders is not None
        if state in ("resumed", "watched"):
            assert orders is not None
            assert orders.ready
        if orders is not None and not orders.ready:
            with pytest.raises(IncidentError, match="a start now would eat the same batches"):
                resume(self.scene.run)


def test_random_acts_that_die_anywhere_keep_the_order_of_the_response(
    tmp_path: Path, manifest: Manifest
) -> None:
    class Here(ResponseUnderFire):
        pass

    Here.home, Here.manifest = tmp_path, manifest
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=12,
            stateful_step_count=14,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
