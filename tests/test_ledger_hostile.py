"""Records that a valid checksum protects and that make no sense stop nothing: no crash loop."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers_ledger import cursor, make_run, note, slice_of, train

from shardward.loader.errors import FormatError
from shardward.loader.formats import parse_json
from shardward.loader.journal_frame import Kind, Prepared, prepare, seal
from shardward.loader.records import prepare_delivered, prepare_note
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.ledger.verify import lost_blocks

DAMAGE, NONE = True, False
LARGEST = (1 << 63) - 1


def append(run: Run, *frames: Prepared, time_ns: int = 5) -> None:
    """Write frames behind the first journal, at a time of choice."""
    path = run.journal_path(1, 0)
    data = path.read_bytes()
    for frame in frames:
        data += seal(frame, time_ns=time_ns, offset=len(data)) + frame.payload
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("kind", "payload", "damage"),
    [
        (Kind.TELEMETRY, rb'{"\ud800": 1}', DAMAGE),
        (Kind.TELEMETRY, rb'{"a\u0000b": 1, "": 2, "a\"b": 3}', NONE),
        (Kind.TELEMETRY, b'{"Loss": 1, "LOSS": 2, "STEP": 3}', NONE),
        (Kind.TELEMETRY, b'{"x": true, "y": null, "z": {"w": [1]}}', NONE),
        (Kind.TELEMETRY, b'{"x": 1' + b"0" * 400 + b"}", DAMAGE),
        (Kind.TELEMETRY, b'{"x": 1' + b"0" * 9000 + b"}", DAMAGE),
        (Kind.TELEMETRY, b'{"x": ' + b"[" * 9000 + b"]" * 9000 + b"}", DAMAGE),
        (Kind.TELEMETRY, b"\xff\xfe", DAMAGE),
        (Kind.SAMPLE_LOSS, b'{"loss": [null]}', DAMAGE),
        (Kind.SAMPLE_LOSS, b'{"loss": {"a": 1}}', DAMAGE),
        (Kind.CHECKPOINT, rb'{"cursor": {}, "path": "\udfff"}', DAMAGE),
        (Kind.CHECKPOINT, rb'{"cursor": {"a": "\ud800"}, "path": null}', DAMAGE),
        (Kind.EVENT, rb'{"event": "\ud800"}', DAMAGE),
        (Kind.EVENT, b'{"event": [1, 2]}', NONE),
        (Kind.EVENT, b'{"event": "corrupt_block", "block": "x"}', NONE),
        (Kind.EVENT, b'{"event": "corrupt_block", "block": 99999999999999999999}', NONE),
    ],
)
def test_a_note_without_sense_is_damage_and_stops_nothing(
    tmp_path: Path, kind: Kind, payload: bytes, damage: bool
) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2])
    append(run, prepare(kind, payload, piece=1, step=2), prepare_delivered(slice_of(3, 1, 0, 1)))
    with Ledger.open(run) as ledger:
        assert ledger.last_step() == 3
        assert bool(ledger.check()) == damage
        for table in ("telemetry_wide", "telemetry", "events", "checkpoints", "sample_losses"):
            ledger.sql(f"SELECT * FROM {table}")
            ledger.export(table, "jsonl", tmp_path / f"{table}.jsonl")
        assert lost_blocks(ledger.database, 1, 0, 9) == ()


@pytest.mark.parametrize("time_ns", [0, LARGEST, 1 << 63, (1 << 64) - 1])
def test_any_clock_can_be_recorded(tmp_path: Path, time_ns: int) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2])
    frames = (prepare_delivered(slice_of(3, 1, 0, 1)), prepare_note(note(Kind.COMPLETED, 3, 1)))
    append(run, *frames, time_ns=time_ns)
    with Ledger.open(run) as ledger:
        rows = ledger.sql("SELECT time_ns FROM effective_steps WHERE step = 3")
        assert rows["time_ns"].to_pylist() == [min(time_ns, LARGEST)]
        assert ledger.steps(1, 9)["step"].to_pylist() == [1, 2, 3]
        assert ledger.check() == ()


@pytest.mark.parametrize(
    "place", [(0, 0, 0), (2, 0, 0), ((1 << 32) - 1, 0, 0), (1, 1, 0), (1, 0, 1)]
)
def test_a_record_of_another_process_is_damage(tmp_path: Path, place: tuple[int, int, int]) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2])
    piece, rank, replica = place
    hostile = replace(slice_of(3, 1, 0, 1), piece=piece, rank=rank, replica=replica)
    append(run, prepare_delivered(hostile), prepare_delivered(slice_of(3, 1, 0, 1)))
    with Ledger.open(run, ingest_seconds=0) as ledger:
        for _ in ("unread", "read"):
            assert ledger.step_documents(3)["rank"].to_pylist() == [0] * 8
            ledger.ingest()
        (problem,) = ledger.check()
        assert f"it is of piece {piece}, rank {rank}, replica {replica}" in problem.message


def test_json_of_too_many_digits_or_brackets_is_malformed() -> None:
    for data in (b'{"x": ' + b"1" * 9000 + b"}", b'{"x": ' + b"[" * 99999 + b"]" * 99999 + b"}"):
        with pytest.raises(FormatError, match="a file is not valid JSON"):
            parse_json(data, where="a file")


def test_hundreds_of_signals_are_read_in_little_memory(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    piece = run.open_piece(cursor=cursor(0, None), topology=Topology())
    names = [f"layer_{number}" for number in range(600)]
    with run.journal_writer(piece) as writer:
        for step in (1, 2):
            writer.append(prepare_delivered(slice_of(step, 1, 0, 1)))
            values: dict[str, Any] = {name: step * number for number, name in enumerate(names)}
            writer.append(prepare_note(note(Kind.TELEMETRY, step, 1, **values)))
    script = """
import json, sys
from pathlib import Path
from shardward.quarantine.ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger:
    rows = ledger.sql("SELECT * FROM telemetry_wide ORDER BY step").to_pylist()
print(json.dumps([rows[1][name] for name in sys.argv[2:]]))
print(Path("/proc/self/status").read_text())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(run.path), *names],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found, _, status = done.stdout.partition("\n")
    peak = re.search(r"VmHWM:\s+(\d+)", status)

    assert json.loads(found) == [2.0 * number for number in range(600)]
    assert peak is not None
    assert int(peak[1]) < 600_000  # kB; a copy of all columns for each signal took 20 GB
