"""Tokens that are pieces of text decode by a table as the library decodes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.loader.blocks import BlockData
from shardward.loader.piece_text import PieceTable
from shardward.loader.sources.columns import string_array
from shardward.loader.tokenizer_hf import HfTokenizer

tokenizers = pytest.importorskip("tokenizers")
decoders = tokenizers.decoders
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = [
    "▁the",
    "▁cat",
    "s",
    "▁",
    "##ing",
    ".",
    "##.",
    "▁▁",
    "漢",
    "<s>",
    "n't",
    " 'm",
    "<0xZZ>",
    "😀",
]
LLAMA = [
    decoders.Replace("▁", " "),
    decoders.ByteFallback(),
    decoders.Fuse(),
    decoders.Strip(" ", 1, 0),
]
TABLED: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "metaspace": decoders.Metaspace,
    "metaspace, never prepended": lambda: decoders.Metaspace(prepend_scheme="never"),
    "wordpiece": decoders.WordPiece,
    "wordpiece without cleanup": lambda: decoders.WordPiece(cleanup=False),
    "llama": lambda: decoders.Sequence(LLAMA),
    "gemma": lambda: decoders.Sequence(LLAMA[:3]),
    "byte fallback alone": decoders.ByteFallback,
    "fuse": decoders.Fuse,
}
LEFT = {
    "bpe": decoders.BPEDecoder,
    "ctc": decoders.CTC,
    "strip of both ends": lambda: decoders.Sequence([*LLAMA[:3], decoders.Strip(" ", 1, 1)]),
    "strip of each token": lambda: decoders.Sequence([LLAMA[0], LLAMA[3]]),
    "another order": lambda: decoders.Sequence([LLAMA[2], LLAMA[1]]),
}


def library(make: Callable[[], Any], words: list[str] = WORDS) -> Any:
    pieces = {word: number for number, word in enumerate([*words, *BYTES])}
    pieces["gap"] = len(pieces) + 2
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, unk_token="s"))
    if (decoder := make()) is not None:
        found.decoder = decoder
    return found


def block(documents: list[list[int]]) -> BlockData:
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return BlockData(values=np.array(list(chain(*documents)), np.uint16), offsets=offsets)


SIZE = len(WORDS) + 256 + 3
IDS = st.integers(0, len(WORDS) - 1) | st.integers(0, SIZE - 1)
DOCUMENTS = st.lists(st.lists(IDS, max_size=8), max_size=6)


@pytest.mark.parametrize("kind", TABLED)
def test_any_ids_decode_as_the_library_decodes_them(kind: str) -> None:
    made = library(TABLED[kind])
    table = PieceTable.of(made, SIZE)
    assert table is not None

    @settings(max_examples=60, deadline=None)
    @given(DOCUMENTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=6))
    def check(documents: list[list[int]], text: str) -> None:
        spelt = [len(WORDS) + byte for byte in text.encode()]
        wanted = [*documents, spelt, [3, *spelt], [*spelt, 1, *spelt[:-1]]]
        found = string_array(table.decode(block(wanted))).to_pylist()
        assert found == made.decode_batch(wanted, skip_special_tokens=False)

    check()


@pytest.mark.parametrize("kind", LEFT)
def test_decoders_that_do_more_are_left_to_the_library(kind: str) -> None:
    assert PieceTable.of(library(LEFT[kind]), SIZE) is None


def test_an_empty_token_between_two_bytes_is_left_to_the_library() -> None:
    words = ["▁the", "", *WORDS[2:]]

    assert PieceTable.of(library(TABLED["gemma"], words), SIZE) is None
    assert PieceTable.of(library(TABLED["fuse"], words), SIZE) is not None


def test_a_table_that_does_not_agree_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardward.loader.piece_text._writes_pieces", lambda decoder: True)

    assert PieceTable.of(library(LEFT["ctc"]), SIZE) is None


def test_many_tokens_decode_by_the_table_to_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    made = library(TABLED["llama"])
    tokenizer = HfTokenizer(json.dumps(json.loads(made.to_str())).encode())
    documents = [[1, 2, 5], [], [3, 0], [SIZE - 2, SIZE, 0], list(range(SIZE - 3))] * 3
    wanted = made.decode_batch(documents, skip_special_tokens=False)
    used: list[int] = []
    decode = PieceTable.decode

    def counted(table: PieceTable, tokens: BlockData) -> BlockData:
        used.append(len(tokens))
        return decode(table, tokens)

    monkeypatch.setattr(PieceTable, "decode", counted)
    found = [string_array(tokenizer.decode(block(documents))).to_pylist() for _ in range(3)]

    assert found == [wanted] * 3
    assert used[-1] == len(documents)
