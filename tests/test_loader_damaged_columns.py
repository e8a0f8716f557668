"""Columns beside the text, and streams out of order: nothing follows damage into memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from shardward.loader import Manifest, build_manifest
from shardward.loader.errors import CorpusError, CorruptBlock


def table(**columns: Any) -> pa.Table:
    return pa.table(
        {"text": ["1", "2", "3"], "id": ["a", "b", "c"], "source": ["x", "y", "x"], **columns}
    )


def wrong(last: int, data: bytes) -> pa.Array:
    """Return three strings, the second of which ends at byte `last` of `data`."""
    offsets = pa.py_buffer(np.array([0, 1, last, len(data)], np.int32))
    return pa.StringArray.from_buffers(3, offsets, pa.py_buffer(data))


def write(path: Path, rows: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True)
    with ipc.new_file(str(path), rows.schema) as writer:
        writer.write_table(rows)


def index(home: Path, **columns: Any) -> Manifest:
    return build_manifest([str(home / "data")], home / "m", **columns)


DAMAGE = {
    "offsets beyond the data": lambda: wrong(1 << 30, b"ab"),
    "offsets that go back": lambda: wrong(-5, b"ab"),
    "not UTF-8": lambda: wrong(3, b"a\xed\xa0"),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
@pytest.mark.parametrize("name", ["id", "source"])
def test_a_damaged_column_of_names_is_refused_when_it_is_indexed(
    tmp_path: Path, name: str, damage: str
) -> None:
    write(tmp_path / "data" / "a.arrow", table(**{name: DAMAGE[damage]()}))

    with pytest.raises(CorpusError, match=r"a\.arrow row 1 is not valid UTF-8, or damaged"):
        index(tmp_path, id_column="id", source_column="source")


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_an_id_column_that_was_damaged_later_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "data" / "a.arrow"
    write(path, table())
    manifest = index(tmp_path, id_column="id")
    write(path, table(id=DAMAGE[damage]()))

    with pytest.raises(CorruptBlock, match=r"a\.arrow row 1 is not valid UTF-8, or damaged"):
        manifest.documents([0, 1])


@pytest.mark.parametrize("name", ["id", "source"])
@pytest.mark.parametrize("values", [[["a"]] * 3, [{"a": 1}] * 3, [b"\xff"] * 3])
def test_a_column_of_names_that_reads_as_no_text_is_refused(
    tmp_path: Path, name: str, values: list[Any]
) -> None:
    write(tmp_path / "data" / "a.arrow", table(**{name: values}))

    with pytest.raises(CorpusError, match=rf"a\.arrow: column '{name}' is .* cast it to string"):
        index(tmp_path, id_column="id", source_column="source")


def test_numbers_are_ids_as_they_are_written(tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.arrow", table(id=[7, 1 << 62, -1]))
    manifest = index(tmp_path, id_column="id")

    assert manifest.documents([1, 0])["id"].to_pylist() == [str(1 << 62), "7"]


Messages = list[bytes]
REORDERED: dict[str, Callable[[Messages], Messages]] = {
    "no schema": lambda messages: messages[1:],
    "schema last": lambda messages: [*messages[1:], messages[0]],
    "dictionary first": lambda messages: [messages[1], messages[0], *messages[2:]],
    "schema in a batch's place": lambda messages: [messages[0]] * 3,
}


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("order", list(REORDERED))
def test_a_stream_whose_messages_changed_places_is_refused(
    tmp_path: Path, order: str, encoded: bool
) -> None:
    rows = table().select(["text"])
    if encoded:
        rows = pa.table({"text": rows["text"].dictionary_encode()})
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    whole = sink.getvalue().to_pybytes()
    path = tmp_path / "data" / "a.arrows"
    path.parent.mkdir()
    path.write_bytes(whole)
    manifest = index(tmp_path)
    messages = [
        message.serialize().to_pybytes() for message in ipc.MessageReader.open_stream(whole)
    ]
    path.write_bytes(b"".join(REORDERED[order](messages)) + whole[-8:])

    with pytest.raises(CorruptBlock, match=r"a\.arrows"):
        Manifest.load(manifest.path).open_block(0)
