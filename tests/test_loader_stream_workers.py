"""Random lives of a job whose ranks read with torch DataLoader workers: the reference again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from helpers_lives import (
    WORLDS,
    Schedule,
    Stage,
    ample,
    deliver_and_compare,
    lives_in,
    schedules,
    shapes,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

few = lives_in([world for world in WORLDS if world[0] <= 3])
lives_with_workers = st.lists(
    st.builds(lambda stage, workers: replace(stage, workers=workers), few, st.integers(0, 2)),
    min_size=2,
    max_size=3,
)


# Shrinking would start hundreds of processes; a failing example is short as it is.
@settings(max_examples=12, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(ample, shapes, schedules, st.sampled_from(["drop", "pad"]), lives_with_workers)
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*os.fork:DeprecationWarning")
def test_L5_workers_worlds_and_kills_in_any_sequence_deliver_the_reference(
    blocks: list[list[str]],
    shape: dict[str, Any],
    batch: Schedule,
    end: Literal["drop", "pad"],
    lives: list[Stage],
) -> None:
    deliver_and_compare(blocks, shape, batch, end, lives)
