"""Version 1 of a run's files: what was written once is read, and written the same, for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardward.loader.cursor import Cursor
from shardward.loader.errors import FormatError
from shardward.loader.formats import canonical_json, parse_json
from shardward.loader.head import GENESIS, Head, read_heads
from shardward.loader.pieces import Piece, load_pieces

GOLDEN = Path(__file__).parent / "golden"
CURSOR = Cursor(plan_id="a" * 64, epoch=1, position=4096, step=16, piece=1)
PIECE = Piece(
    piece=2,
    parent=1,
    fork_step=16,
    reason="rewind",
    cursor=CURSOR.to_json(),
    topology={"dp_size": 4, "replicas": 2},
    revision=1,
    revision_digest="b" * 64,
    mode="hold",
    launch="slurm-77-0-1",
    record="documents",
    terms={
        "batch": [[1, 64], [1001, 128]],
        "micros": 2,
        "epochs": None,
        "end": "drop",
        "on_corrupt": "stop",
    },
    created="2026-01-02T03:04:05.000006+00:00",
)
HEAD = Head(
    sequence=1,
    piece=1,
    step=16,
    revision=1,
    reason="rewind",
    cursor=CURSOR.to_json(),
    previous=GENESIS,
    time="2026-01-02T03:04:05.000006+00:00",
)


@pytest.mark.parametrize(("name", "value"), [("piece", PIECE), ("head", HEAD)])
def test_golden_bytes_of_version_1_never_change(name: str, value: Piece | Head) -> None:
    golden = (GOLDEN / f"{name}.v1.json").read_bytes()

    assert canonical_json(value.to_json()) + b"\n" == golden
    assert type(value).from_json(parse_json(golden, where=name)) == value


@pytest.mark.parametrize("name", ["piece", "head"])
def test_an_unknown_version_or_field_is_refused(name: str) -> None:
    kind: Any = {"piece": Piece, "head": Head}[name]
    value = parse_json((GOLDEN / f"{name}.v1.json").read_bytes(), where=name)
    with pytest.raises(FormatError, match="version 2"):
        kind.from_json({**value, "version": 2})
    with pytest.raises(FormatError, match="malformed"):
        kind.from_json({**value, "surprise": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"piece": 0},
        {"fork_step": -1},
        {"parent": 2},
        {"reason": "whim"},
        {"topology": {"dp_size": 0, "replicas": 1}},
        {"topology": {}},
        {"topology": None},
    ],
)
def test_an_impossible_piece_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        Piece.from_json({**PIECE.to_json(), **change})


def test_a_piece_under_another_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "000001.json").write_bytes((GOLDEN / "piece.v1.json").read_bytes())

    with pytest.raises(FormatError, match="holds piece 2"):
        load_pieces(tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"[]\n", b"{\n", b"{}\n", b"\n"])
def test_a_head_log_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "head.log").write_bytes(content)

    with pytest.raises(FormatError, match=r"head\.log line 1"):
        read_heads(tmp_path / "head.log")
