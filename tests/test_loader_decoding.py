"""Corpora of token ids read as text: losslessly, deterministically, or refused with the reason."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_loader import write_parquet
from helpers_tokens import SPECIAL, byte_level_bpe, encoded, token_corpus
from hypothesis import given
from hypothesis import strategies as st

from shardward.loader import Manifest, ShardLoader, build_manifest
from shardward.loader.block_reader import BlockReader
from shardward.loader.blocks import BlockData
from shardward.loader.errors import (
    CorpusError,
    CorruptBlock,
    IntegrityError,
    MissingExtra,
    UsageError,
)
from shardward.loader.rebuilt import rebuilt_manifest
from shardward.loader.sources.columns import string_array
from shardward.loader.tokenizer_hf import HfTokenizer
from shardward.loader.tokenizers import ByteTokenizer

TEXTS = ["the cat sat", "", "on the mat\nand the cat sat again", "ünïcode 漢字 😀", "the end"] * 5


def tokens_of(documents: list[list[int]]) -> BlockData:
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return BlockData(values=np.array(list(chain(*documents)), np.uint16), offsets=offsets)


def text_of(manifest: Manifest) -> list[str]:
    return [text for _, texts in manifest.iter_text() for text in texts.to_pylist()]


@pytest.fixture(params=["bytes", "hf"])
def manifest(request: pytest.FixtureRequest, tmp_path: Path) -> Manifest:
    definition = byte_level_bpe(tmp_path / "made.json", TEXTS) if request.param == "hf" else None
    spec = f"hf:{definition}" if definition else "bytes"
    return token_corpus(tmp_path, encoded(definition, TEXTS), spec)


def test_token_ids_are_read_as_the_text_they_were_made_from(manifest: Manifest) -> None:
    assert manifest.header.schema.kind == "tokens"
    assert text_of(manifest) == TEXTS
    assert manifest.documents([13, 3, 13])["text"].to_pylist() == [TEXTS[13], TEXTS[3], TEXTS[13]]
    assert text_of(Manifest.load(manifest.path)) == TEXTS


def test_batches_are_those_of_the_same_ids_without_a_tokenizer(
    manifest: Manifest, tmp_path: Path
) -> None:
    identity = manifest.header.tokenizer
    declared = f"ids:{identity.vocabulary}:{identity.separator}:{identity.pad}"
    plain = build_manifest(
        [str(tmp_path / "data")], tmp_path / "plain", column="ids", tokenizer=declared
    )

    assert not plain.has_text
    assert [plain.block_digest(b) for b in range(plain.header.blocks)] == [
        manifest.block_digest(b) for b in range(manifest.header.blocks)
    ]
    batches = []
    for each in (manifest, plain):
        plan = each.plan(seed=1, seq_len=16)
        with ShardLoader(each, plan, batch=2) as loader:
            batches.append([(b.tokens.tolist(), b.positions.tolist()) for b in loader])
    assert len(batches[0]) > 3
    assert batches[0] == batches[1]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=8))
def test_bytes_come_back_whatever_the_text(texts: list[str]) -> None:
    tokens = tokens_of([list(text.encode()) for text in texts])

    assert string_array(ByteTokenizer().decode(tokens)).to_pylist() == texts


def test_separators_are_no_text_and_broken_bytes_stay_in_their_document() -> None:
    tokens = tokens_of([[97, 256, 98, 257], [0xE6, 0xBC], [0xA2, 99], [100]])

    found = string_array(ByteTokenizer().decode(tokens))

    found.validate(full=True)
    assert found.to_pylist() == [
        "ab",
        "\N{REPLACEMENT CHARACTER}",
        "\N{REPLACEMENT CHARACTER}c",
        "d",
    ]


def test_special_tokens_are_written_and_the_separator_beside_them_is_not(tmp_path: Path) -> None:
    definition = byte_level_bpe(tmp_path / "made.json", TEXTS)
    ((cat,), (special,)) = encoded(definition, [" cat", SPECIAL])
    separator = 280
    documents = [[cat, special, separator, cat], [separator + 1]]

    found = token_corpus(tmp_path, documents, f"hf:{definition}")

    assert found.header.tokenizer.separator == separator
    assert text_of(found) == [f" cat{SPECIAL} cat", ""]


@pytest.mark.parametrize("spec", ["bytes", "hf"])
def test_ids_outside_the_vocabulary_are_named_with_shard_and_row(tmp_path: Path, spec: str) -> None:
    size = 258
    if spec == "hf":
        spec, size = f"hf:{byte_level_bpe(tmp_path / 'made.json', TEXTS)}", 282

    with pytest.raises(CorpusError, match=rf"part-001\.parquet row 1 holds token {size}, outside"):
        token_corpus(tmp_path, [[1], [size - 1], [3], [4, size]], spec)
    assert not (tmp_path / "manifest").exists()


@pytest.mark.parametrize("token", [282, 65536 + 97, -1])
def test_a_changed_shard_with_ids_outside_the_vocabulary_is_named(
    tmp_path: Path, token: int
) -> None:
    spec = f"hf:{byte_level_bpe(tmp_path / 'made.json', TEXTS)}"
    manifest = token_corpus(tmp_path, [[1], [2], [3], [4, 97]], spec)
    path = tmp_path / "data" / "part-001.parquet"
    # 65633 is 97 in 16 bits: narrowed first, the block would have the digest that was indexed.
    pq.write_table(pa.table({"ids": pa.array([[3], [4, token]], pa.list_(pa.int32()))}), path)

    said = rf"part-001\.parquet row 1 holds token {token}, outside the vocabulary of 282"
    for read in (manifest.block_text, manifest.open_block, BlockReader(manifest).as_found):
        with pytest.raises(CorruptBlock, match=said):
            read(1)


@pytest.mark.parametrize("is_byte_level", [True, False])
def test_a_tokenizer_refuses_to_decode_ids_outside_its_vocabulary(
    tmp_path: Path, *, is_byte_level: bool
) -> None:
    definition = json.loads(byte_level_bpe(tmp_path / "made.json", TEXTS).read_text())
    definition["decoder"] = definition["decoder"] if is_byte_level else {"type": "Fuse"}
    tokenizer = HfTokenizer(json.dumps(definition).encode())

    with pytest.raises(CorpusError, match="row 1 holds token 300, outside the vocabulary of 282"):
        tokenizer.decode(tokens_of([[1], [2, 300]]))


def test_ids_without_a_named_tokenizer_are_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"ids": [[1], [2]]})

    with pytest.raises(UsageError, match=r"a\.parquet.*'hf:FILE' or 'bytes'"):
        build_manifest([str(tmp_path / "a.parquet")], tmp_path / "m", column="ids")


def test_text_and_ids_are_no_corpus_together(tmp_path: Path) -> None:
    write_parquet(tmp_path / "data" / "a.parquet", {"text": ["a"]})
    write_parquet(tmp_path / "data" / "b.parquet", {"text": [[1]]})

    with pytest.raises(CorpusError, match=r"b\.parquet row 0: .* holds tokens, .* hold text"):
        build_manifest([str(tmp_path / "data")], tmp_path / "m", tokenizer="bytes")


def test_ids_of_an_unknown_tokenizer_have_no_text(tmp_path: Path) -> None:
    manifest = token_corpus(tmp_path, [[1, 2], [3]], "ids:10:8:9")

    with pytest.raises(CorpusError, match="unknown tokenizer and no text; index a text column"):
        manifest.block_text(0)


def test_a_missing_definition_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.json cannot be read"):
        token_corpus(tmp_path, [[1], [2]], f"hf:{tmp_path / 'none.json'}")


def test_another_definition_is_refused_when_the_manifest_is_loaded(tmp_path: Path) -> None:
    definition = byte_level_bpe(tmp_path / "made.json", TEXTS)
    path = token_corpus(tmp_path, encoded(definition, TEXTS), f"hf:{definition}").path
    changed = json.loads((path / "tokenizer.json").read_text())
    changed["model"]["merges"].pop()
    (path / "tokenizer.json").write_text(json.dumps(changed))

    with pytest.raises(IntegrityError, match=r"tokenizer\.json has digest"):
        Manifest.load(path)
    (path / "tokenizer.json").unlink()
    with pytest.raises(IntegrityError, match=r"tokenizer\.json has digest no file"):
        Manifest.load(path)


def test_without_the_package_batches_come_and_text_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = byte_level_bpe(tmp_path / "made.json", TEXTS)
    path = token_corpus(tmp_path, encoded(definition, TEXTS), f"hf:{definition}").path
    monkeypatch.setattr("shardward.loader.tokenizer_hf.find_spec", lambda name: None)
    manifest = Manifest.load(path)

    assert len(manifest.open_block(0)) == 8
    with pytest.raises(MissingExtra, match=r"pip install 'shardward\[hf\]'"):
        manifest.block_text(0)


def test_tombstones_of_a_rebuilt_corpus_have_no_text(manifest: Manifest, tmp_path: Path) -> None:
    gone = np.array([0, 13], np.int64)
    tokens = manifest.documents(range(len(TEXTS)), ("tokens",))["tokens"].to_pylist()
    for number, part in enumerate((range(13), range(13, 25))):
        rows: list[object] = [tokens[doc] for doc in part if doc not in gone]
        write_parquet(tmp_path / "left" / f"part-{number:03d}.parquet", {"ids": rows}, group=7)

    rebuilt = rebuilt_manifest(manifest, tmp_path / "left", tmp_path / "rebuilt", gone=gone)

    assert text_of(rebuilt) == ["" if doc in gone else text for doc, text in enumerate(TEXTS)]


def test_any_ids_decode_as_the_library_decodes_them(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    definition = byte_level_bpe(tmp_path / "made.json", [*TEXTS, "naïve 漢字 "], 290)
    library = tokenizers.Tokenizer.from_file(str(definition))
    library.add_special_tokens(["<é漢>"])
    library.save(str(definition))
    rng = np.random.default_rng(4)
    documents = [rng.integers(0, 291, rng.integers(0, 12)).tolist() for _ in range(3000)]

    found = HfTokenizer.read(definition).decode(tokens_of(documents))

    assert string_array(found).to_pylist() == library.decode_batch(
        documents, skip_special_tokens=False
    )


def test_few_tokens_decode_by_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    pieces = {"▁the": 0, "▁cat": 1, "s": 2, "<s>": 3, "<0xE6>": 4, "<0xBC>": 5, "<0xA2>": 6}
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, unk_token="<s>"))
    library.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("▁", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
        ]
    )
    library.save(str(tmp_path / "made.json"))
    monkeypatch.setattr("shardward.loader.tokenizer_hf.DECODED_AT_ONCE", 3)
    documents = [[0, 1, 2], [], [3, 0, 4, 5, 6, 7], [8, 1], [2]]

    found = token_corpus(tmp_path, documents, f"hf:{tmp_path / 'made.json'}", rows=2)

    assert text_of(found) == [" the cats", "", "<s> the漢", " cat", "s"]
    assert text_of(found) == library.decode_batch(documents, skip_special_tokens=False)
