"""Every format through one contract: the same documents, and clear words for bad files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from shardward.loader import Manifest, build_manifest
from shardward.loader.errors import CorpusError
from shardward.loader.sources import jsonl

TEXTS = ["alpha", "", "bêta 漢字", "gamma " * 50, "x", "yz", "\u0000control", "end"]
IDS = [f"doc-{number}" for number in range(len(TEXTS))]
ORIGINS = ["web", "web", "book", "web", "book", "web", "web", "book"]

DIGESTS = [
    "93f5f592fa4d1507a77eb4aa0bdb1eee",
    "81c21bc761566bad3930a2a9ce7cbae0",
    "1a202249609a5515cf50529f304b98d9",
]

Writer = Callable[[Path], None]


def table() -> pa.Table:
    return pa.table({"text": TEXTS, "id": IDS, "origin": ORIGINS, "other": list(range(8))})


def parquet_of(kind: pa.DataType) -> Writer:
    def write(path: Path) -> None:
        rows = table().set_column(
            0, "text", pa.chunked_array([table()["text"].chunk(0).cast(kind)])
        )
        pq.write_table(rows, path / "a.parquet", row_group_size=3)

    return write


def dictionary_parquet(path: Path) -> None:
    rows = table().set_column(0, "text", table()["text"].dictionary_encode())
    pq.write_table(rows, path / "a.parquet", row_group_size=3)


def arrow_file(path: Path) -> None:
    with ipc.new_file(str(path / "a.arrow"), table().schema) as writer:
        writer.write_table(table(), max_chunksize=3)


def compressed_arrow_file(path: Path) -> None:
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_file(str(path / "a.arrow"), table().schema, options=options) as writer:
        writer.write_table(table(), max_chunksize=3)


def arrow_stream(path: Path) -> None:
    with ipc.new_stream(str(path / "a.arrows"), table().schema) as writer:
        writer.write_table(table(), max_chunksize=3)


def dictionary_arrow_stream(path: Path) -> None:
    rows = table().set_column(0, "text", table()["text"].dictionary_encode())
    with ipc.new_stream(str(path / "a.arrows"), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=3)


def json_lines(path: Path) -> None:
    lines = [json.dumps(row) for row in table().to_pylist()]
    (path / "a.jsonl").write_text("\n\n".join(lines))


FORMATS: dict[str, Writer] = {
    "parquet string": parquet_of(pa.string()),
    "parquet large_string": parquet_of(pa.large_string()),
    "parquet string_view": parquet_of(pa.string_view()),
    "parquet dictionary": dictionary_parquet,
    "arrow file": arrow_file,
    "arrow file compressed": compressed_arrow_file,
    "arrow stream": arrow_stream,
    "arrow stream dictionary": dictionary_arrow_stream,
    "jsonl": json_lines,
}


@pytest.fixture(params=sorted(FORMATS))
def manifest(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Manifest:
    monkeypatch.setattr(jsonl, "BLOCK_LINES", 3)
    (tmp_path / "data").mkdir()
    FORMATS[request.param](tmp_path / "data")
    return build_manifest(
        [str(tmp_path / "data")], tmp_path / "m", id_column="id", source_column="origin"
    )


def test_every_format_gives_the_same_documents(manifest: Manifest) -> None:
    texts = [text for _, block in manifest.iter_text() for text in block.to_pylist()]

    assert texts == TEXTS
    assert manifest.geometry().block_documents.tolist() == [3, 3, 2]
    assert manifest.lengths(0, 8).tolist() == [len(text.encode()) for text in TEXTS]
    assert [manifest.source_names[c] for c in manifest.sources(0, 8)] == ORIGINS


def test_every_format_gives_the_same_block_digests(manifest: Manifest) -> None:
    digests = [manifest.block_digest(block).hex() for block in range(3)]

    assert digests == DIGESTS


def test_every_format_finds_documents_in_any_order(manifest: Manifest) -> None:
    rows = manifest.documents([6, 2, 6, 0], columns=("id", "text", "tokens"))

    assert rows["doc"].to_pylist() == [6, 2, 6, 0]
    assert rows["text"].to_pylist() == [TEXTS[doc] for doc in (6, 2, 6, 0)]
    assert rows["id"].to_pylist() == [IDS[doc] for doc in (6, 2, 6, 0)]
    assert rows["tokens"].to_pylist()[1] == list(TEXTS[2].encode())
    assert rows["row"].to_pylist() == [6, 2, 6, 0]


@pytest.mark.parametrize("bits", ["uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("layout", ["list", "large_list", "fixed"])
def test_token_lists_of_any_integer_type_are_the_same_corpus(
    tmp_path: Path, bits: str, layout: str
) -> None:
    value = pa.type_for_alias(bits)
    kind = {
        "list": pa.list_(value),
        "large_list": pa.large_list(value),
        "fixed": pa.list_(value, 2),
    }
    rows = [[1, 2], [3, 4], [99, 0]]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"ids": pa.array(rows, kind[layout])}), path, row_group_size=2)

    manifest = build_manifest([str(path)], tmp_path / "m", column="ids", tokenizer="ids:100:98:99")

    block = manifest.open_block(0)
    assert block.values.dtype == np.uint16
    assert [block.document(row).tolist() for row in range(2)] == rows[:2]
    assert manifest.block_digest(0).hex() == "ca986025f48e5fbff8b876ea610cdb14"


def bad(path: Path, rows: dict[str, Any]) -> Path:
    pq.write_table(pa.table(rows), path / "a.parquet", row_group_size=2)
    return path / "a.parquet"


BAD_COLUMNS: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing": ({"body": ["a"]}, "bytes", "has no column 'text'; it has body"),
    "null": ({"text": ["a", "b", "c", None]}, "bytes", "row 3 is null"),
    "numbers": ({"text": [1, 2]}, "bytes", "is int64, neither text nor lists of integers"),
    "binary": ({"text": [b"a"]}, "bytes", "is binary, neither text"),
    "tokens without a vocabulary": ({"text": [[1]]}, "bytes", "ids:VOCABULARY:SEPARATOR:PAD"),
    "text with ids": ({"text": ["a"]}, "ids:9:7:8", "holds text, the tokenizer is for token ids"),
    "null list": ({"text": [[1], None]}, "ids:9:7:8", "row 1 is null"),
    "null token": ({"text": [[1], [2], [1, None]]}, "ids:9:7:8", "row 2 has a null among"),
    "negative token": ({"text": [[1], [2], [3, -1]]}, "ids:9:7:8", "row 2 holds token -1"),
    "token too large": ({"text": [[1], [9]]}, "ids:9:7:8", "row 1 holds token 9, outside"),
    "floats": ({"text": [[0.5]]}, "ids:9:7:8", "neither text nor lists of integers"),
}


@pytest.mark.parametrize("name", sorted(BAD_COLUMNS))
def test_a_wrong_column_is_named_with_file_and_row(tmp_path: Path, name: str) -> None:
    rows, tokenizer, words = BAD_COLUMNS[name]
    path = bad(tmp_path, rows)

    with pytest.raises(Exception, match=r"a\.parquet") as caught:
        build_manifest([str(path)], tmp_path / "m", tokenizer=tokenizer)

    assert words in str(caught.value)
    assert type(caught.value).__name__ in ("CorpusError", "UsageError")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.parquet"]


def test_text_that_is_not_utf8_is_named_with_its_row(tmp_path: Path) -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2, 5], np.int32))
    text = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"ab\xed\xa0\x80"))
    path = bad(tmp_path, {"text": text})

    with pytest.raises(CorpusError, match=r"a\.parquet row 2 is not valid UTF-8"):
        build_manifest([str(path)], tmp_path / "m")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"text": "\\ud800"}', "row 1: 'text' is not valid large_string"),
        (b'{"text": "\xff"}', "row 1 is not JSON in UTF-8"),
        (b'{"text": "cut', "row 1 is not JSON in UTF-8"),
        (b'["a"]', "row 1 is a list, not a JSON object"),
        (b'{"text": 7}', "'text' is int, str"),
        (b'{"other": "x"}', "row 1 is null"),
        (b'{"text": {"a": 1}}', "'text' is dict, str"),
        (b"[" * 100_000, "row 1 is not JSON in UTF-8"),
    ],
)
def test_a_bad_json_line_is_named_with_its_row(tmp_path: Path, line: bytes, words: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "fine"}\n' + line + b"\n")

    with pytest.raises(CorpusError, match=r"a\.jsonl") as caught:
        build_manifest([str(tmp_path / "a.jsonl")], tmp_path / "m")

    assert words in str(caught.value)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_file_cut_short_anywhere_is_never_read_as_a_whole_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    FORMATS[name](tmp_path / "data")
    path = next((tmp_path / "data").iterdir())
    data = path.read_bytes()
    whole = build_manifest([str(path)], tmp_path / "whole").fingerprint
    words: set[str] = set()

    for number, size in enumerate(range(0, len(data) - 8, max(1, len(data) // 23))):
        path.write_bytes(data[:size])
        try:
            cut = build_manifest([str(path)], tmp_path / f"m{number}")
        except CorpusError as error:
            words.add(str(error))
        else:
            assert cut.header.documents < len(TEXTS)
            assert cut.fingerprint != whole

    assert words
    assert all(path.name in message or "is empty" in message for message in words)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_flipped_bits_are_refused_or_leave_the_documents_as_they_were(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "data").mkdir()
    FORMATS[name](tmp_path / "data")
    path = next((tmp_path / "data").iterdir())
    manifest = build_manifest([str(path)], tmp_path / "m")
    data = path.read_bytes()
    words: set[str] = set()

    for at in range(0, len(data), max(1, len(data) // 61)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        fresh = Manifest.load(manifest.path)
        try:
            found = [t for _, block in fresh.iter_text() for t in block.to_pylist()]
        except CorpusError as error:
            words.add(str(error))
        else:
            assert found == TEXTS

    assert words
    assert all(path.name in message for message in words)


def test_a_missing_shard_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = bad(tmp_path, {"text": ["a"]})
    manifest = build_manifest([str(path)], tmp_path / "m")
    path.unlink()

    with pytest.raises(CorpusError, match=r"shard a\.parquet is missing; restore it"):
        manifest.open_block(0)
