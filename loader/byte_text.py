"""Byte-level tokens back to text: each token is a fixed run of bytes, so a table decodes them.

The letters that stand for bytes in a byte-level vocabulary are those of GPT-2 (Radford et al. 2019,
`bytes_to_unicode`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .blocks import BlockData, joined
from .sources.columns import string_array

_PLAIN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_MOVED = [byte for byte in range(256) if byte not in _PLAIN]
BYTE_OF_LETTER = {chr(byte): byte for byte in _PLAIN} | {
    chr(256 + place): byte for place, byte in enumerate(_MOVED)
}


class ByteTable:
    """The bytes of each token id; none for an id that is no token.

    Args:
        tokens: the tokens by id as a vocabulary writes them, None for an id without one.
    """

    def __init__(self, tokens: Sequence[str | None]) -> None:
        self._runs = pa.array([_bytes_of(token) for token in tokens], pa.large_binary())

    @classmethod
    def of(cls, library: Any, vocabulary: int) -> ByteTable | None:
        """Return the table of a `tokenizers.Tokenizer`, or None where a decoder does more."""
        decoder = json.loads(library.to_str()).get("decoder") or {}
        if decoder.get("type") != "ByteLevel":
            return None
        return cls([library.id_to_token(number) for number in range(vocabulary)])

    def decode(self, tokens: BlockData) -> BlockData:
        """Return the UTF-8 text of `tokens` (uint8 values), as `utf8_only` leaves it.

        Every id has a place in the table; `check_token_range` sees to it.
        """
        taken = self._runs.take(pa.array(tokens.values))
        _, offsets, data = taken.buffers()
        ends = np.frombuffer(offsets, np.int64)[: len(taken) + 1]
        values = np.frombuffer(data if data is not None else b"", np.uint8)[: ends[-1]]
        return utf8_only(BlockData(values=values, offsets=ends[tokens.offsets]))


def utf8_only(text: BlockData) -> BlockData:
    """Return `text` with U+FFFD for what is not UTF-8; each document is judged by itself."""
    try:
        string_array(text).validate(full=True)
    except pa.ArrowException:
        return joined(
            text.document(row).tobytes().decode("utf-8", "replace").encode()
            for row in range(len(text))
        )
    return text


def _bytes_of(token: str | None) -> bytes:
    """Return the bytes that the letters of `token` stand for, its UTF-8 if one stands for none."""
    found = [BYTE_OF_LETTER.get(letter) for letter in token or ""]
    known = [byte for byte in found if byte is not None]
    return bytes(known) if len(known) == len(found) else (token or "").encode()
