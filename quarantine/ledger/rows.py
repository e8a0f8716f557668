"""From journal frames to the rows of the ledger's tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...loader.arrays import Int64Array
from ...loader.errors import FormatError
from ...loader.formats import canonical_json
from ...loader.journal_frame import Frame, Kind
from ...loader.journal_lookup import journal_name
from ...loader.records import DeliveredRecord, delivered, finite_json, note, position_runs

BIG, TEXT, REAL = pa.int64(), pa.string(), pa.float64()
_WHO = {"piece": BIG, "step": BIG, "rank": BIG, "replica": BIG}
TABLES: Mapping[str, pa.Schema] = {
    "deliveries": pa.schema(
        {
            **_WHO,
            "epoch": BIG,
            "first_position": BIG,
            "end_position": BIG,
            "samples": BIG,
            "segments": BIG,
            "digest": pa.binary(),
            "micros": BIG,
            "target_tokens": BIG,
            "blanked_tokens": BIG,
            "mode": TEXT,
            "record": TEXT,
            "time_ns": BIG,
        }
    ),
    "completions": pa.schema({**_WHO, "time_ns": BIG}),
    "signals": pa.schema({**_WHO, "name": TEXT, "value": REAL, "text": TEXT, "time_ns": BIG}),
    "sample_losses": pa.schema(
        {"piece": BIG, "step": BIG, "rank": BIG, "sample": BIG, "loss": REAL}
    ),
    "checkpoints": pa.schema({**_WHO, "path": TEXT, "cursor": TEXT, "time_ns": BIG}),
    "events": pa.schema({**_WHO, "event": TEXT, "content": TEXT, "time_ns": BIG}),
    "journal_damage": pa.schema(
        {"journal": TEXT, "first_byte": BIG, "end_byte": BIG, "reason": TEXT}
    ),
}
RUN_COLUMNS = ("piece", "step", "rank", "epoch", "first_position", "samples")
SEGMENT_COLUMNS = (
    "piece",
    "step",
    "rank",
    "epoch",
    "sample_position",
    "doc",
    "starts",
    "token_count",
)
_LARGEST = (1 << 63) - 1


@dataclass(slots=True)
class Rows:
    """Rows collected for one transaction."""

    small: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {name: [] for name in TABLES}
    )
    records: list[DeliveredRecord] = field(default_factory=list)
    ids: int = 0

    def add(self, journal: str, frame: Frame) -> None:
        """Add what `frame` says; a frame that makes no sense becomes a row of the damage."""
        try:
            if frame.step > _LARGEST:
                raise FormatError(f"step {frame.step} is over 2^63 - 1")
            _check_place(journal, frame)
            self._add(frame)
        except (
            FormatError,
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
            MemoryError,
        ) as error:
            self.damage(journal, frame.offset, frame.end, f"record without sense: {error}")

    def damage(self, journal: str, first: int, end: int, reason: str) -> None:
        """Add a row of the damage: bytes [first, end) of `journal`."""
        row = {"journal": journal, "first_byte": first, "end_byte": end, "reason": reason}
        self.small["journal_damage"].append(row)

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows by table, big tables ordered by piece, step and rank; empty ones left."""
        found = {
            name: pa.Table.from_pylist(rows, schema=TABLES[name])
            for name, rows in self.small.items()
            if rows
        }
        records = sorted(self.records, key=lambda record: (record.piece, record.step, record.rank))
        if records:
            found["sample_runs"] = _run_table(records)
        documented = [record for record in records if len(record.doc)]
        if documented:
            found["packed_segments"] = _segment_table(documented)
        return found

    def _add(self, frame: Frame) -> None:
        if frame.kind == Kind.DELIVERED:
            self._add_delivered(frame)
        elif frame.kind != Kind.BRANCH:
            add = _NOTES.get(frame.kind)
            if add is None:
                raise FormatError(f"kind {frame.kind} is unknown to this release")
            table, rows = add(dict(note(frame).values))
            for row in rows:
                _check_texts(row)
            who = _who(frame) if "replica" in TABLES[table].names else _rank(frame)
            self.small[table] += [{**who, **row, "time_ns": _time(frame)} for row in rows]

    def _add_delivered(self, frame: Frame) -> None:
        record = delivered(frame)
        if max(record.end, record.target_tokens, record.blanked_tokens) > _LARGEST:
            raise FormatError("a number is over 2^63 - 1")
        _check_signs(record)
        self.small["deliveries"].append(
            {
                **_who(frame),
                "epoch": record.epoch,
                "first_position": record.start,
                "end_position": record.end,
                "samples": len(record.positions),
                "segments": len(record.doc),
                "digest": record.digest,
                "micros": record.micros,
                "target_tokens": record.target_tokens,
                "blanked_tokens": record.blanked_tokens,
                "mode": record.mode,
                "record": record.record,
                "time_ns": _time(frame),
            }
        )
        if record.replica == 0:
            self.records.append(record)
            self.ids += len(record.doc)


