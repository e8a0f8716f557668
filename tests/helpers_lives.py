"""The property that all of the loader's tests share: a job with many lives delivers the reference.

A life is one start of the job at some world size, until it is killed. What all ranks delivered
together is compared, step by step, with the slow model of `helpers_loader.Reference`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from helpers_loader import PAD, Expected, Reference, arrow_corpus
from hypothesis import assume
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
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.records import DeliveredRecord, delivered
from shardward.loader.revision_store import publish_revision_files
from shardward.loader.torch import TorchLoader

words = st.text(alphabet="abcdefé漢", max_size=30)
corpora = st.lists(st.lists(words, max_size=7), min_size=1, max_size=8)
"""Blocks of any size, empty ones included; a batch may be more than an epoch has."""
ample = st.lists(st.lists(words, min_size=3, max_size=9), min_size=8, max_size=10).map(
    lambda blocks: [blocks[0] * 2, [], ["giant " * 40], *blocks[1:]]
)
"""Enough for several batches, with an empty block and one giant document."""
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
    """One start of the job: its world, and the number of steps after which it is killed.

    `workers` counts processes of a torch DataLoader; None reads without torch.
    """

    world: int
    micros: int
    threads: int
    prefetch_bytes: int
    steps: int
    excluded: set[int]
    skips: tuple[tuple[int, int, int], ...]
    mode: Mode
    workers: int | None = None


WORLDS = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2), (8, 1)]
"""World sizes with a number of micro-batches that divides 24."""


def lives_in(worlds: list[tuple[int, int]]) -> st.SearchStrategy[Stage]:
    """Return stages in one of the `worlds`."""

    def stage(world: tuple[int, int], **values: Any) -> Stage:
        return Stage(world=world[0], micros=world[1], **values)

    return st.builds(
        stage,
        st.sampled_from(worlds),
        threads=st.integers(0, 2),
        prefetch_bytes=st.sampled_from([1, 1 << 12, 1 << 24]),
        steps=st.integers(1, 5),
        excluded=st.sets(st.integers(0, 20), max_size=4),
        skips=st.lists(
            st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(10, 12)), max_size=1
        ).map(tuple),
        mode=st.sampled_from(["compact", "hold"]),
    )


stages = lives_in(WORLDS)
schedules = st.sampled_from([((1, 24),), ((1, 24), (3, 48)), ((1, 48), (2, 24), (6, 72))])
Schedule = tuple[tuple[int, int], ...]


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
    manifest: Manifest, plan: Plan, run: Run, stage: Stage, batch: Schedule, **load: Any
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
        streams = [_stream(stack, loader, stage) for loader in ranks]
        per_step: list[list[Batch]] = []
        for _ in range(stage.steps):
            got: list[Batch] = []
            for stream in streams:
                got += [found for _, found in zip(range(stage.micros), stream, strict=False)]
            if not got:
                break
            per_step.append(got)
        piece = ranks[0].piece
        assert piece is not None
        return per_step, per_step[-1][-1].cursor_after if per_step else None, piece


def _stream(stack: ExitStack, loader: ShardLoader, stage: Stage) -> Iterator[Batch]:
    """Return the batches of a rank, read by torch workers where the stage has some."""
    if stage.workers is None:
        return loader
    options: dict[str, Any] = {"multiprocessing_context": "fork"} if stage.workers else {}
    batches = TorchLoader(loader, num_workers=stage.workers, **options)
    stack.callback(batches.close)
    return (found.batch for found in batches)


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


def deliver_and_compare(
    blocks: list[list[str]],
    shape: dict[str, Any],
    batch: Schedule,
    end: Literal["drop", "pad"],
    lives: list[Stage],
) -> int:
    """Play the lives one after the other; return the number of steps that were compared."""
    assume(any(text for block in blocks for text in block))
    compared = 0
    with corpus_of(blocks) as (directory, manifest):
        plan = manifest.plan(**shape)
        reference = Reference(blocks, plan)
        run = Run.create(directory / "run", plan=plan, manifest_path=manifest.path)
        cursor: Cursor | None = None
        start = (0, 0, 0)
        for number, stage in enumerate(lives, start=1):
            excluded = {doc for doc in stage.excluded if doc < len(reference.texts)}
            least = 1 if end == "pad" else max(size for _, size in batch)
            if any(samples < least for samples in alive(reference, excluded, stage)):
                return compared
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
            compared += len(per_step)
            if after is None:
                return compared
            cursor, start = after, (after.step, after.epoch, after.position)
    return compared


def alive(reference: Reference, excluded: set[int], stage: Stage) -> list[int]:
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
