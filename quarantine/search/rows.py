"""What an index holds of each document, from one pass over its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .columns import TextChunk, chunk_of
from .feature_names import Feature
from .features import Features, measure
from .findings import DECISIVE
from .rules import BUILT_IN
from .signature import BANDS, PERMUTATIONS, sign
from .vectors import WIDTH, quantise

DECIDING = tuple(rule for rule in BUILT_IN if rule.decides)
"""Bit `i` of a document's flags says that rule `i` of these crossed its line."""
NOT_UTF8 = np.uint32(1 << 31)
EMPTY_HASH = xxhash.xxh3_128_digest(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRows:
    """N documents: 350 bytes each.

    Attributes:
        hashes: uint8[N, 16], XXH3-128 of the bytes.
        counts: uint32[N], shingles; 0 for a document without tokens.
        low: uint8[N, 128], the low bytes of the signature.
        bands: 25 columns uint32[N], the band values.
        vectors: uint8[N, WIDTH], the kept features.
        flags: uint32[N], a bit for each deciding rule, bit 31 for bytes that are not UTF-8.
    """

    hashes: NDArray[np.uint8]
    counts: NDArray[np.uint32]
    low: NDArray[np.uint8]
    bands: tuple[NDArray[np.uint32], ...]
    vectors: NDArray[np.uint8]
    flags: NDArray[np.uint32]

    def __post_init__(self) -> None:
        n = len(self.counts)
        shapes = {
            "hashes": (n, 16),
            "low": (n, PERMUTATIONS),
            "vectors": (n, WIDTH),
            "flags": (n,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, not {shape}")
        if [band.shape for band in self.bands] != [(n,)] * BANDS:
            raise ValueError(f"there must be {BANDS} bands of {n} values")

    def __len__(self) -> int:
        return len(self.counts)

    def words(self) -> NDArray[np.uint64]:
        """Return the first eight bytes of each content hash, uint64[N]."""
        return np.ascontiguousarray(self.hashes[:, :8]).view(np.uint64)[:, 0]


def index_chunk(chunk: TextChunk, *, junk: bool = True) -> IndexRows:
    """Return the rows of a chunk; without `junk` vectors and flags are 0, as for token ids."""
    signatures = sign(chunk)
    features = measure(chunk if junk else chunk_of([b""] * len(chunk)))
    return IndexRows(
        hashes=content_hashes(chunk),
        counts=np.minimum(signatures.counts, 0xFFFFFFFF).astype(np.uint32),
        low=signatures.low,
        bands=tuple(np.ascontiguousarray(signatures.bands().T)),
        vectors=quantise(features),
        flags=flags_of(features),
    )


def join_rows(parts: Sequence[IndexRows]) -> IndexRows:
    """Return the rows of all parts in order."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_rows()
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("hashes", "counts", "low", "vectors", "flags")
    }
    bands = zip(*(part.bands for part in parts), strict=True)
    return IndexRows(**joined, bands=tuple(np.concatenate(band) for band in bands))


def no_rows() -> IndexRows:
    """Return zero rows."""
    return IndexRows(
        hashes=np.zeros((0, 16), np.uint8),
        counts=np.zeros(0, np.uint32),
        low=np.zeros((0, PERMUTATIONS), np.uint8),
        bands=(np.zeros(0, np.uint32),) * BANDS,
        vectors=np.zeros((0, WIDTH), np.uint8),
        flags=np.zeros(0, np.uint32),
    )


def flags_of(features: Features) -> NDArray[np.uint32]:
    """Return uint32[N] flags of the deciding rules and of bytes that are not UTF-8."""
    flags = np.where(features.column(Feature.INVALID) > 0, NOT_UTF8, np.uint32(0))
    for bit, rule in enumerate(DECIDING):
        fired = rule.scores(features) >= DECISIVE
        flags |= fired.astype(np.uint32) << np.uint32(bit)
    return flags.astype(np.uint32)


def content_hashes(chunk: TextChunk) -> NDArray[np.uint8]:
    """Return uint8[N, 16]: XXH3-128 of each document's bytes."""
    view = chunk.data.data
    digest = xxhash.xxh3_128_digest
    joined = b"".join([digest(view[start:end]) for start, end in pairwise(chunk.offsets.tolist())])
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, 16)
