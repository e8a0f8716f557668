"""What turns the bytes of a document into tokens, and the identity a manifest records of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from .blocks import BlockData
from .errors import CorpusError, UsageError
from .formats import canonical_json, sha256_hex

IDS_GRAMMAR = "ids:VOCABULARY:SEPARATOR:PAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerIdentity:
    """Which tokenizer a manifest's lengths belong to.

    Attributes:
        vocabulary: number of token ids, separator and pad included.
        separator: the token put after each document when packing, None for none.
        pad: the token of empty and blanked places.
        digest: 64 hex digits that change whenever the tokens of any text could change.
    """

    name: str
    digest: str
    vocabulary: int
    separator: int | None
    pad: int

    def __post_init__(self) -> None:
        special = [token for token in (self.separator, self.pad) if token is not None]
        if not 1 <= self.vocabulary <= 1 << 31:
            raise UsageError(f"a vocabulary of {self.vocabulary} is not within 1..2147483648")
        if not all(0 <= token < self.vocabulary for token in special):
            raise UsageError(
                f"separator {self.separator} and pad {self.pad} must be ids of the vocabulary "
                f"of {self.vocabulary}; count them in it"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the manifest's `tokenizer` object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TokenizerIdentity:
        """Read the manifest's `tokenizer` object."""
        return cls(**value)


class Tokenizer(Protocol):
    """Tokens of UTF-8 text; must give the same tokens in every process, for ever."""

    @property
    def identity(self) -> TokenizerIdentity:
        """What the manifest records."""

    def encode(self, text: BlockData) -> BlockData:
        """Return the tokens of `text` (uint8 values) in `token_dtype(identity.vocabulary)`."""


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
    raise UsageError(f"unknown tokenizer {spec!r}; use 'bytes' or '{IDS_GRAMMAR}'")


def tokenizer_of(identity: TokenizerIdentity) -> Tokenizer:
    """Return the tokenizer a manifest was built with.

    Raises:
        CorpusError: it cannot be made anew from the identity alone.
    """
    if identity.name == "bytes":
        found: Tokenizer = ByteTokenizer()
    elif identity.name == "ids":
        found = TokenIds(
            vocabulary=identity.vocabulary, separator=identity.separator, pad=identity.pad
        )
    else:
        found = resolve_tokenizer(identity.name)
    if found.identity != identity:
        raise CorpusError(
            f"tokenizer {identity.name!r} has digest {found.identity.digest[:12]} here and "
            f"{identity.digest[:12]} in the manifest; restore the tokenizer, or index anew"
        )
    return found


def _token_ids(spec: str, rest: str) -> TokenIds:
    parts = rest.split(":")
    if len(parts) != 3 or not all(part.isdigit() or part == "none" for part in parts):
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