def _check_place(journal: str, frame: Frame) -> None:
    """Refuse a record of another process: a journal that was copied or renamed."""
    if journal != journal_name(frame.piece, frame.rank, frame.replica):
        raise FormatError(
            f"it is of piece {frame.piece}, rank {frame.rank}, replica {frame.replica}"
        )


def _time(frame: Frame) -> int:
    """Return the time of `frame`, which a broken clock may have put behind the year 2262."""
    return min(frame.time_ns, _LARGEST)


def _check_texts(row: Mapping[str, Any]) -> None:
    """Refuse half of a surrogate pair, which JSON can spell and no table can hold."""
    for value in row.values():
        if isinstance(value, str):
            value.encode()


def _check_signs(record: DeliveredRecord) -> None:
    if len(record.positions) and record.positions.min() < 0:
        raise FormatError("a sample position is negative")
    if not len(record.doc):
        return
    if min(record.doc.min(), record.token_start.min()) < 0:
        raise FormatError("a document or token is negative")
    if (record.token_end < record.token_start).any():
        raise FormatError("a segment ends before it starts")


def _who(frame: Frame) -> dict[str, int]:
    return {**_rank(frame), "replica": frame.replica}


def _rank(frame: Frame) -> dict[str, int]:
    return {"piece": frame.piece, "step": frame.step, "rank": frame.rank}


def _completed(values: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    return "completions", [{}]


def _telemetry(values: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    return "signals", [
        {"name": name, "value": float(value), "text": None}
        if isinstance(value, (int, float))
        else {"name": name, "value": None, "text": json.dumps(value)}
        for name, value in values.items()
    ]


def _sample_loss(values: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    losses = [float(loss) for loss in values["loss"]]
    return "sample_losses", [{"sample": i, "loss": loss} for i, loss in enumerate(losses)]


def _checkpoint(values: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    cursor = canonical_json(values["cursor"]).decode()
    path = values.get("path")
    return "checkpoints", [{"path": None if path is None else str(path), "cursor": cursor}]


def _event(values: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    content = canonical_json(finite_json(values)).decode()
    event = values.get("event")
    return "events", [{"event": None if event is None else str(event), "content": content}]


_NOTES: Mapping[int, Callable[[dict[str, Any]], tuple[str, list[dict[str, Any]]]]] = {
    Kind.COMPLETED: _completed,
    Kind.TELEMETRY: _telemetry,
    Kind.SAMPLE_LOSS: _sample_loss,
    Kind.CHECKPOINT: _checkpoint,
    Kind.EVENT: _event,
}


def _run_table(records: list[DeliveredRecord]) -> pa.Table:
    runs = [position_runs(record.positions) for record in records]
    counts = np.array([len(first) for first, _ in runs])
    first = np.concatenate([first for first, _ in runs])
    samples = np.concatenate([samples for _, samples in runs])
    return pa.table([*_repeated(records, counts), first, samples], names=list(RUN_COLUMNS))


def _segment_table(records: list[DeliveredRecord]) -> pa.Table:
    counts = np.array([len(record.doc) for record in records])
    start = np.concatenate([record.token_start for record in records])
    end = np.concatenate([record.token_end for record in records])
    columns = [
        *_repeated(records, counts),
        np.concatenate([record.sample_positions() for record in records]),
        np.concatenate([record.doc for record in records]),
        _sparse_lists(start),
        end - start,
    ]
    return pa.table(columns, names=list(SEGMENT_COLUMNS))


def _sparse_lists(values: Int64Array) -> pa.ListArray:
    """Return [value] for each value that is not 0, and [] for the others."""
    some = values != 0
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(some, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[some]))


def _repeated(
    records: list[DeliveredRecord], counts: Int64Array
) -> list[npt.NDArray[np.integer[Any]]]:
    """Return piece, step, rank and epoch of each record, as often as it has rows."""
    columns = (
        np.array([record.piece for record in records], dtype=np.uint32),
        np.array([record.step for record in records], dtype=np.int64),
        np.array([record.rank for record in records], dtype=np.uint32),
        np.array([record.epoch for record in records], dtype=np.uint32),
    )
    return [np.repeat(column, counts) for column in columns]
