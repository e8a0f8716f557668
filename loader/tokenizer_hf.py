"""Hugging Face `tokenizers` on the fly, in child processes that the training thread never waits on.

Turning a tokenizer's result into arrays is Python, so it would hold the interpreter lock of the
training process. Children do it and send back plain buffers.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import Int64Array
from .blocks import BlockData, joined, token_dtype
from .byte_text import ByteTable
from .errors import CorpusError, MissingExtra, ShardwardError, UsageError
from .formats import canonical_json, sha256_hex
from .piece_text import PieceTable
from .sources.columns import check_token_range
from .tokenizer_identity import TokenizerIdentity

LOG = logging.getLogger(__name__)
MOST_WORKERS = 4
DECODED_AT_ONCE = 1 << 20
"""Tokens that are Python numbers at one time while they are decoded, or one document's."""
HF_GRAMMAR = "hf:FILE"


_Part = tuple[bytes, np.ndarray[Any, Any]]
"""Documents end to end, and their offsets."""
_Tokens = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""As `_encode` returns them."""
_POOL_LOCK = threading.Lock()


@dataclass(slots=True, eq=False)
class _Pool:
    """Child processes; those that have never worked cannot, others may be replaced."""

    children: ProcessPoolExecutor
    has_worked: bool = False


class HfTokenizer:
    """A `tokenizer.json`, with a separator and a pad id added after its own highest id.

    No special tokens of its own are put around documents, since packing separates them.

    Args:
        definition: content of the `tokenizer.json`.
        workers: child processes; None for one per core, at most four.

    Raises:
        MissingExtra: the `tokenizers` package is not installed.
        UsageError: `definition` is no tokenizer.
    """

    def __init__(self, definition: bytes, *, workers: int | None = None) -> None:
        if find_spec("tokenizers") is None:
            raise MissingExtra(
                "this tokenizer needs the tokenizers package; install it with: "
                "pip install 'shardward[hf]'"
            )
        self._definition = definition
        self._workers = workers or min(MOST_WORKERS, os.cpu_count() or 1)
        own = _own_ids(_load(definition))
        facts = {"name": "hf", "definition": sha256_hex(definition), "separator": own}
        self._identity = TokenizerIdentity(
            name="hf",
            digest=sha256_hex(canonical_json(facts)),
            vocabulary=own + 2,
            separator=own,
            pad=own + 1,
        )
        self._pool: _Pool | None = None

    @classmethod
    def read(cls, path: Path) -> HfTokenizer:
        """Return the tokenizer in the file `path`.

        Raises:
            CorpusError: the file cannot be read.
        """
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise CorpusError(f"tokenizer {path} cannot be read ({error}); restore it") from error

    @property
    def identity(self) -> TokenizerIdentity:
        """What the manifest records; the digest covers the whole `tokenizer.json`."""
        return self._identity

    @property
    def definition(self) -> bytes:
        """Content of the `tokenizer.json`, which the manifest keeps a copy of."""
        return self._definition

    def encode(self, text: BlockData) -> BlockData:
        """Return the tokens of `text` (uint8 values).

        Raises:
            ShardwardError: the child processes end by themselves.
        """
        dtype = token_dtype(self._identity.vocabulary)
        found = self._encoded(list(self._shares(text)))
        lengths = np.concatenate([lengths for lengths, _ in found])
        offsets = np.zeros(lengths.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        values = np.concatenate([values for _, values in found]).astype(dtype, copy=False)
        return BlockData(values=values, offsets=offsets)

    def count(self, text: BlockData) -> Int64Array:
        """Return the number of tokens of each document, int64[documents]."""
        return self.encode(text).lengths

    def decode(self, tokens: BlockData) -> BlockData:
        """Return the UTF-8 text of `tokens`, special tokens as they are written.

        Separator and pad, which stand beside the vocabulary, are no text. Searches decode, training
        does not, so this runs in the calling process; a search over many shards has workers.

        Raises:
            CorpusError: an id is beyond the vocabulary.
        """
        check_token_range(tokens, self._identity.vocabulary, "document in", 0)
        return _decoder(self._definition, self._identity.vocabulary).decode(tokens)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def _encoded(self, parts: list[_Part]) -> list[_Tokens]:
        if multiprocessing.current_process().daemon:
            # A worker of a data loader may have no children; it is a child itself.
            return [_encode(self._definition, *part) for part in parts]
        while True:
            pool = self._shared()
            try:
                waiting = [pool.children.submit(_encode, self._definition, *part) for part in parts]
                found = [part.result() for part in waiting]
            except BrokenProcessPool as error:
                with _POOL_LOCK:
                    self._pool = None if self._pool is pool else self._pool
                if not pool.has_worked:
                    raise ShardwardError(
                        "a child process of the tokenizer ended by itself; put what the script "
                        "does below `if __name__ == '__main__':`, or see whether the machine ran "
                        "out of memory"
                    ) from error
                LOG.warning("a child process of the tokenizer ended by itself; starting new ones")
            else:
                pool.has_worked = True
                return found

    def _shared(self) -> _Pool:
        with _POOL_LOCK:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = _Pool(ProcessPoolExecutor(self._workers, mp_context=context))
            return self._pool

    def _shares(self, text: BlockData) -> Iterable[_Part]:
        """Yield runs of documents of about equal bytes, one for each worker."""
        targets = np.linspace(0, len(text.values), self._workers + 1)[1:-1]
        cuts = [0, *np.searchsorted(text.offsets, targets).tolist(), len(text)]
        for low, high in pairwise(cuts):
            if high > low or high == low == 0 == len(text):
                offsets = text.offsets[low : high + 1]
                yield text.values[offsets[0] : offsets[-1]].tobytes(), offsets - offsets[0]


def _own_ids(library: Any) -> int:
    """Return the first id after all of the vocabulary's, which may leave ids out."""
    vocabulary = library.get_vocab(with_added_tokens=True)
    return max(len(vocabulary), 1 + max(vocabulary.values(), default=-1))


