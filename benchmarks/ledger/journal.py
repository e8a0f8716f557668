"""What a record costs the calling thread, and its size."""

from __future__ import annotations

import os
import queue
import threading
import time
from pathlib import Path

import numpy as np

from shardward.loader.journal import JournalWriter
from shardward.loader.journal_frame import HEADER, Prepared
from shardward.loader.records import DeliveredRecord, prepare_delivered

from .data import Corpus, records
from .results import percentile, report


def cost(home: Path, *, steps: int = 3000, batch: int = 160) -> None:
    """Journal writes beside bare writes of the same bytes, while a thread prepares the next."""
    made = [ranks[0] for ranks in records(Corpus(1 << 22), batch, 1, steps * batch * 2)][:steps]
    ready: queue.Queue[Prepared | None] = queue.Queue(maxsize=8)

    def prepare() -> None:
        for record in made:
            ready.put(prepare_delivered(record))
        ready.put(None)

    thread = threading.Thread(target=prepare)
    bare = os.open(home / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ours: list[float] = []
    theirs: list[float] = []
    with JournalWriter(home / "cost.swj") as writer:
        thread.start()
        while (frame := ready.get()) is not None:
            data = bytes(HEADER.size) + frame.payload
            # Taking turns at going first, so that neither always pays for a cold cache.
            turn = len(ours) % 2
            for who in (turn, 1 - turn):
                began = time.perf_counter()
                if who:
                    os.write(bare, data)
                    theirs.append(time.perf_counter() - began)
                else:
                    writer.append(frame)
                    ours.append(time.perf_counter() - began)
            time.sleep(0.0005)
        thread.join()
    os.close(bare)
    p50, p99 = percentile(ours, 0.5), percentile(ours, 0.99)
    bare50 = percentile(theirs, 0.5)
    report(
        "journal.calling_thread",
        bar="p50 <= 2x a bare write of the same bytes, p99 <= 1 ms",
        holds=p50 <= 2 * bare50 and p99 <= 1e-3,
        p50_us=round(p50 * 1e6, 1),
        p99_us=round(p99 * 1e6, 1),
        bare_p50_us=round(bare50 * 1e6, 1),
        bare_p99_us=round(percentile(theirs, 0.99) * 1e6, 1),
        ratio=round(p50 / bare50, 2),
        bytes=round(float(np.mean([len(prepare_delivered(r).payload) for r in made[:50]]))),
        records=len(ours),
    )


def size(*, batch: int = 256, steps: int = 200) -> None:
    """Bytes per id in documents mode, per sample in runs mode, with ordinals up to 1e9."""
    made = [ranks[0] for ranks in records(Corpus(1_000_000_512), batch, 1, steps * batch * 2)]
    ids = sum(len(record.doc) for record in made)
    full = sum(HEADER.size + len(prepare_delivered(record).payload) for record in made)
    lean = sum(HEADER.size + len(prepare_delivered(_lean(record)).payload) for record in made)
    report(
        "journal.bytes_per_id",
        bar="<= 8.2 bytes per id at >= 512 ids per record",
        holds=full / ids <= 8.2,
        bytes_per_id=round(full / ids, 2),
        ids_per_record=round(ids / len(made)),
    )
    report(
        "journal.bytes_per_sample_in_runs_mode",
        bar="<= 2 bytes per sample",
        holds=lean / (len(made) * batch) <= 2,
        bytes_per_sample=round(lean / (len(made) * batch), 2),
        samples_per_record=batch,
    )


def _lean(record: DeliveredRecord) -> DeliveredRecord:
    return DeliveredRecord(
        piece=record.piece,
        step=record.step,
        epoch=record.epoch,
        start=record.start,
        end=record.end,
        positions=record.positions,
        digest=record.digest,
        record="runs",
    )
