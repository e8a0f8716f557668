"""Records and journals for the tests of the journal, the run and the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shardward.loader.journal import JournalWriter
from shardward.loader.journal_frame import Kind
from shardward.loader.records import DeliveredRecord, NoteRecord, prepare_delivered, prepare_note

COLUMNS = ("positions", "sample_index", "doc", "token_start", "token_end")


def record(step: int = 1, samples: int = 4, **changes: Any) -> DeliveredRecord:
    """Return a delivered record: `samples` consecutive positions, two segments in each."""
    first = (step - 1) * samples
    values: dict[str, Any] = {
        "piece": 1,
        "step": step,
        "epoch": 0,
        "start": first,
        "end": first + samples,
        "positions": np.arange(first, first + samples),
        "digest": step.to_bytes(16, "big"),
        "target_tokens": 10 * samples,
        "sample_index": np.repeat(np.arange(samples), 2),
        "doc": np.arange(2 * samples) + 1000 * step,
        "token_start": np.tile([5, 0], samples),
        "token_end": np.tile([9, 6], samples),
    }
    return DeliveredRecord(**{**values, **changes})


def facts(value: DeliveredRecord) -> dict[str, Any]:
    """Return the fields of a record with plain lists for arrays, so that == works."""
    found = {name: getattr(value, name) for name in DeliveredRecord.__dataclass_fields__}
    return {name: item.tolist() if name in COLUMNS else item for name, item in found.items()}


def completed(step: int, **changes: Any) -> NoteRecord:
    """Return the completed note of `step` with a loss."""
    values: dict[str, Any] = {"kind": Kind.COMPLETED, "piece": 1, "step": step, "values": {}}
    return NoteRecord(**{**values, **changes})


def write_journal(path: Path, steps: int = 3) -> Path:
    """Write a journal of `steps` delivered and completed steps."""
    with JournalWriter(path, sync_seconds=0) as writer:
        for step in range(1, steps + 1):
            writer.append(prepare_delivered(record(step)))
            writer.append(prepare_note(completed(step, values={"loss": 2.5})))
    return path
