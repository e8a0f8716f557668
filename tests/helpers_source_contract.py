"""What every shard format must do, as a class that a format's tests inherit.

A new format needs one class: inherit `SourceContract`, say in `write` how rows get into `directory`
with three rows to a block, and name the class `Test…`. The rows are those of `table()`, the same
with nulls, or none at all.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from shardward.loader import Manifest, build_manifest
from shardward.loader.errors import CorpusError, UsageError
from shardward.loader.sources import jsonl, open_shard
from shardward.loader.sources.opening import format_of

TEXTS = ["alpha", "", "bêta 漢字", "gamma " * 50, "x", "yz", "\u0000control", "end"]
IDS = [f"doc-{number}" for number in range(len(TEXTS))]
ORIGINS = ["web", "web", "book", "web", "book", "web", "web", "book"]

DIGESTS = [
    "93f5f592fa4d1507a77eb4aa0bdb1eee",
    "81c21bc761566bad3930a2a9ce7cbae0",
    "1a202249609a5515cf50529f304b98d9",
]


def table() -> pa.Table:
    return pa.table({"text": TEXTS, "id": IDS, "origin": ORIGINS, "other": list(range(8))})


class SourceContract:
    """The same documents, digests and words for damage from every format."""

    def write(self, directory: Path, rows: pa.Table) -> None:
        raise NotImplementedError

    def shard_of(self, tmp_path: Path, rows: pa.Table) -> Path:
        """Write `rows` into a directory of their own and return the only file there."""
        (tmp_path / "data").mkdir()
        self.write(tmp_path / "data", rows)
        return next((tmp_path / "data").iterdir())

    @pytest.fixture
    def shard(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(jsonl, "BLOCK_LINES", 3)
        return self.shard_of(tmp_path, table())

    @pytest.fixture
    def manifest(self, shard: Path, tmp_path: Path) -> Manifest:
        return build_manifest([str(shard)], tmp_path / "m", id_column="id", source_column="origin")

    def test_the_documents_are_all_there_in_order(self, manifest: Manifest) -> None:
        texts = [text for _, block in manifest.iter_text() for text in block.to_pylist()]

        assert texts == TEXTS
        assert manifest.geometry().block_documents.tolist() == [3, 3, 2]
        assert manifest.lengths(0, 8).tolist() == [len(text.encode()) for text in TEXTS]
        assert [manifest.source_names[c] for c in manifest.sources(0, 8)] == ORIGINS

    def test_block_digests_do_not_depend_on_the_format(self, manifest: Manifest) -> None:
        assert [manifest.block_digest(block).hex() for block in range(3)] == DIGESTS

    def test_documents_are_found_in_any_order(self, manifest: Manifest) -> None:
        rows = manifest.documents([6, 2, 6, 0], columns=("id", "text", "tokens"))

        assert rows["doc"].to_pylist() == rows["row"].to_pylist() == [6, 2, 6, 0]
        assert rows["text"].to_pylist() == [TEXTS[doc] for doc in (6, 2, 6, 0)]
        assert rows["id"].to_pylist() == [IDS[doc] for doc in (6, 2, 6, 0)]
        assert rows["tokens"].to_pylist()[1] == list(TEXTS[2].encode())

    def test_blocks_are_read_in_any_order_with_the_columns_asked_for(self, shard: Path) -> None:
        reader = open_shard(str(format_of(shard.name)), shard.name, str(shard))
        spans = reader.spans()

        parts = [reader.read(spans[index], ["other", "text"]) for index in (2, 0, 1, 0)]
        reader.close()
        assert [span.first for span in spans] == [0, 3, 6]
        assert [part.column_names for part in parts] == [["other", "text"]] * 4
        assert [part["other"].to_pylist() for part in parts] == [
            [6, 7],
            [0, 1, 2],
            [3, 4, 5],
            [0, 1, 2],
        ]

    def test_a_missing_column_is_named(self, shard: Path, tmp_path: Path) -> None:
        with pytest.raises(CorpusError, match=f"{shard.name} has no column 'body'"):
            build_manifest([str(shard)], tmp_path / "m", column="body")

    def test_a_file_cut_short_anywhere_is_never_read_as_a_whole_one(
        self, shard: Path, tmp_path: Path
    ) -> None:
        data = shard.read_bytes()
        whole = build_manifest([str(shard)], tmp_path / "whole").fingerprint
        words: set[str] = set()

        for number, size in enumerate(range(0, len(data) - 8, max(1, len(data) // 23))):
            shard.write_bytes(data[:size])
            try:
                cut = build_manifest([str(shard)], tmp_path / f"m{number}")
            except CorpusError as error:
                words.add(str(error))
            else:
                assert cut.header.documents < len(TEXTS)
                assert cut.fingerprint != whole

        assert words
        assert all(shard.name in message or "is empty" in message for message in words)

    def test_flipped_bits_are_refused_or_leave_the_documents_as_they_were(
        self, shard: Path, tmp_path: Path
    ) -> None:
        manifest = build_manifest([str(shard)], tmp_path / "m")
        data = shard.read_bytes()
        words: set[str] = set()

        for at in range(0, len(data), max(1, len(data) // 61)):
            damaged = bytearray(data)
            damaged[at] ^= 0x10
            shard.write_bytes(damaged)
            fresh = Manifest.load(manifest.path)
            try:
                found = [t for _, block in fresh.iter_text() for t in block.to_pylist()]
            except CorpusError as error:
                words.add(str(error))
            else:
                assert found == TEXTS

        assert words
        assert all(shard.name in message for message in words)

    def test_a_missing_shard_is_named_with_the_remedy(
        self, manifest: Manifest, shard: Path
    ) -> None:
        shard.unlink()

        with pytest.raises(CorpusError, match=f"shard {shard.name} is missing; restore it"):
            manifest.open_block(0)

    @pytest.mark.parametrize("name", ["text", "id", "origin"])
    def test_a_null_is_named_with_its_row_and_nothing_is_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setattr(jsonl, "BLOCK_LINES", 3)
        values = [
            None if row == 4 else value for row, value in enumerate(table()[name].to_pylist())
        ]
        place = table().schema.get_field_index(name)
        rows = table().set_column(place, name, pa.array(values, pa.string()))
        shard = self.shard_of(tmp_path, rows)

        with pytest.raises(CorpusError, match=f"{shard.name} row 4 (is|has a) null"):
            build_manifest([str(shard)], tmp_path / "m", id_column="id", source_column="origin")
        assert [item.name for item in tmp_path.iterdir()] == ["data"]

    def test_a_column_of_another_type_is_named_with_its_type(
        self, shard: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(CorpusError, match=f"{shard.name}: column 'other' is int64, neither"):
            build_manifest([str(shard)], tmp_path / "m", column="other")
        with pytest.raises(UsageError, match=f"{shard.name}: column 'text' holds text"):
            build_manifest([str(shard)], tmp_path / "m", tokenizer="ids:300:298:299")

    def test_a_shard_without_rows_is_no_corpus_and_harmless_beside_others(
        self, tmp_path: Path
    ) -> None:
        shard = self.shard_of(tmp_path, table().slice(0, 0))

        with pytest.raises(CorpusError, match="the corpus is empty"):
            build_manifest([str(shard)], tmp_path / "m")
        self.write(tmp_path, table())
        (whole,) = (item for item in tmp_path.iterdir() if item.is_file())
        both = build_manifest([str(shard), str(whole)], tmp_path / "m")
        assert both.header.documents == len(TEXTS)

    def test_a_file_of_no_bytes_is_refused_or_holds_nothing(
        self, shard: Path, tmp_path: Path
    ) -> None:
        shard.write_bytes(b"")

        with pytest.raises(CorpusError, match=f"{shard.name} cannot be read|the corpus is empty"):
            build_manifest([str(shard)], tmp_path / "m")

    def test_a_file_of_another_format_is_refused_by_name(self, shard: Path, tmp_path: Path) -> None:
        shard.write_bytes(b"PK\x03\x04 is how a zip begins \xff\xfe" * 40)

        with pytest.raises(CorpusError, match=shard.name):
            build_manifest([str(shard)], tmp_path / "m")
