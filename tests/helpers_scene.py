"""A run with a spike whose ledger is made up, and what carries out each step of the response."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from helpers_respond import checkpoint, losses, make_corpus, make_run, start_piece

from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.quarantine.respond import response
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.filing import file
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.rewind import RewindPlan, plan_rewind
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision
from shardward.quarantine.respond.watchplan import WatchPlan, generate_watch_plan
from shardward.quarantine.respond.window import Window, identify


class Ledger:
    """Four documents a step, in order."""

    def step_documents(self, step: int) -> pa.Table:
        docs = [(step * 4 + i) % 60 for i in range(4)]
        return pa.table(
            {
                "step": [step] * 4,
                "piece": [1] * 4,
                "rank": [0] * 4,
                "sample_position": [step * 4 + i for i in range(4)],
                "doc": docs,
                "token_start": [0] * 4,
                "token_end": [20] * 4,
            }
        )


class Scene:
    """A run at step 24 with checkpoints at 5, 10, 15 and 20, and a spike at steps 18 to 20."""

    def __init__(self, home: Path, manifest: Manifest | None = None) -> None:
        self.manifest: Manifest = manifest or make_corpus(home)
        self.run: Run = make_run(home, self.manifest)
        start_piece(self.run)

    def open(self) -> Incident:
        return IncidentStore(self.run.path).open(onset=18, detected=20, actor="kim")

    def window(self) -> Window:
        return identify(Ledger(), self.manifest, first=18, last=20)

    def plan(self) -> RewindPlan:
        checkpoints = [checkpoint(self.run, step) for step in (5, 10, 15, 20)]
        return plan_rewind(checkpoints, self.run.lineage(), onset=18, head_step=24)

    def watch_plan(self) -> WatchPlan:
        return generate_watch_plan({"loss": losses(1, 17)}, resume_step=15, length=20)

    def decide(self, incident: Incident, *docs: int) -> None:
        DecisionLog(self.run.path, manifest=self.manifest.fingerprint).append(
            Decision(
                action="quarantine",
                scope=Scope.of_documents(docs),
                reason="junk",
                actor="kim",
                incident=incident.id,
            )
        )

    def steps(self, incident: Incident) -> dict[str, Callable[[], Any]]:
        """Return what carries out each step."""
        checklist = {"verdict": "confirmed", "items": []}
        healthy = {"loss": losses(16, 35, level=2.9, seed=3)}
        return {
            "confirm": lambda: response.confirm(
                incident, verdict="confirmed", checklist=checklist, actor="kim"
            ),
            "identify": lambda: response.identify(incident, self.window(), actor="kim"),
            "rewind": lambda: response.rewind(incident, self.run, self.plan(), actor="kim"),
            "skip": lambda: response.skip(incident, self.run, self.manifest, actor="kim"),
            "resume": lambda: response.resume(
                incident, self.run, actor="kim", watch=self.watch_plan()
            ),
            "watch": lambda: response.watch(incident, healthy, actor="kim"),
            "file": lambda: file(incident, self.run, actor="kim"),
        }

    def go(self, incident: Incident, to: str) -> None:
        for name, act in self.steps(incident).items():
            if name == "skip":
                self.decide(incident, 12, 13)
            act()
            if name == to:
                return
