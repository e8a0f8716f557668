"""What turns a document's bytes into tokens and back, and the identity a manifest records of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .arrays import Int64Array
from .blocks import BlockData
from .byte_text import utf8_only
from .errors import CorpusError, UsageError
from .formats import canonical_json, sha256_hex
from .tokenizer_hf import HF_GRAMMAR, HfTokenizer
from .tokenizer_identity import TokenizerIdentity

DEFINITION = "tokenizer.json"
IDS_GRAMMAR = "ids:VOCABULARY:SEPARATOR:PAD"


class Tokenizer(Protocol):
    """Tokens of UTF-8 text; must give the same tokens in every process, for ever."""

    @property
    def identity(self) -> TokenizerIdentity:
        """What the manifest records."""

    def encode(self, text: BlockData) -> BlockData:
        """Return the tokens of `text` (uint8 values) in `token_dtype(identity.vocabulary)`."""

    def count(self, text: BlockData) -> Int64Array:
        """Return the number of tokens of each document, int64[documents]."""

    def decode(self, tokens: BlockData) -> BlockData:
        """Return the UTF-8 text of `tokens` (uint8 values); asked of corpora of token ids."""


class ByteTokenizer:
    """Token = byte of the UTF-8 text; separator 256, pad 257, vocabulary 258."""

    @property
    def identity(self) -> TokenizerIdentity:
        """Return the identity that every byte-level manifest shares."""
        facts = {"name": "bytes", "vocabulary": 258, "separator": 256, "pad": 257}
        return TokenizerIdentity(
            name="bytes",
            digest=sha256_hex(canonical_json(facts)),
            vocabulary=258,
            separator=256,
            pad=257,
        )

    def encode(self, text: BlockData) -> BlockData:
        """Widen bytes to uint16, so that separator and pad fit beside them."""
        return BlockData(values=text.values.astype(np.uint16), offsets=text.offsets)

    def count(self, text: BlockData) -> Int64Array:
        """Return the bytes of each document."""
        return text.lengths

    def decode(self, tokens: BlockData) -> BlockData:
        """Narrow tokens to bytes, without separators and pads; U+FFFD for what is not UTF-8."""
        values: NDArray[Any] = tokens.values
        is_byte = values < 256
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_byte, dtype=np.int64)])
        narrow = values[is_byte].astype(np.uint8)
        return utf8_only(BlockData(values=narrow, offsets=ends[tokens.offsets]))


class TokenIds:
    """The corpus holds token ids already; this only checks and narrows them."""

    def __init__(self, *, vocabulary: int, separator: int | None, pad: int) -> None:
        facts = {"name": "ids", "vocabulary": vocabulary, "separator": separator, "pad": pad}
        self._identity = TokenizerIdentity(
            name="ids",
            digest=sha256_hex(canonical_json(facts)),
            vocabulary=vocabulary,
            separator=separator,
            pad=pad,
        )

    @property
    def identity(self) -> TokenizerIdentity:
        """Return vocabulary, separator and pad as they were declared."""
        return self._identity

    def encode(self, text: BlockData) -> BlockData:
        """Refuse text: a corpus of token ids has none."""
        raise CorpusError("this corpus holds token ids, there is no text to encode")

    def count(self, text: BlockData) -> Int64Array:
        """Return the token ids of each document."""
        return text.lengths

    def decode(self, tokens: BlockData) -> BlockData:
        """Refuse: what the ids stand for is not known."""
        raise CorpusError(
            "this corpus holds token ids of an unknown tokenizer and no text; index a text column, "
            f"or the ids with the tokenizer '{HF_GRAMMAR}' that they were made with"
        )


def resolve_tokenizer(spec: str | Tokenizer) -> Tokenizer:
    """Return the tokenizer that `spec` names: `bytes`, `hf:FILE`, or `ids:V:S:P`.

    Raises:
        UsageError: `spec` follows none of these forms.
        MissingExtra: `hf:` without the `tokenizers` package.
    """
    if not isinstance(spec, str):
        return spec
    if spec == "bytes":
        return ByteTokenizer()
    kind, _, rest = spec.partition(":")
    if kind == "ids":
        return _token_ids(spec, rest)
    if kind == "hf":
        return HfTokenizer.read(Path(rest))
    raise UsageError(f"unknown tokenizer {spec!r}; use 'bytes', '{HF_GRAMMAR}' or '{IDS_GRAMMAR}'")


def tokenizer_of(identity: TokenizerIdentity, directory: Path) -> Tokenizer:
    """Return the tokenizer that the manifest in `directory` was built with.

    Raises:
        CorpusError: it cannot be made anew from the identity alone.
    """
    if identity.name == "bytes":
        found: Tokenizer = ByteTokenizer()
    elif identity.name == "ids":
        found = TokenIds(
            vocabulary=identity.vocabulary, separator=identity.separator, pad=identity.pad
        )
    elif identity.name == "hf":
        found = HfTokenizer.read(directory / DEFINITION)
    else:
        raise CorpusError(
            f"the manifest was built with tokenizer {identity.name!r}, which this release cannot "
            "make; write its tokens to a column and index them as ids"
        )
    if found.identity != identity:
        raise CorpusError(
            f"tokenizer {identity.name!r} has digest {found.identity.digest[:12]} here and "
            f"{identity.digest[:12]} in the manifest; restore the tokenizer, or index anew"
        )
    return found


def spec_of(identity: TokenizerIdentity, directory: Path) -> str:
    """Return what `resolve_tokenizer` makes the tokenizer of the manifest in `directory` from.

    A tokenizer that only its maker can name again is named alone.
    """
    if identity.name == "hf":
        return f"hf:{directory / DEFINITION}"
    if identity.name == "ids":
        separator = "none" if identity.separator is None else identity.separator
        return f"ids:{identity.vocabulary}:{separator}:{identity.pad}"
    return identity.name


def _token_ids(spec: str, rest: str) -> TokenIds:
    parts = rest.split(":")
    if len(parts) != 3 or not all(
        (part.isascii() and part.isdigit()) or part == "none" for part in parts
    ):
        raise UsageError(
            f"tokenizer {spec!r} does not follow {IDS_GRAMMAR} (SEPARATOR may be none)"
        )
    vocabulary, separator, pad = parts
    if "none" in (vocabulary, pad):
        raise UsageError(f"tokenizer {spec!r}: only SEPARATOR may be none")
    return TokenIds(
        vocabulary=int(vocabulary),
        separator=None if separator == "none" else int(separator),
        pad=int(pad),
    )