def _batches(tokens: BlockData) -> Iterable[list[list[int]]]:
    """Yield the documents as lists, in runs of at most `DECODED_AT_ONCE` tokens or one document."""
    batch: list[list[int]] = []
    size = 0
    for row, length in enumerate(tokens.lengths.tolist()):
        if batch and size + length > DECODED_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(tokens.document(row).tolist())
        size += length
    if batch:
        yield batch


@lru_cache(maxsize=2)
def _load(definition: bytes) -> Any:
    from tokenizers import Tokenizer  # noqa: PLC0415 - an optional package

    try:
        return Tokenizer.from_str(definition.decode())
    except Exception as error:  # the library raises nothing more precise
        raise UsageError(
            f"the tokenizer definition cannot be used ({error}); give a tokenizer.json"
        ) from error


class _Decoder:
    """Decodes by a table where there can be one, else by the library.

    A table of pieces costs as much as decoding its vocabulary twice, so it is made after that many
    tokens.
    """

    def __init__(self, definition: bytes, vocabulary: int) -> None:
        self._library = _load(definition)
        self._vocabulary = vocabulary
        self._table: ByteTable | PieceTable | None = ByteTable.of(self._library, vocabulary)
        self._until_table = 2 * vocabulary

    def decode(self, tokens: BlockData) -> BlockData:
        if self._table is None and self._until_table > 0:
            self._until_table -= len(tokens.values)
            if self._until_table <= 0:
                self._table = PieceTable.of(self._library, self._vocabulary)
        if self._table is not None:
            return self._table.decode(tokens)
        return joined(
            text.encode()
            for batch in _batches(tokens)
            for text in self._library.decode_batch(batch, skip_special_tokens=False)
        )


@lru_cache(maxsize=2)
def _decoder(definition: bytes, vocabulary: int) -> _Decoder:
    return _Decoder(definition, vocabulary)


def _encode(definition: bytes, data: bytes, offsets: np.ndarray[Any, Any]) -> _Tokens:
    """Return (tokens of each document, all tokens end to end); runs in a child."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    edges = offsets.tolist()
    texts = [data[low:high].decode() for low, high in pairwise(edges)]
    encoded = _load(definition).encode_batch(texts, add_special_tokens=False)
    ids = [np.array(item.ids, np.int32) for item in encoded]
    lengths = np.array([item.size for item in ids], np.int64)
    return lengths, np.concatenate([*ids, np.empty(0, np.int32)])
