"""A planned change that the trainer announced is known to whoever judges the run later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers_respond import make_corpus, make_run

from shardward.cli.main import cli
from shardward.loader.errors import UsageError
from shardward.loader.manifest import Manifest
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.quarantine.ledger import Ledger


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return make_corpus(tmp_path_factory.mktemp("corpus"), documents=900, group=10)


@pytest.fixture
def run(tmp_path: Path, manifest: Manifest) -> Run:
    return make_run(tmp_path, manifest)


def train(
    run: Run, manifest: Manifest, to: int, *, change: int, cursor: Any = None, **more: Any
) -> dict[str, Any]:
    """Train to step `to`; at step `change` the mixture is changed, and the loss rises for good."""
    with ShardLoader(manifest, run.plan(), run=run, batch=2, cursor=cursor, **more) as loader:
        for batch in loader:
            if batch.step == change:
                loader.announce(" mixture: more code")
            loss = 3.0 + (batch.step >= change) + (batch.step * 7919 % 13) / 400
            loader.observe(batch.step, loss=loss, grad_norm=1.0)
            if batch.step == to:
                break
        return loader.state_dict()


def announced(run: Run) -> dict[int, str]:
    with Ledger.open(run) as ledger:
        return ledger.announced()


def incident(run: Run, *words: str) -> Any:
    result = CliRunner().invoke(cli, ["incident", *words, "--run", str(run.path), "--json"])
    return result.output if result.exit_code else json.loads(result.stdout)


def test_an_announced_change_outlives_the_trainer_and_is_evidence(
    run: Run, manifest: Manifest
) -> None:
    last = train(run, manifest, 120, change=101)
    train(run, manifest, 140, change=0, cursor=last, reason="restart")

    assert announced(run) == {101: "mixture: more code"}
    incident(run, "open", "--onset", "101", "--detected", "103", "--yes")
    causes = {each["name"]: each for each in incident(run, "causes", "INC-0001")["causes"]}
    said = "a change of the mixture was announced at step 101"
    assert said in causes["mix_change"]["evidence_for"]


def test_no_incident_is_opened_on_a_change_that_was_announced(run: Run, manifest: Manifest) -> None:
    train(run, manifest, 160, change=101)
    pages = incident(run, "open", "--short-run")

    assert "the monitor pages nothing in these signals" in pages


def test_a_change_announced_on_a_branch_that_was_left_is_not_of_the_run(
    run: Run, manifest: Manifest
) -> None:
    start = train(run, manifest, 20, change=0)
    train(run, manifest, 40, change=30, cursor=start, reason="restart")
    train(run, manifest, 40, change=0, cursor=start, reason="restart")

    assert announced(run) == {}


def test_several_announcements_of_one_step_are_one_change(run: Run, manifest: Manifest) -> None:
    with ShardLoader(manifest, run.plan(), run=run, batch=2) as loader:
        next(iter(loader))
        for what in ("lr", "batch", "lr"):
            loader.announce(what)
        loader.observe(1, loss=3.0)

    assert announced(run) == {1: "batch, lr"}


def test_no_announcement_stops_a_training_for_how_it_is_spelt(run: Run, manifest: Manifest) -> None:
    with ShardLoader(manifest, run.plan(), run=run, batch=2) as loader:
        next(iter(loader))
        loader.announce("more \ud800 code")
        for odd in (None, 7, b"lr"):
            with pytest.raises(UsageError, match="announce takes a text, not "):
                loader.announce(odd)  # type: ignore[arg-type]
        loader.observe(1, loss=3.0)

    assert announced(run) == {1: r"more \ud800 code"}
