"""Encoding: what goes into a frame comes out of it, in few bytes, and the bytes never change."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from helpers_journal import facts, record
from hypothesis import given
from hypothesis import strategies as st

from shardward.loader.errors import FormatError
from shardward.loader.journal_columns import (
    decode_column,
    encode_column,
    encode_deltas,
    encode_sparse,
)
from shardward.loader.journal_frame import HEADER, Kind, prepare, scan, seal
from shardward.loader.records import NoteRecord, delivered, note, prepare_delivered, prepare_note

GOLDEN = Path(__file__).parent / "golden" / "journal.v1.hex"
any_int64 = st.integers(-(1 << 63), (1 << 63) - 1)
columns = st.lists(any_int64 | st.integers(0, 1) | st.integers(0, 70_000), max_size=40)


@given(columns)
def test_any_integers_survive_every_coding(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    for encode in (encode_column, encode_deltas, encode_sparse):
        data = encode(array)
        decoded, end = decode_column(data, 0, len(values))

        assert (decoded.tolist(), end) == (values, len(data))


@given(columns.filter(bool), st.data())
def test_a_cut_column_is_refused_or_shorter_never_a_crash(
    values: list[int], draw: st.DataObject
) -> None:
    data = encode_sparse(np.array(values, dtype=np.int64))
    cut = draw.draw(st.integers(0, len(data) - 1))

    with pytest.raises(FormatError):
        decode_column(data[:cut], 0, len(values))


def through_a_frame(prepared: object) -> object:
    data = seal(prepared, time_ns=1, offset=0) + prepared.payload  # type: ignore[arg-type, attr-defined]
    (frame,) = scan(data).frames
    return delivered(frame) if frame.kind == Kind.DELIVERED else note(frame)


@pytest.mark.parametrize("mode", ["compact", "hold"])
def test_a_delivered_record_comes_back_whole(mode: str) -> None:
    sent = record(7, rank=3, replica=2, epoch=1, micros=2, blanked_tokens=5, mode=mode)

    assert facts(through_a_frame(prepare_delivered(sent))) == facts(sent)  # type: ignore[arg-type]


def test_positions_with_holes_come_back_exactly() -> None:
    sent = record(2, positions=np.array([9, 10, 30, 12]))

    assert facts(through_a_frame(prepare_delivered(sent))) == facts(sent)  # type: ignore[arg-type]


def test_an_empty_step_comes_back_empty() -> None:
    none = np.empty(0, dtype=np.int64)
    sent = record(1, 0, positions=none, sample_index=none, doc=none, token_start=none)

    assert facts(through_a_frame(prepare_delivered(sent))) == facts(sent)  # type: ignore[arg-type]


def test_runs_mode_leaves_the_segments_out() -> None:
    got = facts(through_a_frame(prepare_delivered(record(3, record="runs"))))  # type: ignore[arg-type]

    assert (got["record"], got["positions"], got["doc"]) == ("runs", [8, 9, 10, 11], [])


def test_json_notes_keep_numbers_that_json_lacks() -> None:
    values = {"loss": math.nan, "norm": math.inf, "low": -math.inf, "lr": np.float32(0.5), "n": 3}
    sent = NoteRecord(kind=Kind.TELEMETRY, piece=1, step=2, rank=1, values=values)
    got = through_a_frame(prepare_note(sent))

    assert isinstance(got, NoteRecord)
    assert math.isnan(got.values["loss"])
    assert (got.values["norm"], got.values["low"]) == (math.inf, -math.inf)
    assert (got.values["lr"], got.values["n"], got.step, got.rank) == (0.5, 3, 2, 1)


def test_an_unknown_kind_is_refused_when_decoded() -> None:
    data = prepare(99, b"{}", piece=1, step=1)
    (frame,) = scan(seal(data, time_ns=1, offset=0) + data.payload).frames

    with pytest.raises(FormatError, match="kind 99"):
        note(frame)


def test_documents_mode_takes_at_most_8_2_bytes_an_id() -> None:
    rng = np.random.default_rng(0)
    samples, seq_len = 160, 2048
    per_sample = rng.integers(2, 6, samples)
    index = np.repeat(np.arange(samples), per_sample)
    start = np.where(np.diff(index, prepend=-1) == 1, rng.integers(0, 60_000, len(index)), 0)
    sent = record(
        1,
        samples,
        sample_index=index,
        doc=rng.integers(0, 1_000_000_000, len(index)),
        token_start=start,
        token_end=start + rng.integers(1, seq_len, len(index)),
    )
    size = HEADER.size + len(prepare_delivered(sent).payload)

    assert len(index) >= 512
    assert size / len(index) <= 8.2


def test_runs_mode_takes_at_most_2_bytes_a_sample() -> None:
    size = HEADER.size + len(prepare_delivered(record(1, 512, record="runs")).payload)

    assert size / 512 <= 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"digest": b"short"}, "16"),
        ({"mode": "skip"}, "compact"),
        ({"record": "all"}, "documents"),
        ({"step": 0}, "first step is 1"),
        ({"doc": np.arange(3)}, "differ in length"),
    ],
)
def test_an_impossible_record_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        record(**changes)  # type: ignore[arg-type]


def test_golden_bytes_of_version_1_never_change() -> None:
    sent = record(3, rank=1, positions=np.array([8, 9, 20, 21]), mode="hold", blanked_tokens=4)
    telemetry = NoteRecord(kind=Kind.TELEMETRY, piece=1, step=3, values={"loss": math.nan, "lr": 1})
    data = b""
    for prepared in (prepare_delivered(sent), prepare_note(telemetry)):
        data += seal(prepared, time_ns=1_700_000_000_000_000_000, offset=len(data))
        data += prepared.payload

    assert data.hex() == "".join(GOLDEN.read_text().split())
