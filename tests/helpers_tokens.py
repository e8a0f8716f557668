"""Corpora of token ids that a tokenizer made, beside the same corpora as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardward.loader import Manifest, build_manifest

SPECIAL = "<|end|>"


def byte_level_bpe(path: Path, texts: Sequence[str], vocabulary: int = 280) -> Path:
    """Train a byte-level BPE of Hugging Face on `texts` and write its definition."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        show_progress=False,
        special_tokens=[SPECIAL],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    model.train_from_iterator(texts, trainer)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(str(path))
    return path


def encoded(definition: Path | None, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of each text; their bytes without a definition."""
    if definition is None:
        return [list(text.encode()) for text in texts]
    tokenizers = pytest.importorskip("tokenizers")
    library = tokenizers.Tokenizer.from_file(str(definition))
    return [library.encode(text, add_special_tokens=False).ids for text in texts]


def token_corpus(
    home: Path, documents: Sequence[Sequence[int]], tokenizer: str, *, rows: int = 8
) -> Manifest:
    """Write the ids as two Parquet shards under `home` and index them, in order."""
    data = home / "data"
    data.mkdir(parents=True)
    half = -(-len(documents) // 2)
    for number, part in enumerate((documents[:half], documents[half:])):
        table = pa.table({"ids": pa.array(part, pa.list_(pa.int32()))})
        pq.write_table(table, data / f"part-{number:03d}.parquet", row_group_size=rows)
    return build_manifest([str(data)], home / "manifest", column="ids", tokenizer=tokenizer)
