"""Tokenizers: an identity that is checked, the same tokens in every process."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers_loader import write_parquet
from helpers_tokens import token_corpus

from shardward.loader import Manifest, ShardLoader, build_manifest
from shardward.loader.blocks import BlockData
from shardward.loader.errors import CorpusError, IntegrityError, ShardwardError, UsageError
from shardward.loader.tokenizer_hf import HfTokenizer
from shardward.loader.tokenizers import ByteTokenizer, TokenIds, resolve_tokenizer

TEXTS = ["the cat sat", "", "on the mat and the cat sat again", "ünïcode 漢字", "the end"]


def block(texts: list[str]) -> BlockData:
    data = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in data])]).astype(np.int64)
    return BlockData(values=np.frombuffer(b"".join(data), np.uint8), offsets=offsets)


def test_a_byte_is_a_token_with_separator_and_pad_beside_them() -> None:
    tokens = ByteTokenizer().encode(block(TEXTS))
    identity = ByteTokenizer().identity

    assert tokens.values.dtype == np.uint16
    assert [bytes(tokens.document(i).tolist()).decode() for i in range(5)] == TEXTS
    assert (identity.separator, identity.pad, identity.vocabulary) == (256, 257, 258)


@pytest.mark.parametrize("spec", ["words", "ids:5", "ids:a:b:c", "ids:5:9:1", "ids:none:1:2"])
def test_a_tokenizer_that_makes_no_sense_is_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        resolve_tokenizer(spec)


def test_the_identity_changes_with_every_declared_fact() -> None:
    digests = {
        TokenIds(vocabulary=v, separator=s, pad=p).identity.digest
        for v, s, p in [(100, 98, 99), (101, 98, 99), (100, 97, 99), (100, 98, 97), (100, None, 9)]
    }

    assert len(digests) == 5


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    model.train_from_iterator(TEXTS * 3, trainer)
    path = tmp_path / "made.json"
    model.save(str(path))
    return path


def test_hf_tokens_in_children_are_those_of_the_library(definition: Path, tmp_path: Path) -> None:
    import tokenizers  # noqa: PLC0415 - skipped without it

    rows: dict[str, list[object]] = {"text": [f"{text} {n}" for n in range(20) for text in TEXTS]}
    write_parquet(tmp_path / "data" / "a.parquet", rows, group=30)
    manifest = build_manifest(
        [str(tmp_path / "data")], tmp_path / "m", tokenizer=f"hf:{definition}"
    )
    definition.unlink()
    library = tokenizers.Tokenizer.from_file(str(manifest.path / "tokenizer.json"))
    expected = [library.encode(str(text), add_special_tokens=False).ids for text in rows["text"]]
    plan = manifest.plan(seed=1, seq_len=None)

    assert manifest.lengths(0, 100).tolist() == [len(ids) for ids in expected]
    with ShardLoader(manifest, plan, batch=10) as loader:
        for batch in loader:
            for row, doc in zip(batch.tokens, batch.segments.doc.tolist(), strict=True):
                assert row[: len(expected[doc])].tolist() == expected[doc]


def test_an_edited_tokenizer_is_refused(definition: Path, tmp_path: Path) -> None:
    write_parquet(tmp_path / "data" / "a.parquet", {"text": list(TEXTS)})
    path = build_manifest(
        [str(tmp_path / "data")], tmp_path / "m", tokenizer=f"hf:{definition}"
    ).path
    copy = path / "tokenizer.json"
    changed = json.loads(copy.read_text())
    changed["model"]["merges"].pop()
    copy.write_text(json.dumps(changed))

    with pytest.raises(
        (CorpusError, IntegrityError), match=r"restore the tokenizer|tokenizer\.json"
    ):
        Manifest.load(path).open_block(0)


def test_a_tokenizer_can_be_sent_to_a_worker(definition: Path) -> None:
    tokenizer = resolve_tokenizer(f"hf:{definition}")
    tokens = tokenizer.encode(block(TEXTS))

    copy = pickle.loads(pickle.dumps(tokenizer))

    assert copy.encode(block(TEXTS)).values.tolist() == tokens.values.tolist()


def test_a_file_that_is_no_tokenizer_is_refused(definition: Path) -> None:
    definition.write_text("{}")

    with pytest.raises(UsageError, match=r"give a tokenizer\.json"):
        resolve_tokenizer(f"hf:{definition}")


def test_separator_and_pad_come_after_the_highest_id_of_a_vocabulary_with_gaps(
    tmp_path: Path,
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({"[UNK]": 0, "the": 1, "cat": 7, "sat": 9}, "[UNK]")
    library = tokenizers.Tokenizer(words)
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.save(str(tmp_path / "made.json"))
    spec = f"hf:{tmp_path / 'made.json'}"
    write_parquet(tmp_path / "texts" / "a.parquet", {"text": ["the cat sat", "sat"]})
    texts = build_manifest([str(tmp_path / "texts")], tmp_path / "t", tokenizer=spec)
    ids = token_corpus(tmp_path, [[1, 7, 9], [9, 11]], spec)

    identity = texts.header.tokenizer
    assert (identity.vocabulary, identity.separator, identity.pad) == (12, 10, 11)
    with ShardLoader(texts, texts.plan(seed=1, seq_len=6), batch=1) as loader:
        assert sorted(next(loader).tokens[0].tolist()) == [1, 7, 9, 9, 10, 10]
    assert ids.documents([0, 1])["text"].to_pylist() == ["the cat sat", "sat"]
    with pytest.raises(CorpusError, match=r"part-001\.parquet row 0 holds token 12, outside"):
        token_corpus(tmp_path / "beyond", [[1], [12]], spec)


def test_children_that_were_killed_are_replaced(definition: Path) -> None:
    tokenizer = HfTokenizer.read(definition)
    expected = tokenizer.encode(block(TEXTS)).values.tolist()
    assert tokenizer._pool is not None
    for child in list(tokenizer._pool.children._processes.values()):
        child.kill()
        child.join()

    assert tokenizer.encode(block(TEXTS)).values.tolist() == expected


def test_children_that_cannot_even_start_are_told_of(
    definition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = partial(ProcessPoolExecutor, initializer=os._exit, initargs=(1,))
    monkeypatch.setattr("shardward.loader.tokenizer_hf.ProcessPoolExecutor", broken)

    with pytest.raises(ShardwardError, match="if __name__ == '__main__'"):
        HfTokenizer.read(definition).encode(block(TEXTS))
