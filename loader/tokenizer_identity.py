"""Which tokenizer a manifest's lengths belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .errors import UsageError

DECODING = frozenset({"bytes", "hf"})
"""Names of the tokenizers that turn token ids back into text."""


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

    @property
    def decodes(self) -> bool:
        """Whether token ids can be made text again with what a manifest directory holds."""
        return self.name in DECODING

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
