"""MinHash signatures and LSH bands of text columns.

Scheme affine32 of datasketch 2.0 with 128 permutations drawn from seed 1, over the shingles of
`shingles.py`. A signature says nothing about how it was made, so `Scheme` travels with it and
signatures of two schemes are never compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...loader.errors import MismatchError
from .characters import CLASS_SHIFT, IGNORED, UNSTABLE, character_table
from .columns import TextChunk
from .kernels import collect_shingles, sign_documents
from .shingles import TOKENIZER_VERSION

Raw = bytes | memoryview
PERMUTATIONS = 128
BANDS = 25
ROWS = 5
MOST_SHINGLES = 1 << 23
NORMAL_SLICE = 1 << 20
HEAD = 1 << 26
"""Bytes of normalised text that are looked through for as many shingles, before there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Everything that decides a signature's value."""

    name: str = "affine32"
    permutations: int = PERMUTATIONS
    seed: int = 1
    width: int = 5
    bands: int = BANDS
    rows: int = ROWS
    tokenizer: int = TOKENIZER_VERSION
    characters: str = ""

    def require(self, other: Scheme, *, where: str) -> None:
        """Refuse to compare with signatures of another scheme.

        Raises:
            MismatchError: the schemes differ; both values of what differs are in the message.
        """
        mine, theirs = asdict(self), asdict(other)
        for key, value in mine.items():
            if theirs[key] != value:
                raise MismatchError(
                    f"{where} was signed with {key} {theirs[key]!r}, this search uses {value!r}; "
                    "make its signatures anew with this release"
                )


def current_scheme() -> Scheme:
    """Return the scheme that this release writes."""
    return Scheme(characters=character_table().checksum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signatures:
    """Signatures of N documents: `values` uint32[N, 128], `counts` int64[N] shingles each."""

    values: NDArray[np.uint32]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.counts):
            raise ValueError(f"{len(self.values)} signatures but {len(self.counts)} counts")

    @property
    def low(self) -> NDArray[np.uint8]:
        """The low byte of each slot, uint8[N, 128]: what an index keeps."""
        return self.values.astype(np.uint8)

    def bands(self) -> NDArray[np.uint32]:
        """Return the LSH band values, uint32[N, 25], of five slots each."""
        return band_values(self.values)


