"""Journals that claim more than they hold cost neither memory nor an endless loop."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from helpers_journal import record, write_journal
from helpers_ledger import cursor, make_run, slice_of

from shardward.loader.errors import FormatError
from shardward.loader.journal import iter_journal, read_journal
from shardward.loader.journal_columns import encode_column, encode_deltas
from shardward.loader.journal_frame import Kind, Prepared, prepare
from shardward.loader.records import MOST_ENTRIES, delivered, prepare_delivered
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger

HEAD = struct.Struct("<BBHIQQ16sQQII")
ONE = encode_column(np.array([1]))
FIRST = encode_deltas(np.array([0]))


def claim(samples: int, *, end: int, runs: int = 1, segments: int = 0) -> Prepared:
    """Return a frame of under a hundred bytes that claims so much."""
    documents = 2 if segments else 0
    head = HEAD.pack(1, documents, 1, 0, 0, end, b"x" * 16, 1, 0, runs, segments)
    columns = [FIRST, encode_column(np.array([samples])), *[ONE] * 4]
    return prepare(Kind.DELIVERED, b"".join([head, *columns]), piece=1, step=2)


@pytest.mark.parametrize(
    "frame",
    [
        claim((1 << 31) - 1, end=10),
        claim((1 << 31) - 1, end=1 << 62),
        claim(11, end=10),
        claim(1, end=1 << 62, runs=(1 << 32) - 1),
        claim(1, end=1 << 62, segments=(1 << 32) - 1),
    ],
)
def test_a_small_frame_that_claims_billions_is_damage(tmp_path: Path, frame: Prepared) -> None:
    run = make_run(tmp_path / "run")
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    with run.journal_writer(piece) as writer:
        writer.append(prepare_delivered(slice_of(1, 1, 0, 1)))
        writer.append(frame)
        writer.append(prepare_delivered(slice_of(3, 1, 0, 1)))
    with pytest.raises(FormatError, match=r"claims|run of positions"):
        delivered(read_journal(run.journals()[0]).frames[-2])
    with Ledger.open(run) as ledger:
        (problem,) = [one for one in ledger.check() if one.kind == "journal_damage"]
        assert ledger.steps(1, 9)["step"].to_pylist() == [1, 3]

    assert "without sense" in problem.message


def test_a_record_that_could_not_be_read_again_is_not_written() -> None:
    many = np.arange(MOST_ENTRIES + 1)

    with pytest.raises(ValueError, match="too many for one step of one rank"):
        record(1, 1, positions=many, end=len(many))


def test_memory_that_runs_out_over_one_record_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    with run.journal_writer(piece) as writer:
        writer.append(prepare_delivered(slice_of(1, 1, 0, 1)))

    def exhausted(_: object) -> None:
        raise MemoryError("unable to allocate")

    monkeypatch.setattr("shardward.quarantine.ledger.rows.delivered", exhausted)
    with Ledger.open(run) as ledger:
        assert [one.kind for one in ledger.check()] == ["journal_damage"]


def test_a_file_that_becomes_shorter_while_it_is_read_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(tmp_path / "a.swj")
    reads = []

    def shortened(*_: int) -> bytes:
        reads.append(1)
        assert len(reads) < 10, "the reader asks for ever"
        return b""

    monkeypatch.setattr(os, "pread", shortened)
    assert list(iter_journal(path)) == []
