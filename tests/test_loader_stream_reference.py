"""Whatever happens to world size, threads, prefetch and processes: the reference is delivered."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from helpers_loader import PAD, Expected, Reference, arrow_corpus, revision_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shardward.loader import (
    Batch,
    Cursor,
    Holdout,
    Manifest,
    Plan,
    Revision,
    Run,
    ShardLoader,
    Skip,
    Topology,
)
from shardward.loader.cursor import Mode
from shardward.loader.digest import add_digests
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.records import DeliveredRecord, delivered
from shardward.loader.revision_store import publish_revision_files

words = st.text(alphabet="abcdefé漢", max_size=30)
corpora = st.lists(st.lists(words, max_size=7), min_size=1, max_size=8)
shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**64 - 1),
        "window_blocks": st.integers(1, 5),
        "seq_len": st.one_of(st.none(), st.integers(1, 24)),
        "holdout": st.sampled_from([None, Holdout(documents=2, seed=3)]),
    }
)


@dataclass
class Stage:
    """One start of the job: its world, and the number of steps after which it is killed."""

    world: int
    micros: int
    threads: int
    prefetch_bytes: int
    steps: int
    excluded: set[int]
    skips: tuple[tuple[int, int, int], ...]
    mode: Mode


stages = st.builds(
    Stage,
    world=st.sampled_from([1, 2, 3, 4]),
    micros=st.sampled_from([1, 2]),
    threads=st.integers(0, 2),
    prefetch_bytes=st.sampled_from([1, 1 << 12, 1 << 24]),
    steps=st.integers(1, 5),
    excluded=st.sets(st.integers(0, 20), max_size=4),
    skips=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(10, 12)), max_size=1
    ).map(tuple),
    mode=st.sampled_from(["compact", "hold"]),
)


@contextmanager
def corpus_of(blocks: Sequence[Sequence[str]]) -> Iterator[tuple[Path, Manifest]]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name), arrow_corpus(Path(name), blocks, shards=min(2, len(blocks)))


def recorded(run: Run, piece: int) -> dict[int, list[DeliveredRecord]]:
    """Return the records of a piece by step, in rank order."""
    found: dict[int, list[DeliveredRecord]] = {}
    for path in run.journals():
        for frame in read_journal(path).frames:
            if frame.kind == Kind.DELIVERED and frame.piece == piece:
                found.setdefault(frame.step, []).append(delivered(frame))
    return found


def play(
    manifest: Manifest, plan: Plan, run: Run, stage: Stage, batch: int, **load: Any
) -> tuple[list[list[Batch]], Cursor | None, int]:
    """Start the world, deliver up to `stage.steps` steps on every rank and kill it."""
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(
                ShardLoader(
                    manifest,
                    plan,
                    run=run,
                    batch=batch,
                    topology=Topology(dp_rank=rank, dp_size=stage.world),
                    micros=stage.micros,
                    threads=stage.threads,
                    prefetch_bytes=stage.prefetch_bytes,
                    **load,
                )
            )
            for rank in range(stage.world)
        ]
        per_step: list[list[Batch]] = []
        for _ in range(stage.steps):
            got: list[Batch] = []
            for loader in ranks:
                got += [found for _, found in zip(range(stage.micros), loader, strict=False)]
            if not got:
                break
            per_step.append(got)
        piece = ranks[0].piece
        assert piece is not None
        return per_step, per_step[-1][-1].cursor_after if per_step else None, piece


def revision_for(
    manifest: Manifest, plan: Plan, number: int, excluded: set[int], stage: Stage
) -> Revision:
    return Revision(
        number=number,
        manifest=manifest.fingerprint,
        documents=np.array(sorted(excluded), np.int64),
        hashes=bytes(16 * len(excluded)),
        skips=tuple(
            Skip(plan_id=plan.plan_id, epoch=epoch, start=low, end=high, reason="test")
            for epoch, low, high in stage.skips
        ),
    )


def check_step(batches: list[Batch], expected: Expected, plan: Plan) -> None:
    rows = [row.tolist() for batch in batches for row in batch.tokens]
    width = max((len(row) for row in expected.rows), default=0)
    padded = [
        row + [PAD] * (max(width, len(got)) - len(row))
        for row, got in zip(expected.rows, rows, strict=True)
    ]
    got_rows = [
        row + [PAD] * (len(want) - len(row)) for row, want in zip(rows, padded, strict=True)
    ]

    assert [p for batch in batches for p in batch.positions.tolist()] == expected.positions
    assert got_rows == padded
    assert {batch.step for batch in batches} == {expected.step}
    assert {batch.cursor_after.position for batch in batches} == {expected.end}
    assert sum(batch.blanked_tokens for batch in batches) == expected.blanked
    targets = sum(batch.target_tokens for batch in batches)
    assert {batch.global_target_tokens for batch in batches} == {targets}
    assert targets == sum(int(batch.loss_mask.sum()) for batch in batches)


@settings(max_examples=25, deadline=None)
@given(
    corpora,
    shapes,
    st.just(24),
    st.sampled_from(["drop", "pad"]),
    st.lists(stages, min_size=1, max_size=4),
)
def test_all_ranks_together_deliver_the_reference_through_kills_and_revisions(
    blocks: list[list[str]],
    shape: dict[str, Any],
    batch: int,
    end: Literal["drop", "pad"],
    lives: list[Stage],
) -> None:
    assume(any(text for block in blocks for text in block))
    with corpus_of(blocks) as (directory, manifest):
        plan = manifest.plan(**shape)
        reference = Reference(blocks, plan)
        run = Run.create(directory / "run", plan=plan, manifest_path=manifest.path)
        cursor: Cursor | None = None
        start = (0, 0, 0)
        for number, stage in enumerate(lives, start=1):
            excluded = {doc for doc in stage.excluded if doc < len(reference.texts)}
            revision = revision_for(manifest, plan, number, excluded, stage)
            publish_revision_files(run.path, revision)
            expected = reference.steps(
                batch=batch,
                start=start,
                epochs=3,
                excluded=excluded,
                skips=stage.skips,
                mode=stage.mode,
                end=end,
            )
            if any(not alive for alive in _alive(reference, excluded, stage)):
                return
            if end == "drop" and any(a < batch for a in _alive(reference, excluded, stage)):
                return
            per_step, after, piece = play(
                manifest,
                plan,
                run,
                stage,
                batch,
                cursor=cursor,
                revision=revision,
                mode=stage.mode,
                epochs=3,
                end=end,
                launch=f"life-{number}",
                reason="start" if cursor is None else "restart",
            )

            assert len(per_step) == min(stage.steps, len(expected))
            for batches, wanted in zip(per_step, expected, strict=False):
                check_step(batches, wanted, plan)
            check_records(recorded(run, piece), per_step)
            if after is None:
                return
            cursor, start = after, (after.step, after.epoch, after.position)


def _alive(reference: Reference, excluded: set[int], stage: Stage) -> list[int]:
    """Return the surviving samples of each epoch."""
    counts = []
    for epoch in range(3):
        skipped = [(low, high) for e, low, high in stage.skips if e == epoch]
        counts.append(
            sum(
                stage.mode == "hold"
                or (
                    any(piece[0] not in excluded for piece in s.pieces)
                    and not any(low <= s.position < high for low, high in skipped)
                )
                for s in reference.samples(epoch)
            )
        )
    return counts


def check_records(records: dict[int, list[DeliveredRecord]], steps: list[list[Batch]]) -> None:
    """The journal says what the trainer got: positions, pieces, tokens."""
    for batches in steps:
        ranks = records[batches[0].step]
        real = [p for batch in batches for p in batch.positions.tolist() if p >= 0]
        docs = [d for batch in batches for d in batch.segments.doc.tolist()]
        ends = [e for batch in batches for e in batch.segments.end.tolist()]
        assert [p for record in ranks for p in record.positions.tolist()] == real
        assert [d for record in ranks for d in record.doc.tolist()] == docs
        assert [e for record in ranks for e in record.token_end.tolist()] == ends
        assert sum(r.target_tokens for r in ranks) == batches[0].global_target_tokens


@settings(max_examples=25, deadline=None)
@given(corpora, shapes, st.sampled_from(["compact", "hold"]))
def test_the_digest_of_a_step_is_the_same_at_every_world_size(
    blocks: list[list[str]], shape: dict[str, Any], mode: Mode
) -> None:
    assume(sum(len(text) > 0 for block in blocks for text in block) > 3)
    with corpus_of(blocks) as (_, manifest):
        plan = manifest.plan(**shape)
        revision = revision_of(manifest, [0])
        alive = Stage(1, 1, 0, 1, 1, {0}, (), mode)
        assume(all(n > 0 for n in _alive(Reference(blocks, plan), {0}, alive)))
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
