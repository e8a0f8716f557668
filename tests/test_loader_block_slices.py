"""Blocks of token ids decoded a slice at a time into memory of the caller's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardward.loader import Manifest, block_reader, build_manifest
from shardward.loader.errors import CorruptBlock, UnreachableShard

SPEC = "ids:100:98:99"
ROWS = [[n % 90] * (n % 7) for n in range(40)]


def write(path: Path, rows: list[list[int] | None], kind: pa.DataType) -> None:
    pq.write_table(pa.table({"ids": pa.array(rows, kind)}), path, row_group_size=16)


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    monkeypatch.setattr(block_reader, "SLICE_TOKENS", 9)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "a.parquet", list(ROWS), pa.list_(pa.int32()))
    return build_manifest([str(tmp_path / "data")], tmp_path / "m", column="ids", tokenizer=SPEC)


def place(manifest: Manifest, block: int) -> np.ndarray:
    return np.full(int(manifest.geometry().block_tokens[block]), 7, np.uint16)


def slices(manifest: Manifest, rows: int) -> list[int]:
    reader = manifest.reader._shard(manifest.shards[0])
    return [len(part) for part in reader.slices(manifest.span(0), "ids", rows)]


def test_a_block_is_decoded_in_slices_into_the_place_given(manifest: Manifest) -> None:
    for block in range(3):
        into = place(manifest, block)
        found, whole = manifest.open_block(block, into), manifest.open_block(block)

        assert found.values is into
        assert into.tolist() == whole.values.tolist()
        assert found.offsets.tolist() == whole.offsets.tolist()
    assert slices(manifest, 3) == [3] * 5 + [1]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.uint16()), pa.large_list(pa.int64()), pa.list_(pa.int32(), 3)]
)
def test_any_rows_in_any_slices_are_the_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    drawn = np.random.default_rng(5)
    sizes = [3] * 40 if pa.types.is_fixed_size_list(kind) else drawn.integers(0, 9, 40).tolist()
    rows = [drawn.integers(0, 98, size).tolist() for size in sizes]
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "a.parquet", rows, kind)
    manifest = build_manifest(
        [str(tmp_path / "data")], tmp_path / "m", column="ids", tokenizer=SPEC
    )

    for tokens in (1, 5, 17, 50, 1000):
        monkeypatch.setattr(block_reader, "SLICE_TOKENS", tokens)
        blocks = [manifest.open_block(block, place(manifest, block)) for block in range(3)]
        assert [found.document(n).tolist() for found in blocks for n in range(len(found))] == rows


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ([*ROWS[:15], [1, 2, 3]], "block 0 has 45 tokens, the manifest says 43"),
        ([*ROWS[:14], []], "block 0 has 15 documents, the manifest says 16"),
        ([*ROWS[:13], ROWS[13][:-1], ROWS[14]], "block 0 has 15 documents"),
        ([*ROWS[:12], [100], *ROWS[13:16]], "row 12 holds token 100, outside the vocabulary"),
        ([*ROWS[:12], None, *ROWS[13:16]], "row 12 is null"),
        ([*ROWS[:15], [ROWS[15][0] + 1]], "rows 0 to 15 have digest"),
        ([*ROWS[:14], [*ROWS[14], 1], []], "rows 0 to 15 have digest"),
    ],
)
def test_what_changed_is_named_whatever_the_slices(
    manifest: Manifest, tmp_path: Path, changed: list[list[int] | None], said: str
) -> None:
    write(
        tmp_path / "data" / "a.parquet",
        [*changed, *ROWS[16:]][: len(changed)],
        pa.list_(pa.int32()),
    )

    with pytest.raises(CorruptBlock, match=said):
        manifest.open_block(0, place(manifest, 0))


def test_a_damaged_page_in_the_middle_is_a_damaged_block_and_is_read_again(
    manifest: Manifest, tmp_path: Path
) -> None:
    path = tmp_path / "data" / "a.parquet"
    whole = path.read_bytes()
    at = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    path.write_bytes(whole[:at] + bytes(40) + whole[at + 40 :])

    with pytest.raises(CorruptBlock, match=r"a\.parquet"):
        manifest.open_block(0, place(manifest, 0))
    path.write_bytes(whole)
    assert len(manifest.open_block(0, place(manifest, 0))) == 16
    path.unlink()
    with pytest.raises(UnreachableShard, match="is missing"):
        Manifest.load(manifest.path).open_block(0, place(manifest, 0))
