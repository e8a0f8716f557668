"""What a journal records, and the payload bytes of each kind.

A `delivered` payload is a fixed head, then two columns for the runs of sample positions (first
position, length), and with `record="documents"` four columns for the segments: index of the
sample (differences), document, first token (sparse), length in tokens. Head, little-endian:

    coding u8 (1), flags u8 (1 = hold, 2 = documents), micros u16, epoch u32, start u64, end u64,
    digest 16 bytes, target_tokens u64, blanked_tokens u64, runs u32, segments u32

The other kinds are canonical JSON objects; a number that JSON lacks is the string "NaN",
"Infinity" or "-Infinity".
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arrays import Int64Array
from .errors import FormatError
from .formats import canonical_json, parse_json
from .journal_columns import decode_column, encode_column, encode_deltas, encode_sparse
from .journal_frame import Frame, Kind, Prepared, prepare

CODING = 1
DOCUMENTS, RUNS = "documents", "runs"
COMPACT, HOLD = "compact", "hold"
_HEAD = struct.Struct("<BBHIQQ16sQQII")
_HOLD_FLAG, _DOCUMENTS_FLAG = 1, 2
_JSON_KINDS = frozenset(Kind) - {Kind.DELIVERED}
MOST_ENTRIES = 1 << 24
"""Samples, or segments, in one record: far above any step of one rank, but bytes can claim more."""


def _empty() -> Int64Array:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeliveredRecord:
    """What one rank was given for one step, all its micro-batches together.

    Attributes:
        piece, step, rank, replica: who and when; the first step is 1.
        epoch: the epoch of every position.
        start, end: raw positions [start, end) that the whole step used up, equal on all ranks.
        positions: int64[n], raw positions of this rank's samples, in order of delivery.
        digest: 16 bytes, sum of the sample digests modulo 2^128, big-endian.
        micros: micro-batches in the step.
        target_tokens, blanked_tokens: of this rank's slice.
        mode: "compact" or "hold".
        record: "documents" with segments, "runs" without.
        sample_index, doc, token_start, token_end: int64[k] each, the segments in order;
            `sample_index` points into `positions`, tokens are counted within the document.
    """

    piece: int
    step: int
    rank: int = 0
    replica: int = 0
    epoch: int
    start: int
    end: int
    positions: Int64Array
    digest: bytes
    micros: int = 1
    target_tokens: int = 0
    blanked_tokens: int = 0
    mode: str = COMPACT
    record: str = DOCUMENTS
    sample_index: Int64Array = field(default_factory=_empty)
    doc: Int64Array = field(default_factory=_empty)
    token_start: Int64Array = field(default_factory=_empty)
    token_end: Int64Array = field(default_factory=_empty)

    def __post_init__(self) -> None:
        sizes = {len(column) for column in self.segments()}
        if len(sizes) != 1:
            raise ValueError(f"segment columns differ in length: {sorted(sizes)}")
        if len(self.digest) != 16:
            raise ValueError(f"the digest has {len(self.digest)} bytes, it needs 16")
        if self.mode not in (COMPACT, HOLD):
            raise ValueError(f"mode is {self.mode!r}; use 'compact' or 'hold'")
        if self.record not in (DOCUMENTS, RUNS):
            raise ValueError(f"record is {self.record!r}; use 'documents' or 'runs'")
        if self.step < 1 or not 0 <= self.start <= self.end:
            raise ValueError(
                f"step {self.step} over positions [{self.start}, {self.end}) is impossible; "
                "the first step is 1 and positions count up from 0"
            )
        if max(len(self.positions), len(self.doc)) > MOST_ENTRIES:
            raise ValueError(
                f"{len(self.positions)} samples and {len(self.doc)} segments are too many for one "
                f"step of one rank, at most {MOST_ENTRIES} of each fit; use more ranks"
            )

    def segments(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return (sample_index, doc, token_start, token_end)."""
        return self.sample_index, self.doc, self.token_start, self.token_end

    def sample_positions(self) -> Int64Array:
        """Return the raw position of each segment's sample, int64[k]."""
        return self.positions[self.sample_index]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRecord:
    """Any record that is not `delivered`: a kind and a flat JSON object."""

    kind: Kind
    piece: int
    step: int
    rank: int = 0
    replica: int = 0
    values: Mapping[str, Any]


def prepare_delivered(record: DeliveredRecord) -> Prepared:
    """Return the frame of `record`; the costly part of a journal write, safe in any thread."""
    first, length = position_runs(record.positions)
    documents = record.record == DOCUMENTS
    flags = _HOLD_FLAG * (record.mode == HOLD) + _DOCUMENTS_FLAG * documents
    head = _HEAD.pack(
        CODING,
        flags,
        record.micros,
        record.epoch,
        record.start,
        record.end,
        record.digest,
        record.target_tokens,
        record.blanked_tokens,
        len(first),
        len(record.doc) if documents else 0,
    )
    columns = [encode_deltas(first), encode_column(length)]
    if documents:
        columns += [
            encode_deltas(record.sample_index),
            encode_column(record.doc),
            encode_sparse(record.token_start),
            encode_column(record.token_end - record.token_start),
        ]
    return prepare(
        Kind.DELIVERED,
        b"".join([head, *columns]),
        piece=record.piece,
        step=record.step,
        rank=record.rank,
        replica=record.replica,
    )


