"""The documents of the benchmark: token lists with long-tailed lengths, seeded, in Parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

VOCABULARY = 50_304
SEPARATOR = 50_302
PAD = 50_303
MEDIAN_LENGTH = 400
# A log-normal of median m and mean m * exp(s**2 / 2); this spread gives a mean near 900.
SPREAD = math.sqrt(2 * math.log(900 / MEDIAN_LENGTH))
LONGEST = 1 << 17
ROW_GROUPS_PER_SHARD = 12
SCHEMA = pa.schema([("id", pa.string()), ("tokens", pa.list_(pa.uint16()))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Where the documents lie and what they are.

    Attributes:
        path: directory of Parquet shards.
        documents, tokens: how many.
        row_groups: rows of each row group, shard by shard.
    """

    path: str
    documents: int
    tokens: int
    row_groups: list[list[int]]

    @property
    def shards(self) -> list[str]:
        """Paths of the shards in order."""
        return [str(Path(self.path) / _shard_name(n)) for n in range(len(self.row_groups))]

    def describe(self) -> dict[str, Any]:
        """Return what a reader of the results has to know about the data."""
        groups = [rows for shard in self.row_groups for rows in shard]
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "row_groups": len(groups),
            "row_group_rows": [min(groups), max(groups)],
            "columns": {name: str(SCHEMA.field(name).type) for name in SCHEMA.names},
            "format": "parquet, zstd, default encodings",
        }


def make_documents(directory: Path, documents: int, seed: int = 1) -> Documents:
    """Return the documents under `directory`, written unless they lie there already.

    Lengths are log-normal with median 400 and mean 900, token ids fall off like 1/rank, row groups
    hold 1,000 to 4,000 documents.
    """
    note = directory / "documents.json"
    if note.exists():
        known = Documents(**json.loads(note.read_text()))
        if known.documents == documents and known.path == str(directory):
            return known
        raise SystemExit(f"{directory} holds {known.documents} documents; give another --data")
    directory.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    groups = list(_row_groups(documents, generator))
    shards = [
        groups[n : n + ROW_GROUPS_PER_SHARD] for n in range(0, len(groups), ROW_GROUPS_PER_SHARD)
    ]
    tokens = first = 0
    for number, rows in enumerate(shards):
        with pq.ParquetWriter(directory / _shard_name(number), SCHEMA, compression="zstd") as sink:
            for count in rows:
                table = _table(first, count, generator)
                sink.write_table(table, row_group_size=count)
                first += count
                tokens += len(table["tokens"].chunk(0).flatten())
    made = Documents(path=str(directory), documents=documents, tokens=tokens, row_groups=shards)
    note.write_text(json.dumps(asdict(made)))
    return made


def lengths(count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return token lengths of `count` documents."""
    drawn = generator.lognormal(math.log(MEDIAN_LENGTH), SPREAD, count)
    return np.clip(drawn, 1, LONGEST).astype(np.int64)


def tokens_of(count: int, generator: np.random.Generator) -> NDArray[np.uint16]:
    """Return `count` token ids, small ones the most frequent, none of them special."""
    drawn = np.exp(generator.random(count, dtype=np.float32) * math.log(SEPARATOR)) - 1
    tokens: NDArray[np.uint16] = np.minimum(drawn, SEPARATOR - 1).astype(np.uint16)
    return tokens


def _row_groups(documents: int, generator: np.random.Generator) -> Iterator[int]:
    while documents:
        rows = min(documents, int(generator.integers(1000, 4001)))
        yield rows
        documents -= rows


def _table(first: int, count: int, generator: np.random.Generator) -> pa.Table:
    sizes = lengths(count, generator)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    lists = pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(tokens_of(int(offsets[-1]), generator))
    )
    ids = pa.array([f"doc-{first + row:010d}" for row in range(count)])
    return pa.table({"id": ids, "tokens": lists}, schema=SCHEMA)


def _shard_name(number: int) -> str:
    return f"shard-{number:05d}.parquet"
