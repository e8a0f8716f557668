"""Exact copies in a whole corpus: groups of documents with the same bytes, in bounded memory.

Each block of a corpus gives one record for a content. The records are spread by their hash
over temporary files of a few million records each, and each file is grouped by itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...loader.closing import Closing
from .rows import EMPTY_HASH

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

MOST_GROUPS = 1000
MOST_PLACES = 8
RECORDS_AT_ONCE = 1 << 22
MOST_FILES = 256
IN_MEMORY = 1 << 26
"""Bytes of records that are held before any goes to the disk."""

Records = NDArray[np.void]
RECORD = np.dtype(
    [("a", "<u8"), ("b", "<u8"), ("doc", "<i8"), ("block", "<u4"), ("documents", "<u4")]
)
"""The halves of a content hash, its first document in a block, and how many there are in it."""
_EMPTY = np.frombuffer(EMPTY_HASH, dtype="<u8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`documents` copies in one shard; `doc` is the first of them."""

    shard: str
    documents: int
    doc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyGroup:
    """Documents with the same bytes: XXH3-128 as hex, how many in how many shards, first places."""

    hash: str
    documents: int
    shards: int
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """The exact copies of a corpus; `groups` holds the largest 1,000, the others are counted.

    `copies` are the documents beyond the first of each group. Documents without text are counted as
    `empty` and are in no group.
    """

    count: int = 0
    copies: int = 0
    empty: int = 0
    groups: tuple[CopyGroup, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return the copies as plain JSON values."""
        return {
            "count": self.count,
            "copies": self.copies,
            "empty": self.empty,
            "groups": [
                {
                    "hash": group.hash,
                    "documents": group.documents,
                    "shards": group.shards,
                    "places": [
                        {"shard": place.shard, "documents": place.documents, "doc": place.doc}
                        for place in group.places
                    ],
                }
                for group in self.groups
            ],
        }


def copy_records(
    hashes: NDArray[np.uint8], first: int, block: int, alive: NDArray[np.bool_] | None = None
) -> Records:
    """Return a record for each content among documents `first`, `first` + 1, … of one block.

    `hashes` is uint8[n, 16]. Where `alive`, bool[n], is given, the documents for which it is False
    are left out: what was rebuilt away has no content, and is no empty document either.
    """
    docs = np.arange(first, first + len(hashes))
    if alive is not None:
        hashes, docs = hashes[alive], docs[alive]
    records = np.empty(len(hashes), RECORD)
    halves = np.ascontiguousarray(hashes).view("<u8")
    records["a"], records["b"] = halves[:, 0], halves[:, 1]
    records["doc"] = docs
    records["block"] = block
    records = _sorted(records)
    starts = _starts(records)
    counts = np.diff(np.append(starts, len(records)))
    records = records[starts]
    records["documents"] = counts
    return records


class CopyFinder(Closing):
    """Collects the records of a scan, in any order, and groups them; a context manager.

    Raises:
        OSError: the directory of temporary files is full; 32 bytes a document are needed there.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._shard_of = manifest.block_column("shard")
        wanted = -(-manifest.documents_count // RECORDS_AT_ONCE)
        self._files = min(MOST_FILES, 1 << max(0, wanted - 1).bit_length())
        size = IN_MEMORY // self._files
        with ExitStack() as stack:
            self._parts: list[Any] = [
                stack.enter_context(tempfile.SpooledTemporaryFile(max_size=size))
                for _ in range(self._files)
            ]
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Delete the temporary files."""
        self._stack.close()

    def add(self, records: Records) -> None:
        """Keep the records of one part."""
        part_of = records["a"] % np.uint64(self._files)
        for part in np.unique(part_of).tolist():
            self._parts[part].write(records[part_of == part].tobytes())

    def found(self) -> Duplicates:
        """Return the groups over all records that were added."""
        count = copies = empty = 0
        largest: list[CopyGroup] = []
        for part in self._parts:
            part.seek(0)
            records = _sorted(np.frombuffer(part.read(), RECORD))
            starts = _starts(records)
            totals = np.add.reduceat(records["documents"].astype(np.int64), starts)
            blank = (records["a"][starts] == _EMPTY[0]) & (records["b"][starts] == _EMPTY[1])
            rows = np.flatnonzero((totals > 1) & ~blank)
            count += len(rows)
            copies += int(totals[rows].sum()) - len(rows)
            empty += int(totals[blank].sum())
            rows = rows[np.lexsort((records["doc"][starts[rows]], -totals[rows]))][:MOST_GROUPS]
            runs = np.append(starts, len(records))
            largest += [self._group(records[runs[row] : runs[row + 1]]) for row in rows.tolist()]
            largest = sorted(largest, key=_rank)[:MOST_GROUPS]
        return Duplicates(count=count, copies=copies, empty=empty, groups=tuple(largest))

    def _group(self, records: Records) -> CopyGroup:
        by_shard = np.unique(
            self._shard_of[records["block"]], return_index=True, return_counts=True
        )
        return CopyGroup(
            hash=records[:1].tobytes()[:16].hex(),
            documents=int(records["documents"].sum(dtype=np.int64)),
            shards=len(by_shard[0]),
            places=tuple(self._places(records, by_shard)),
        )

    def _places(self, records: Records, by_shard: Any) -> Iterator[Place]:
        for shard, start, length in zip(*(part[:MOST_PLACES] for part in by_shard), strict=True):
            inside = records[start : start + length]
            yield Place(
                shard=self._manifest.shards[int(shard)].uri,
                documents=int(inside["documents"].sum(dtype=np.int64)),
                doc=int(inside["doc"][0]),
            )


def _rank(group: CopyGroup) -> tuple[int, int]:
    return -group.documents, group.places[0].doc


def _sorted(records: Records) -> Records:
    return records[np.lexsort((records["doc"], records["b"], records["a"]))]


def _starts(records: Records) -> NDArray[np.int64]:
    """Return where the content differs from that of the record before."""
    new = np.ones(len(records), dtype=bool)
    new[1:] = (records["a"][1:] != records["a"][:-1]) | (records["b"][1:] != records["b"][:-1])
    return np.flatnonzero(new)
