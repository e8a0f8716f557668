"""A run that really recorded a spike, and a person who types incident commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from helpers_respond import make_run

from shardward.cli.main import cli
from shardward.loader.cursor import Cursor
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.quarantine.respond.resume import resume

ONSET = 60


def train(
    run: Run,
    manifest: Manifest,
    *,
    steps: int,
    cursor: Any = None,
    spike: bool = False,
    **more: Any,
) -> Cursor:
    """Train to step `steps` with a checkpoint every ten; with `spike` the loss jumps at 60."""
    with ShardLoader(manifest, run.plan(), run=run, batch=2, cursor=cursor, **more) as loader:
        for batch in loader:
            step = batch.step
            bad = spike and ONSET <= step < ONSET + 6
            noise = (step * 7919 % 13) / 400
            loader.observe(
                step,
                loss=(9.0 if bad else 3.0 - step / 500) + noise,
                grad_norm=(8.0 if bad else 1.0) + noise,
            )
            if step % 10 == 0:
                loader.checkpoint(step, f"ckpt-{step}")
            if step == steps:
                break
        return Cursor.from_json(loader.state_dict())


class Desk:
    """A run that spiked at step 60 and stands at step 70."""

    def __init__(self, home: Path, manifest: Manifest, *, restarted: bool = False) -> None:
        self.manifest = manifest
        self.run = make_run(home, manifest)
        if not restarted:
            train(self.run, manifest, steps=70, spike=True)
            return
        last = train(self.run, manifest, steps=ONSET - 1)
        train(self.run, manifest, steps=70, spike=True, cursor=last, reason="restart")

    def type(self, *words: str, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(
            cli,
            ["incident", *words, "--run", str(self.run.path)],
            env={"SHARDWARD_ACTOR": "kim", **(env or {})},
        )

    def json(self, *words: str, code: int = 0) -> Any:
        result = self.type(*words, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def quarantine(self, *words: str) -> None:
        result = CliRunner().invoke(
            cli, ["quarantine", *words, "--run", str(self.run.path), "--yes"]
        )
        assert result.exit_code == 0, result.output

    def go(self, to: str) -> None:
        """Do every step up to `to`."""
        self.json("open", "--onset", "60", "--detected", "62", "--yes")
        for words in (
            ("confirm",),
            ("identify",),
            ("rewind",),
            ("skip", "--window", "60-65"),
            ("resume", "--watch-length", "12"),
        ):
            self.json(words[0], "INC-0001", *words[1:], "--yes")
            if words[0] == to:
                return

    def train_on(self) -> None:
        orders = resume(self.run)
        assert orders is not None
        train(self.run, self.manifest, steps=75, cursor=orders.cursor, reason="rewind")
