"""Whatever happens to world size, threads, prefetch and processes: the reference is delivered."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from helpers_lives import (
    Schedule,
    Stage,
    alive,
    ample,
    corpora,
    corpus_of,
    deliver_and_compare,
    schedules,
    shapes,
    stages,
)
from helpers_loader import PAD, Reference, arrow_corpus, revision_of
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from shardward.loader import ShardLoader, Topology
from shardward.loader.cursor import Mode
from shardward.loader.digest import add_digests


@settings(max_examples=25, deadline=None)
@given(
    st.one_of(ample, corpora),
    shapes,
    schedules,
    st.sampled_from(["drop", "pad"]),
    st.lists(stages, min_size=1, max_size=4),
)
def test_all_ranks_together_deliver_the_reference_through_kills_and_revisions(
    blocks: list[list[str]],
    shape: dict[str, Any],
    batch: Schedule,
    end: Literal["drop", "pad"],
    lives: list[Stage],
) -> None:
    steps = deliver_and_compare(blocks, shape, batch, end, lives)
    event(f"{'no' if not steps else 'some'} steps compared")


@settings(max_examples=25, deadline=None)
@given(corpora, shapes, st.sampled_from(["compact", "hold"]))
def test_the_digest_of_a_step_is_the_same_at_every_world_size(
    blocks: list[list[str]], shape: dict[str, Any], mode: Mode
) -> None:
    assume(sum(len(text) > 0 for block in blocks for text in block) > 3)
    with corpus_of(blocks) as (_, manifest):
        plan = manifest.plan(**shape)
        revision = revision_of(manifest, [0])
        stage = Stage(1, 1, 0, 1, 1, {0}, (), mode)
        assume(all(n > 0 for n in alive(Reference(blocks, plan), {0}, stage)))
        digests = []
        for world in (1, 2, 3, 4):
            total: dict[int, int] = {}
            for rank in range(world):
                with ShardLoader(
                    manifest,
                    plan,
                    batch=12,
                    threads=0,
                    revision=revision,
                    mode=mode,
                    end="pad",
                    topology=Topology(dp_rank=rank, dp_size=world),
                ) as loader:
                    for step in loader.source.steps(loader.place):
                        value = int.from_bytes(step.digest, "big")
                        total[step.step] = add_digests(total.get(step.step, 0), value)
            digests.append(total)

        assert digests[1:] == digests[:1] * 3


def test_lookahead_is_the_next_token_of_the_stream_and_counts_nowhere(tmp_path: Path) -> None:
    blocks = [["abcdefghij", "klmnop"], ["qrstuvwxyz"]]
    manifest = arrow_corpus(tmp_path, blocks)
    plain = manifest.plan(seed=1, seq_len=6, window_blocks=2)
    ahead = manifest.plan(seed=1, seq_len=6, window_blocks=2, lookahead=1)
    with ShardLoader(manifest, plain, batch=1) as one, ShardLoader(manifest, ahead, batch=1) as two:
        rows = [(a, b) for a, b in zip(one, two, strict=True)]

    by_stream = {}
    table = one.source.walker().order(0).window(0)
    for a, b in rows:
        by_stream[int(table.stream_samples(a.positions)[0])] = a.tokens[0].tolist()
        assert b.tokens[0, :6].tolist() == a.tokens[0].tolist()
        assert a.target_tokens == b.target_tokens
    for a, b in rows:
        following = by_stream.get(int(table.stream_samples(a.positions)[0]) + 1)
        assert int(b.tokens[0, 6]) == (PAD if following is None else following[0])
        assert bool(b.loss_mask[0, 6]) == (following is not None)


@pytest.mark.parametrize("seq_len", [8, None])
def test_hold_keeps_every_step_in_its_place(tmp_path: Path, seq_len: int | None) -> None:
    blocks = [[f"document number {i} of {j}" for i in range(5)] for j in range(4)]
    manifest = arrow_corpus(tmp_path, blocks)
    plan = manifest.plan(seed=2, seq_len=seq_len, window_blocks=2)
    revision = revision_of(manifest, [3, 4, 5, 11])
    with (
        ShardLoader(manifest, plan, batch=4) as original,
        ShardLoader(manifest, plan, batch=4, revision=revision, mode="hold") as held,
    ):
        pairs = list(zip(original, held, strict=True))

    assert any(b.blanked_tokens for _, b in pairs)
    for a, b in pairs:
        assert a.positions.tolist() == b.positions.tolist()
        kept = b.loss_mask
        assert (a.tokens[kept] == b.tokens[kept]).all()
        assert (b.tokens[~kept] == PAD).all()
