"""Small corpora on disk, and a slow model of what a loader must deliver from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc
from reference_order import ReferenceSample, epoch_samples

from shardward.loader import Manifest, Plan, Revision, build_manifest

SEPARATOR, PAD = 256, 257

Texts = Sequence[Sequence[str]]


def write_arrow(path: Path, blocks: Texts) -> Path:
    """Write one record batch per block, empty ones included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("text", pa.string())])
    with ipc.new_file(str(path), schema) as writer:
        for block in blocks:
            writer.write_batch(pa.record_batch([pa.array(block, pa.string())], schema=schema))
    return path


def write_parquet(path: Path, rows: dict[str, list[object]], *, group: int = 1024) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows), path, row_group_size=group)
    return path


def arrow_corpus(directory: Path, blocks: Texts, shards: int = 1) -> Manifest:
    """Index `blocks`, spread over some Arrow files in order."""
    per = -(-len(blocks) // shards)
    for number in range(shards):
        part = blocks[number * per : (number + 1) * per]
        write_arrow(directory / "data" / f"part-{number:03d}.arrow", part)
    return build_manifest([str(directory / "data")], directory / "manifest")


def texts_of(blocks: Texts) -> list[bytes]:
    return [text.encode() for block in blocks for text in block]


def revision_of(manifest: Manifest, documents: Sequence[int], number: int = 1) -> Revision:
    chosen = np.array(sorted(set(documents)), dtype=np.int64)
    return Revision(
        number=number,
        manifest=manifest.fingerprint,
        documents=chosen,
        hashes=bytes(16 * chosen.size),
    )


@dataclass
class Expected:
    """One step as it must come out: all ranks together."""

    step: int
    epoch: int
    end: int
    positions: list[int]
    rows: list[list[int]]
    blanked: int


class Reference:
    """Delivers a plan's steps with Python lists and loops alone."""

    def __init__(self, blocks: Texts, plan: Plan) -> None:
        self.texts = texts_of(blocks)
        self.plan = plan
        held = set() if plan.holdout is None else plan.holdout.members(len(self.texts)).tolist()
        self.held_out = set(held)
        self.lengths = [[len(text.encode()) for text in block] for block in blocks]
        self.epochs: dict[int, list[ReferenceSample]] = {}

    def samples(self, epoch: int) -> list[ReferenceSample]:
        if epoch not in self.epochs:
            self.epochs[epoch] = epoch_samples(
                blocks=self.lengths,
                window_blocks=self.plan.window_blocks,
                seq_len=self.plan.seq_len,
                separator=self.plan.separator is not None,
                held_out=self.held_out,
                seed=self.plan.seed,
                epoch=epoch,
            )
        return self.epochs[epoch]

    def row(self, sample: ReferenceSample, gone: set[int], *, skipped: bool) -> list[int]:
        size = self.plan.seq_len or sum(end - start for _, start, end, _ in sample.pieces)
        row = [PAD] * size
        for doc, start, end, offset in sample.pieces:
            if doc not in gone and not skipped:
                tokens = [*self.texts[doc], SEPARATOR][start:end]
                row[offset : offset + end - start] = tokens
        return row

    def steps(
        self,
        *,
        batch: int | Sequence[tuple[int, int]],
        start: tuple[int, int, int],
        epochs: int,
        excluded: set[int],
        skips: Sequence[tuple[int, int, int]] = (),
        mode: str = "compact",
        end: str = "drop",
    ) -> list[Expected]:
        """Return all steps from (step, epoch, position) on; `batch` may change with the step."""
        step, epoch, position = start
        sizes = [(1, batch)] if isinstance(batch, int) else batch
        found: list[Expected] = []
        while epoch < epochs:
            left = [s for s in self.samples(epoch) if s.position >= position]
            skipped = {
                s.position
                for s in left
                if any(e == epoch and low <= s.position < high for e, low, high in skips)
            }
            alive = [
                s
                for s in left
                if mode == "hold"
                or (
                    s.position not in skipped
                    and any(piece[0] not in excluded for piece in s.pieces)
                )
            ]
            size = [samples for first, samples in sizes if first <= step + 1][-1]
            if len(alive) < size and (end == "drop" or not alive):
                epoch, position = epoch + 1, 0
                continue
            taken = alive[:size]
            rows = [self.row(s, excluded, skipped=s.position in skipped) for s in taken]
            blanked = sum(
                high - low
                for s in taken
                for doc, low, high, _ in s.pieces
                if doc in excluded or s.position in skipped
            )
            is_full = len(taken) == size
            position = taken[-1].position + 1 if is_full else len(self.samples(epoch))
            pad = size - len(taken)
            step += 1
            found.append(
                Expected(
                    step=step,
                    epoch=epoch,
                    end=position,
                    positions=[s.position for s in taken] + [-1] * pad,
                    rows=rows + [[PAD] * (self.plan.seq_len or 0)] * pad,
                    blanked=blanked,
                )
            )
        return found
