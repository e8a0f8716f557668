"""Tokens that are pieces of text, back to text by a table instead of token by token.

The decoders of WordPiece, Unigram (Metaspace) and SentencePiece-like BPE write each token the same
wherever it stands, but for a document's first one. What each writes is asked of the library once;
a document whose byte tokens are not UTF-8 is left to the library, and so is every decoder that does
more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from .arrays import BoolArray
from .blocks import BlockData, joined
from .sources.columns import string_array

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_STEPS = ("Replace", "ByteFallback", "Fuse", "Strip")
"""What a sequence of decoders may hold, in this order."""
_TRIED = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceTable:
    """What each token id writes: `runs[id]` in a document, `runs[vocabulary + id]` at its start.

    `known` says which ids are tokens; the others write nothing.
    """

    library: Any
    vocabulary: int
    known: BoolArray
    runs: pa.Array

    @classmethod
    def of(cls, library: Any, vocabulary: int) -> PieceTable | None:
        """Return the table of a `tokenizers.Tokenizer`, or None where a decoder does more."""
        decoder = json.loads(library.to_str()).get("decoder") or {}
        if not _writes_pieces(decoder):
            return None
        tokens = [library.id_to_token(number) for number in range(vocabulary)]
        found = _runs(library, tokens, decoder)
        if found is None:
            return None
        known = np.array([token is not None for token in tokens], np.bool_)
        table = cls(library=library, vocabulary=vocabulary, known=known, runs=found)
        return table if table._agrees() else None

    def decode(self, tokens: BlockData) -> BlockData:
        """Return the UTF-8 text of `tokens` (uint8 values), as the library writes it.

        Every id has a place in the table; `check_token_range` sees to it.
        """
        is_token = self.known[tokens.values]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_token, dtype=np.int64)])
        offsets = ends[tokens.offsets]
        places = tokens.values[is_token].astype(np.int64)
        starts = offsets[:-1]
        places[starts[starts < offsets[1:]]] += self.vocabulary
        taken = self.runs.take(pa.array(places))
        _, edges, data = taken.buffers()
        bounds = np.frombuffer(edges, np.int64)[: len(taken) + 1]
        values = np.frombuffer(data if data is not None else b"", np.uint8)[: bounds[-1]]
        text = BlockData(values=values, offsets=bounds[offsets])
        try:
            string_array(text).validate(full=True)
        except pa.ArrowException:
            return joined(self._document(text, tokens, row) for row in range(len(text)))
        return text

    def _document(self, text: BlockData, tokens: BlockData, row: int) -> bytes:
        raw = text.document(row).tobytes()
        try:
            raw.decode()
        except UnicodeDecodeError:
            ids = tokens.document(row).tolist()
            return str(self.library.decode(ids, skip_special_tokens=False)).encode()
        return raw

    def _agrees(self) -> bool:
        """Return whether random ids, rich in bytes where there are some, decode as they should."""
        ids = np.flatnonzero(self.known)
        some = np.random.default_rng(0)
        singles = np.flatnonzero([len(run) == 1 for run in self.runs.to_pylist()])
        singles = np.intersect1d(singles, ids)
        documents = [
            some.choice(singles if len(singles) and number % 3 == 0 else ids, number % 17).tolist()
            for number in range(_TRIED if len(ids) else 0)
        ]
        offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64)
        values = np.array([token for document in documents for token in document], np.int64)
        found = self.decode(BlockData(values=values, offsets=offsets))
        wanted = self.library.decode_batch(documents, skip_special_tokens=False)
        return bool(string_array(found).to_pylist() == wanted)


def _writes_pieces(decoder: dict[str, Any]) -> bool:
    kind = decoder.get("type")
    if kind != "Sequence":
        return kind in (None, "Metaspace", "WordPiece", "Replace", "ByteFallback", "Fuse")
    steps = decoder["decoders"]
    places = [_STEPS.index(step["type"]) if step["type"] in _STEPS else -1 for step in steps]
    if -1 in places or places != sorted(places) or any(places.count(n) > 1 for n in (1, 2, 3)):
        return False
    strips = [step for step in steps if step["type"] == "Strip"]
    return all(step["start"] <= 1 and step["stop"] == 0 for step in strips) and (
        not strips or _STEPS.index("Fuse") in places
    )


def _runs(library: Any, tokens: Sequence[str | None], decoder: dict[str, Any]) -> pa.Array | None:
    """Return what each id writes within a document, then what it writes at the start of one."""
    steps = decoder.get("decoders", [decoder])
    has_bytes = any(step.get("type") == "ByteFallback" for step in steps)
    stripped = {step["content"] for step in steps if step.get("type") == "Strip" and step["start"]}
    numbers = [number for number, token in enumerate(tokens) if token is not None]
    alone = library.decode_batch([[number] for number in numbers], skip_special_tokens=False)
    plain = [n for n in numbers if not _BYTE.fullmatch(tokens[n] or "")]
    if not plain:
        return None
    before = library.decode([plain[0]], skip_special_tokens=False)
    after = library.decode_batch([[plain[0], n] for n in numbers], skip_special_tokens=False)
    first: list[bytes] = [b""] * len(tokens)
    rest: list[bytes] = [b""] * len(tokens)
    for number, start, whole in zip(numbers, alone, after, strict=True):
        byte = _BYTE.fullmatch(tokens[number] or "") if has_bytes else None
        if byte:
            rest[number] = bytes.fromhex(byte[1])
            first[number] = b"" if rest[number].decode("latin-1") in stripped else rest[number]
        elif whole.startswith(before) and (len(whole) > len(before) or not has_bytes):
            first[number], rest[number] = start.encode(), whole[len(before) :].encode()
        else:
            return None  # an empty token would stand between two bytes
    return pa.array([*rest, *first], pa.large_binary())
