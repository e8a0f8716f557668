"""Delivered steps for the proof, from the ledger or the journals, and tokens from the corpus."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...loader.errors import IntegrityError
from ...loader.journal import iter_journal
from ...loader.journal_frame import Kind
from ...loader.records import DeliveredRecord, delivered
from ..ledger.views import condition, window
from .proof import DeliveredStep, Tokens

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ...loader.run import Run
    from ..ledger.ledger import Ledger

MOST_STEPS = 1 << 62


def journal_steps(run: Run, piece: int, first: int, last: int | None = None) -> list[DeliveredStep]:
    """Return steps `first`..`last` of a branch piece, read from the journals of all its ranks.

    Raises:
        IntegrityError: ranks of one step disagree about its raw range.
    """
    records: dict[int, list[DeliveredRecord]] = {}
    for path in run.journals():
        if not path.name.startswith(f"p{piece:06d}-"):
            continue
        for part in iter_journal(path):
            for frame in part.frames:
                wanted = frame.step >= first and (last is None or frame.step <= last)
                if frame.kind == Kind.DELIVERED and frame.replica == 0 and wanted:
                    records.setdefault(frame.step, []).append(delivered(frame))
    return [join_ranks(records[step]) for step in sorted(records)]


def ledger_steps(
    ledger: Ledger, piece: int, first: int, last: int | None = None
) -> list[DeliveredStep]:
    """Return steps `first`..`last` of the history that leads to a branch piece, as recorded.

    A trainer that was restarted since `first` has its steps in several pieces.
    """
    last = MOST_STEPS if last is None else last
    where = condition(window(ledger.spans(piece), int(first), int(last)))
    runs = _by_step(
        ledger.sql(
            f"SELECT step, first_position, samples FROM sample_runs WHERE {where} "  # noqa: S608
            "ORDER BY step, rank, rowid"
        )
    )
    segments = _by_step(
        ledger.sql(
            "SELECT step, sample_position, doc, coalesce(starts[1], 0) AS token_start, "  # noqa: S608
            "coalesce(starts[1], 0) + token_count AS token_end FROM packed_segments "
            f"WHERE {where} ORDER BY step, rank, rowid"
        )
    )
    rows = ledger.steps(first, last, piece).to_pylist()
    return [_from_ledger(row, runs.get(row["step"]), segments.get(row["step"])) for row in rows]


def _by_step(table: pa.Table) -> dict[int, pa.Table]:
    """Split a table that is ordered by step."""
    steps = table["step"].to_numpy()
    edges = np.flatnonzero(np.diff(steps, prepend=-1, append=-1))
    spans = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return {int(steps[low]): table.slice(low, high - low) for low, high in spans}


def _from_ledger(
    row: dict[str, Any], runs: pa.Table | None, segments: pa.Table | None
) -> DeliveredStep:
    starts = runs.select(["first_position", "samples"]).to_pylist() if runs is not None else ()
    positions = [
        np.arange(r["first_position"], r["first_position"] + r["samples"], dtype=np.int64)
        for r in starts
    ]
    empty = np.empty(0, np.int64)
    names = ("sample_position", "doc", "token_start", "token_end")
    columns = {n: segments[n].to_numpy() if segments is not None else empty for n in names}
    return DeliveredStep(
        step=row["step"],
        epoch=row["epoch"],
        start=row["first_position"],
        end=row["end_position"],
        mode=row["mode"],
        digest=int.from_bytes(row["digest"], "big"),
        positions=np.concatenate(positions) if positions else empty,
        **columns,
    )


def join_ranks(records: Iterable[DeliveredRecord]) -> DeliveredStep:
    """Return one step from the records of its ranks; errors as in `journal_steps`."""
    ranks = sorted(records, key=lambda record: record.rank)
    lead = ranks[0]
    for record in ranks:
        if (record.epoch, record.start, record.end) != (lead.epoch, lead.start, lead.end):
            raise IntegrityError(
                f"step {lead.step}: rank {lead.rank} went over [{lead.start}, {lead.end}), rank "
                f"{record.rank} over [{record.start}, {record.end}); the ranks did not run one plan"
            )
    digest = sum(int.from_bytes(record.digest, "big") for record in ranks) % (1 << 128)
    return DeliveredStep(
        step=lead.step,
        epoch=lead.epoch,
        start=lead.start,
        end=lead.end,
        mode=lead.mode,
        digest=digest,
        positions=np.concatenate([r.positions for r in ranks]),
        sample_position=np.concatenate([r.sample_positions() for r in ranks]),
        doc=np.concatenate([r.doc for r in ranks]),
        token_start=np.concatenate([r.token_start for r in ranks]),
        token_end=np.concatenate([r.token_end for r in ranks]),
    )


def corpus_tokens(manifest: Manifest, blocks: int = 32) -> Tokens:
    """Return a reader of documents' tokens that keeps `blocks` blocks in memory."""
    open_block = lru_cache(maxsize=blocks)(manifest.open_block)
    first = manifest.geometry().first_document

    def tokens(doc: int) -> npt.NDArray[Any]:
        block = int(manifest.geometry().block_of(np.array([doc], np.int64))[0])
        return open_block(block).document(doc - int(first[block]))

    return tokens