def prepare_note(note: NoteRecord) -> Prepared:
    """Return the frame of a JSON record."""
    return prepare(
        note.kind,
        canonical_json(finite_json(note.values)),
        piece=note.piece,
        step=note.step,
        rank=note.rank,
        replica=note.replica,
    )


def delivered(frame: Frame) -> DeliveredRecord:
    """Return the record in a `delivered` frame.

    Raises:
        FormatError: another kind, an unknown coding, or columns cut short.
    """
    data = frame.payload
    if frame.kind != Kind.DELIVERED or len(data) < _HEAD.size or data[0] != CODING:
        raise FormatError(
            f"journal frame at byte {frame.offset} is not a delivered record of coding {CODING}; "
            "use the release that wrote it"
        )
    _, flags, micros, epoch, start, end, digest, target, blanked, runs, segments = (
        _HEAD.unpack_from(data)
    )
    most = min(max(end - start, 0), MOST_ENTRIES)
    if runs > most or segments > MOST_ENTRIES:
        raise FormatError(
            f"journal frame at byte {frame.offset} claims {runs} runs of samples and {segments} "
            f"segments for positions {start} to {end}; the journal was not written by this format"
        )
    documents = bool(flags & _DOCUMENTS_FLAG)
    positions, columns = _columns(data, runs, segments, most, documents=documents)
    try:
        return DeliveredRecord(
            piece=frame.piece,
            step=frame.step,
            rank=frame.rank,
            replica=frame.replica,
            epoch=epoch,
            start=start,
            end=end,
            positions=positions,
            digest=digest,
            micros=micros,
            target_tokens=target,
            blanked_tokens=blanked,
            mode=HOLD if flags & _HOLD_FLAG else COMPACT,
            record=DOCUMENTS if flags & _DOCUMENTS_FLAG else RUNS,
            sample_index=columns[0],
            doc=columns[1],
            token_start=columns[2],
            token_end=columns[2] + columns[3],
        )
    except ValueError as error:
        raise FormatError(f"journal frame at byte {frame.offset} is malformed: {error}") from error


def note(frame: Frame) -> NoteRecord:
    """Return the record in a JSON frame, numbers that JSON lacks restored.

    Raises:
        FormatError: an unknown kind, or the payload is not a JSON object.
    """
    if frame.kind not in _JSON_KINDS:
        raise FormatError(
            f"journal frame at byte {frame.offset} is of kind {frame.kind}, which this release "
            "does not know; use the release that wrote it"
        )
    values = parse_json(frame.payload, where=f"journal frame at byte {frame.offset}")
    return NoteRecord(
        kind=Kind(frame.kind),
        piece=frame.piece,
        step=frame.step,
        rank=frame.rank,
        replica=frame.replica,
        values={name: _number(value) for name, value in values.items()},
    )


def finite_json(value: Any) -> Any:
    """Return `value` with every float that JSON lacks as a string, numpy scalars as plain ones."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    # A plain dict is asked for first: asking an abstract class is slow.
    if isinstance(value, (dict, Mapping)):
        return {str(name): finite_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_json(item) for item in value]
    return value


def _number(value: Any) -> Any:
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def position_runs(positions: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return (first, length) of the runs of consecutive positions, int64[k] each."""
    breaks = np.flatnonzero(positions[1:] - positions[:-1] != 1) + 1
    if len(breaks) == 0:
        first = positions[:1]
        return first, np.full(len(first), len(positions), dtype=np.int64)
    starts = np.concatenate(([0], breaks))
    return positions[starts], np.diff(starts, append=len(positions))


def _columns(
    data: bytes, runs: int, segments: int, most: int, *, documents: bool
) -> tuple[Int64Array, list[Int64Array]]:
    """Return (positions, the four segment columns) of a delivered payload."""
    first, place = decode_column(data, _HEAD.size, runs)
    length, place = decode_column(data, place, runs)
    positions = _positions(first, length, most)
    if not documents:
        return positions, [_empty()] * 4
    columns: list[Int64Array] = []
    for _ in range(4):
        column, place = decode_column(data, place, segments)
        columns.append(column)
    index = columns[0]
    if segments and not 0 <= int(index.min()) <= int(index.max()) < len(positions):
        raise FormatError(
            f"a delivered record has {len(positions)} samples and a segment of sample "
            f"{int(index.max())}; the journal was not written by this format"
        )
    return positions, columns


def _positions(first: Int64Array, length: Int64Array, most: int) -> Int64Array:
    if len(first) == 1 and 0 < int(length[0]) <= most:
        return np.arange(int(first[0]), int(first[0]) + int(length[0]), dtype=np.int64)
    if len(first) and not 0 < int(length.min()) <= int(length.max()) <= most:
        raise FormatError("a delivered record has an empty, negative or endless run of positions")
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    if total > most:
        raise FormatError(f"a delivered record claims {total} samples, more than {most}")
    within: Int64Array = np.arange(total, dtype=np.int64)
    within += np.repeat(first - (ends - length), length)
    return within
