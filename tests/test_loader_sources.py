"""Every format through one contract: the same documents, and clear words for bad files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_source_contract import SourceContract
from pyarrow import ipc

from shardward.loader import build_manifest
from shardward.loader.errors import CorpusError


class TestParquetString(SourceContract):
    kind = pa.string()

    def write(self, directory: Path, rows: pa.Table) -> None:
        rows = rows.set_column(0, "text", rows["text"].combine_chunks().cast(self.kind))
        pq.write_table(rows, directory / "a.parquet", row_group_size=3)


class TestParquetLargeString(TestParquetString):
    kind = pa.large_string()


class TestParquetStringView(TestParquetString):
    kind = pa.string_view()


class TestParquetDictionary(SourceContract):
    def write(self, directory: Path, rows: pa.Table) -> None:
        rows = rows.set_column(0, "text", rows["text"].dictionary_encode())
        pq.write_table(rows, directory / "a.parquet", row_group_size=3)


class TestArrowFile(SourceContract):
    compression: str | None = None

    def write(self, directory: Path, rows: pa.Table) -> None:
        options = ipc.IpcWriteOptions(compression=self.compression)
        with ipc.new_file(str(directory / "a.arrow"), rows.schema, options=options) as writer:
            writer.write_table(rows, max_chunksize=3)


class TestCompressedArrowFile(TestArrowFile):
    compression = "zstd"


class TestArrowStream(SourceContract):
    def write(self, directory: Path, rows: pa.Table) -> None:
        with ipc.new_stream(str(directory / "a.arrows"), rows.schema) as writer:
            writer.write_table(rows, max_chunksize=3)


class TestArrowStreamOfDictionaries(SourceContract):
    def write(self, directory: Path, rows: pa.Table) -> None:
        rows = rows.set_column(0, "text", rows["text"].dictionary_encode())
        with ipc.new_stream(str(directory / "a.arrows"), rows.schema) as writer:
            writer.write_table(rows, max_chunksize=3)


class TestJsonLines(SourceContract):
    def write(self, directory: Path, rows: pa.Table) -> None:
        lines = [json.dumps(row) for row in rows.to_pylist()]
        (directory / "a.jsonl").write_text("\n\n".join(lines))


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


BAD_COLUMNS: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "missing": ({"body": ["a"]}, "bytes", "has no column 'text'; it has body"),
    "null": ({"text": ["a", "b", "c", None]}, "bytes", "row 3 is null"),
    "numbers": ({"text": [1, 2]}, "bytes", "is int64, neither text nor lists of integers"),
    "binary": ({"text": [b"a"]}, "bytes", "is binary, neither text"),
    "tokens without a vocabulary": ({"text": [[1]]}, None, "ids:VOCABULARY:SEPARATOR:PAD"),
    "text with ids": ({"text": ["a"]}, "ids:9:7:8", "holds text, the tokenizer is for token ids"),
    "null list": ({"text": [[1], None]}, "ids:9:7:8", "row 1 is null"),
    "null token": ({"text": [[1], [2], [1, None]]}, "ids:9:7:8", "row 2 has a null among"),
    "negative token": ({"text": [[1], [2], [3, -1]]}, "ids:9:7:8", "row 2 holds token -1"),
    "token too large": ({"text": [[1], [9]]}, "ids:9:7:8", "row 1 holds token 9, outside"),
    "token that is no byte": ({"text": [[1], [258]]}, "bytes", "row 1 holds token 258, outside"),
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
