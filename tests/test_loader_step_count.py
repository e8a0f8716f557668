"""Steps are counted without data: exactly, or within the stated error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers_loader import arrow_corpus, revision_of

from shardward.loader import BatchSchedule, Manifest, ShardLoader
from shardward.loader.cursor import Mode
from shardward.loader.errors import UsageError
from shardward.loader.step_count import count_steps
from shardward.loader.walk import EpochEnd

SCHEDULE = BatchSchedule.of([(1, 2), (5, 3), (20, 8)])


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    dice = np.random.default_rng(1)
    return arrow_corpus(
        tmp_path, [["x" * int(dice.integers(1, 60)) for _ in range(12)] for _ in range(60)]
    )


@pytest.mark.parametrize("end", ["drop", "pad"])
@pytest.mark.parametrize("mode", ["compact", "hold"])
@pytest.mark.parametrize("start", [0, 7])
def test_len_is_the_number_of_batches_that_come(
    manifest: Manifest, end: EpochEnd, mode: Mode, start: int
) -> None:
    plan = manifest.plan(seed=1, seq_len=20, window_blocks=3)
    revision = revision_of(manifest, list(range(0, 700, 3)))
    cursor = None
    if start:
        with ShardLoader(manifest, plan, batch=SCHEDULE, revision=revision) as first:
            cursor = [batch.cursor_after for _, batch in zip(range(start), first, strict=False)][-1]
    with ShardLoader(
        manifest,
        plan,
        batch=SCHEDULE,
        revision=revision,
        epochs=2,
        cursor=cursor,
        end=end,
        mode=mode,
    ) as loader:
        expected, total = len(loader), loader.total_steps
        steps = [batch.step for batch in loader]

    assert (len(steps), steps[-1]) == (expected, total)
    assert loader.count_steps().error == 0


def test_an_estimate_is_within_its_error(manifest: Manifest) -> None:
    plan = manifest.plan(seed=2, seq_len=8, window_blocks=1)
    within = []
    for seed in range(20):
        dice = np.random.default_rng(seed)
        revision = revision_of(manifest, dice.choice(720, 200, replace=False).tolist())
        with ShardLoader(manifest, plan, batch=1, revision=revision) as loader:
            walker = loader.source.walker()
            exact = count_steps(walker, loader.place)
            guess = count_steps(walker, loader.place, windows=20)
        within.append(abs(guess.last_step - exact.last_step) <= guess.error)
        assert exact.error == 0 < guess.error < 0.1 * exact.last_step

    assert sum(within) >= 17


def test_an_endless_loader_has_no_length(manifest: Manifest) -> None:
    plan = manifest.plan(seed=1, seq_len=20)
    with (
        ShardLoader(manifest, plan, batch=2, epochs=None) as loader,
        pytest.raises(UsageError, match="give a number of epochs"),
    ):
        len(loader)
