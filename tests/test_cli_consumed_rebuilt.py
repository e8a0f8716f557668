"""A new stage on a rebuilt corpus repeats nothing: what was fed is told by content."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers_loader import arrow_corpus

from shardward.cli.main import cli
from shardward.loader import Manifest, Run, ShardLoader, build_manifest
from shardward.quarantine.respond.decisions import DecisionLog

BLOCKS = [[f"block {b} text {t} " * (1 + (b + t) % 4) for t in range(10)] for b in range(8)]


def type_(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


class Stages:
    """A run of which a corpus was rebuilt, and a new run over what was written."""

    def __init__(self, home: Path, *, shards_rewritten: int) -> None:
        self.home = home
        self.manifest = arrow_corpus(home, BLOCKS, shards=2)
        plan = self.manifest.plan(seed=1, seq_len=24, window_blocks=3)
        self.old = Run.create(home / "old", plan=plan, manifest_path=self.manifest.path)
        with ShardLoader(self.manifest, plan, batch=4, run=self.old) as loader:
            self.fed: set[int] = set()
            for batch in loader:
                loader.observe(batch.step)
                self.fed |= set(batch.segments.doc.tolist())
                if batch.step == 6:
                    break
        unfed = [min(set(range(40 * s, 40 * s + 40)) - self.fed) for s in range(shards_rewritten)]
        run = ("--run", self.old.path)
        for words in (
            ("quarantine", "add", *(w for doc in unfed for w in ("--doc", str(doc)))),
            ("quarantine", "publish"),
            ("rebuild", "--out", home / "clean"),
        ):
            reason = ("--reason", "junk") if "add" in words else ()
            result = type_(*words, *run, *reason, "--yes")
            assert result.exit_code == 0, result.output
        self.gone = set(unfed)
        self.clean = build_manifest([str(home / "clean")], home / "clean-manifest")
        plan = self.clean.plan(seed=2, seq_len=24, window_blocks=3)
        self.new = Run.create(home / "new", plan=plan, manifest_path=self.clean.path)

    def consumed(self, *words: str | Path) -> Result:
        return type_("quarantine", "consumed", self.old.path, "--run", self.new.path, *words)

    def expected(self) -> list[int]:
        left = [doc for doc in range(80) if doc not in self.gone]
        return [number for number, doc in enumerate(left) if doc in self.fed]


@pytest.mark.parametrize("shards", [1, 2])
def test_what_was_fed_from_a_shard_that_was_rewritten_is_left_out(
    tmp_path: Path, shards: int
) -> None:
    stages = Stages(tmp_path, shards_rewritten=shards)

    result = stages.consumed("--yes")

    assert result.exit_code == 0, result.output
    count = len(stages.fed)
    assert f"was fed {count} documents up to step 6: {count} of them are in this" in result.output
    [entry] = DecisionLog(stages.new.path).entries()
    assert sorted(entry.decision.scope.documents) == stages.expected()


def test_the_same_is_decided_once(tmp_path: Path) -> None:
    stages = Stages(tmp_path, shards_rewritten=1)
    for words in ("decision 1: quarantine", "decision 1 says so already"):
        result = stages.consumed("--yes")
        assert (result.exit_code, words in result.output) == (0, True), result.output

    assert len(DecisionLog(stages.new.path).entries()) == 1


def test_shards_that_cannot_be_read_are_named_and_nothing_is_decided(tmp_path: Path) -> None:
    stages = Stages(tmp_path, shards_rewritten=1)
    shard = stages.manifest.shards[0]
    (Path(stages.manifest.root) / shard.uri).rename(tmp_path / "away.arrow")

    result = stages.consumed("--yes")

    lost = sum(doc < shard.documents for doc in stages.fed)
    assert result.exit_code == 1
    assert f"{lost} documents that the earlier run was fed lie in shards" in result.output
    assert shard.uri in result.output
    assert DecisionLog(stages.new.path).entries() == []
    assert stages.consumed("--yes", "--allow-unknown").exit_code == 0
    [entry] = DecisionLog(stages.new.path).entries()
    assert len(entry.decision.scope.documents) == len(stages.fed) - lost


def test_the_manifest_of_the_earlier_run_can_be_named(tmp_path: Path) -> None:
    stages = Stages(tmp_path, shards_rewritten=1)
    moved = tmp_path / "moved"
    Path(stages.manifest.path).rename(moved)

    assert stages.consumed("--yes").exit_code == 1
    assert stages.consumed("--earlier-manifest", moved, "--yes").exit_code == 0
    assert Manifest.load(moved).fingerprint == stages.old.fingerprint