@cache
def permutations(
    count: int = PERMUTATIONS, seed: int = 1
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the odd multipliers and the addends, uint32[count] each, as datasketch draws them."""
    draw = np.random.RandomState(seed)  # the legacy generator is frozen by numpy's own policy
    odd = draw.randint(0, 1 << 31, count, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return odd, draw.randint(0, 1 << 32, count, dtype=np.uint32)


def sign(chunk: TextChunk, *, count: int = PERMUTATIONS, seed: int = 1) -> Signatures:
    """Return the signatures of a chunk; a document without tokens has count 0 and all slots full.

    Documents that may not be in NFC are normalised in Python and signed once more.
    """
    values, counts, seen = _sign(chunk, count, seed)
    unstable = np.flatnonzero(seen & np.uint32(UNSTABLE))
    for row in unstable:
        normal = bytearray()
        for piece in normal_slices(chunk.view(int(row)).data):
            normal += piece
        if normal != chunk.view(int(row)).data:
            again, number, _ = _sign(_chunk_in(normal), count, seed)
            values[row], counts[row] = again[0], number[0]
    return Signatures(values=values, counts=counts)


def normal_slices(raw: Raw) -> Iterator[bytes]:
    """Yield UTF-8 bytes normalised as by `shingles.normalise`, about a mebibyte at a time."""
    view, start = memoryview(raw), 0
    while start < len(view):
        stop = _cut(view, start + NORMAL_SLICE)
        yield _normal_slice(view[start:stop])
        start = stop


def band_values(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return uint32[N, 25] band values of uint32[N, 128] signatures (25 bands of 5 slots)."""
    out = np.empty((len(values), BANDS), dtype=np.uint32)
    prime = np.uint64(0x9E3779B97F4A7C15)
    for band in range(BANDS):
        total = np.full(len(values), band + 1, dtype=np.uint64)
        for slot in range(band * ROWS, band * ROWS + ROWS):
            total = (total ^ values[:, slot]) * prime
            total ^= total >> np.uint64(29)
        out[:, band] = (total >> np.uint64(32)).astype(np.uint32)
    return out


def candidate_probability(jaccard: float) -> float:
    """Return P(at least one shared band | J), 1 - (1 - J^5)^25."""
    return float(1.0 - (1.0 - jaccard**ROWS) ** BANDS)


def shingle_set(raw: Raw) -> NDArray[np.uint64]:
    """Return the sorted distinct 64-bit shingle hashes of one document.

    A document of more than MOST_SHINGLES is represented by its first ones, and no more of it is
    normalised than it takes to have them.
    """
    normal, enough = bytearray(), HEAD
    for piece in normal_slices(raw):
        normal += piece
        if len(normal) >= enough:
            found = _shingles(normal)
            if len(found) > MOST_SHINGLES:
                return _distinct(found[:MOST_SHINGLES])
            enough *= 2
    return _distinct(_shingles(normal)[:MOST_SHINGLES])


def jaccard(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> float:
    """Return the Jaccard index of two sorted sets; 0.0 when both are empty."""
    shared = np.intersect1d(left, right, assume_unique=True).size
    union = left.size + right.size - shared
    return shared / union if union else 0.0


def _shingles(normal: bytearray) -> NDArray[np.uint64]:
    """Return the first shingles of normalised text, at most one more than MOST_SHINGLES.

    The last one may be of a word that was cut.
    """
    table = character_table()
    out = np.empty(min(len(normal), MOST_SHINGLES) + 1, dtype=np.uint64)
    text = _chunk_in(normal).data
    return out[: int(collect_shingles(text, table.ascii, table.pages, table.cells, out))]


def _distinct(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct values, sorted in place: `np.unique` takes eight times the memory."""
    values.sort()
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]


def _chunk_in(text: bytearray) -> TextChunk:
    """Return `text` as the one document of a chunk, in place."""
    data = np.frombuffer(text, dtype=np.uint8)
    data.flags.writeable = False
    return TextChunk(data=data, offsets=np.array([0, len(text)], dtype=np.int64))


def _sign(
    chunk: TextChunk, count: int, seed: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint32]]:
    table = character_table()
    a, b = permutations(count, seed)
    values = np.empty((len(chunk), count), dtype=np.uint32)
    counts = np.zeros(len(chunk), dtype=np.int64)
    seen = np.zeros(len(chunk), dtype=np.uint32)
    sign_documents(
        chunk.data, chunk.offsets, table.ascii, table.pages, table.cells, a, b, values, counts, seen
    )
    return values, counts, seen


def _normal_slice(raw: memoryview) -> bytes:
    text = _ignored().sub("", str(raw, "utf-8", "replace"))
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return text.encode("utf-8", "replace")


@cache
def _ignored() -> re.Pattern[str]:
    """Return a pattern of ignorable characters as few ranges, which the re module scans fast."""
    table = character_table()
    kinds = table.cells.reshape(-1, 256)[table.pages].reshape(-1) >> np.uint32(CLASS_SHIFT)
    points = np.flatnonzero(kinds & np.uint32(3) == IGNORED)
    runs = np.split(points, np.flatnonzero(np.diff(points) > 1) + 1)
    return re.compile("[" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs) + "]+")


def _cut(raw: memoryview, stop: int) -> int:
    """Return a cut at or after `stop` before an ASCII byte, where no composition can cross."""
    last = min(len(raw), stop + NORMAL_SLICE)
    while stop < last and raw[stop] >= 0x80:
        stop += 1
    return min(stop, len(raw))
