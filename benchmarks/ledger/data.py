"""A large run made from a real order: records as a loader would write them, without a corpus.

Document lengths follow the corpus that the loader was measured on (median 401 tokens, mean 899):
log-normal, in blocks of 1,024 documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from shardward.loader.cursor import Cursor
from shardward.loader.geometry import Geometry
from shardward.loader.order import EpochOrder, Layout
from shardward.loader.plan import Plan
from shardward.loader.records import DeliveredRecord, prepare_delivered
from shardward.loader.run import Run
from shardward.loader.topology import Topology

BLOCK = 1024
SEQ_LEN = 2048
LENGTHS = np.minimum(np.random.default_rng(0).lognormal(np.log(401), 1.27, 1 << 20), 60_000).astype(
    np.uint32
)


@dataclass(frozen=True, slots=False)
class Corpus:
    """As much of a manifest as order and ledger ask for."""

    documents: int
    fingerprint: str = "b" * 64

    def lengths(self, low: int, high: int) -> np.ndarray:
        return LENGTHS[np.arange(low, high) % len(LENGTHS)]

    def geometry(self) -> Geometry:
        return self._geometry

    @cached_property
    def _geometry(self) -> Geometry:
        blocks = self.documents // BLOCK
        per_block = LENGTHS.reshape(-1, BLOCK).sum(axis=1, dtype=np.int64)
        return Geometry(
            block_documents=np.full(blocks, BLOCK, dtype=np.int64),
            block_tokens=per_block[np.arange(blocks) % len(per_block)],
        )

    @property
    def plan(self) -> Plan:
        return Plan(
            fingerprint=self.fingerprint, seed=5, seq_len=SEQ_LEN, separator=0, pad=1,
        )  # fmt: skip


def records(corpus: Corpus, batch: int, ranks: int, ids: int) -> Iterator[list[DeliveredRecord]]:
    """Yield the records of all ranks, step by step, until `ids` segments have been given."""
    order = EpochOrder(Layout(corpus.plan, corpus.geometry(), corpus.lengths), 0)
    step, given, window, table = 0, 0, -1, None
    share = batch // ranks
    while given < ids:
        step += 1
        positions = np.arange((step - 1) * batch, step * batch)
        found = []
        first, last = order.window_of(int(positions[0])), order.window_of(int(positions[-1]))
        edges = np.searchsorted(positions, order.window_starts[first + 1 : last + 1])
        for wanted, part in enumerate(np.split(positions, edges), start=first):
            if wanted != window:
                window, table = wanted, order.window(wanted)
            found.append(table.segments(part))  # type: ignore[union-attr]
        starts = np.cumsum([0] + [int(f.sample[-1]) + 1 for f in found])
        sample = np.concatenate([f.sample + starts[i] for i, f in enumerate(found)])
        doc, low, high = (
            np.concatenate([getattr(f, name) for f in found]) for name in ("doc", "start", "end")
        )
        made = []
        for rank in range(ranks):
            own = slice(*np.searchsorted(sample, [rank * share, (rank + 1) * share]))
            made.append(
                DeliveredRecord(
                    piece=1,
                    step=step,
                    rank=rank,
                    epoch=0,
                    start=int(positions[0]),
                    end=int(positions[-1]) + 1,
                    positions=positions[rank * share : (rank + 1) * share],
                    digest=(step * ranks + rank).to_bytes(16, "big"),
                    sample_index=sample[own] - rank * share,
                    doc=doc[own],
                    token_start=low[own],
                    token_end=high[own],
                )
            )
        given += len(doc)
        yield made


def write_run(home: Path, corpus: Corpus, *, batch: int, ranks: int, ids: int) -> tuple[Run, int]:
    """Write the journals of a run and return it with the number of ids."""
    run = Run.create(home, plan=corpus.plan, manifest_path=home / "none")
    writers = []
    for rank in range(ranks):
        piece = run.open_piece(
            cursor=Cursor(plan_id=run.plan_id),
            topology=Topology(dp_rank=rank, dp_size=ranks),
            launch="benchmark",
        )
        writers.append(run.journal_writer(piece, rank, sync_seconds=1))
    total = 0
    for step in records(corpus, batch, ranks, ids):
        for writer, record in zip(writers, step, strict=True):
            writer.append(prepare_delivered(record))
            total += len(record.doc)
    for writer in writers:
        writer.close()
    return run, total
