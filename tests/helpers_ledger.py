"""Runs with journals written by hand, for the tests of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from helpers_journal import record as make_record
from helpers_loader import arrow_corpus

from shardward.loader.cursor import Cursor
from shardward.loader.journal_frame import Kind
from shardward.loader.pieces import Piece
from shardward.loader.plan import Plan
from shardward.loader.records import DeliveredRecord, NoteRecord, prepare_delivered, prepare_note
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.loader.topology import Topology

PLAN = Plan(fingerprint="f" * 64, seed=1, seq_len=8, separator=256, pad=257)
BATCH = 4


def make_run(path: Path) -> Run:
    return Run.create(path, plan=PLAN, manifest_path=path / "no-manifest")


def cursor(step: int, piece: int | None) -> Cursor:
    return Cursor(plan_id=PLAN.plan_id, step=step, position=step * BATCH, piece=piece)


def slice_of(step: int, piece: int, rank: int, size: int, **changes: Any) -> DeliveredRecord:
    """Return rank's share of a step of 4 samples, with two segments in each sample."""
    share = BATCH // size
    low = (step - 1) * BATCH + rank * share
    values = {
        "piece": piece,
        "rank": rank,
        "start": (step - 1) * BATCH,
        "end": step * BATCH,
        "positions": np.arange(low, low + share),
        "doc": np.arange(2 * share) + 2 * low,
        "digest": (step * 1000 + rank).to_bytes(16, "big"),
    }
    return make_record(step, share, **{**values, **changes})


def note(kind: Kind, step: int, piece: int, rank: int = 0, **values: Any) -> NoteRecord:
    return NoteRecord(kind=kind, piece=piece, step=step, rank=rank, values=values)


def train(
    run: Run,
    steps: Iterable[int],
    start: Cursor | None = None,
    *,
    size: int = 1,
    reason: str = "restart",
    ranks: Iterable[int] | None = None,
    launch: str = "",
    digest: bytes | None = None,
    **options: Any,
) -> Piece:
    """Open a piece at `start` and journal `steps` on every rank, with a loss."""
    start = start or cursor(0, None)
    token = launch or f"launch-{len(run.pieces()) + 1}"
    steps = list(steps)
    for rank in range(size) if ranks is None else ranks:
        piece = run.open_piece(
            cursor=start,
            topology=Topology(dp_rank=rank, dp_size=size),
            reason=reason,
            launch=token,
            **options,
        )
        with run.journal_writer(piece, rank, sync_seconds=0) as writer:
            for step in steps:
                changes = {} if digest is None else {"digest": digest}
                record = slice_of(step, piece.piece, rank, size, **changes)
                writer.append(prepare_delivered(record))
                writer.append(prepare_note(note(Kind.COMPLETED, step, piece.piece, rank)))
                loss = note(Kind.TELEMETRY, step, piece.piece, rank, loss=float(step), lr=0.5)
                writer.append(prepare_note(loss))
    return piece


def docs(table: Any) -> list[int]:
    found: list[int] = table["doc"].to_pylist()
    return found


def train_really(home: Path, steps: int = 6, **options: Any) -> tuple[Run, list[Any]]:
    """Train `steps` steps of 4 packed samples over a small real corpus; return run and batches."""
    blocks = [[f"block {b} text {t} " * (1 + (b + t) % 4) for t in range(10)] for b in range(6)]
    manifest = arrow_corpus(home / "corpus", blocks, shards=2)
    plan = manifest.plan(seed=3, seq_len=32, window_blocks=2)
    run = Run.create(home / "run", plan=plan, manifest_path=manifest.path)
    with ShardLoader(manifest, plan, run=run, batch=BATCH, **options) as loader:
        batches = []
        for step in range(1, steps + 1):
            batches.append(next(loader))
            loader.observe(step, loss=3.0 - step / 10)
        loader.checkpoint(steps, home / "checkpoint")
    return run, batches
