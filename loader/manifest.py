"""The manifest: one immutable description of a corpus, mapped and read on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array, UInt16Array, UInt32Array
from .block_reader import BlockReader
from .blocks import BlockData
from .errors import CorpusError, IntegrityError, NotFound
from .geometry import Geometry
from .manifest_format import (
    BLOCKS,
    SHARDS,
    SOURCES,
    TOMBSTONES,
    Header,
    Shard,
    file_digest,
    lengths_name,
    map_table,
    read_header,
)
from .plan import Holdout, Plan
from .sidecar import Sidecar
from .sources import Span
from .tokenizers import DEFINITION, Tokenizer

DEFAULT_WINDOW = 16
WINDOW_TOKENS = 64 << 20

HASHED_SIDECARS = 1 << 24
"""Documents up to which the sidecars are hashed at every open. In larger corpora the lengths are
checked block by block as they are read, and `corpus verify` hashes everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where one document lies.

    Attributes:
        doc: its ordinal.
        shard_uri: relative to the corpus root.
        row: of the shard, from 0.
        block: ordinal of the block.
        source: name of its source.
    """

    doc: int
    shard_uri: str
    row: int
    block: int
    source: str


class Manifest:
    """A corpus as `shardward corpus index` found it.

    It may be pickled and forked, and used from several threads at once.

    Attributes:
        path: the manifest directory.
        header: what `manifest.json` holds.
        root: directory or URL that the shards lie under.
    """

    def __init__(self, path: Path, header: Header, root: str) -> None:
        self.path = path
        self.header = header
        self.root = root
        self._shard_table = map_table(path / SHARDS)
        self._block_table = map_table(path / BLOCKS)
        self._lengths = Sidecar(path / lengths_name(header.tokenizer), "<u4", header.documents)
        self._sources = Sidecar(path / SOURCES, "<u2", header.documents)
        self.reader = BlockReader(self)

    @classmethod
    def load(cls, path: Path | str, root: str | None = None) -> Manifest:
        """Open the manifest directory `path`.

        Args:
            path: directory with `manifest.json`.
            root: where the corpus lies now, when it has moved since it was indexed.

        Raises:
            FormatError: not a manifest, or one of another version.
            IntegrityError: a file of it is not what the header says.
        """
        directory = Path(path)
        header = read_header(directory)
        kept = [name for name in (DEFINITION, TOMBSTONES) if name in header.tables]
        for name in (SHARDS, BLOCKS, *kept):
            _check_table(directory / name, header.tables.get(name))
        for name in (SOURCES, lengths_name(header.tokenizer)):
            if header.documents <= HASHED_SIDECARS:
                _check_table(directory / name, header.tables.get(name))
        return cls(directory, header, root or header.root)

    def __reduce__(self) -> tuple[Any, ...]:
        return Manifest, (self.path, self.header, self.root)

    @property
    def fingerprint(self) -> str:
        """Identity of the corpus, 64 hex digits; the same wherever it lies.

        It says what the number of a document means, so a rebuilt manifest has that of its parent:
        plans, cursors, revisions and records of the parent go on with it.
        """
        return self.header.parent or self.header.fingerprint

    @cached_property
    def tombstones(self) -> Int64Array:
        """Sorted documents of a rebuilt corpus whose content is gone."""
        if not self.header.tombstones:
            return np.empty(0, np.int64)
        found = np.frombuffer((self.path / TOMBSTONES).read_bytes(), "<i8")
        return found.astype(np.int64, copy=False)

    def alive(self, block: int) -> BoolArray | None:
        """Return which documents of `block` have content, or None where all have."""
        low, high = (int(edge) for edge in self._geometry.first_document[block : block + 2])
        gone = self.tombstones
        start, end = np.searchsorted(gone, (low, high))
        if start == end:
            return None
        alive = np.ones(high - low, np.bool_)
        alive[gone[start:end] - low] = False
        return alive

    @property
    def documents_count(self) -> int:
        """Number of documents."""
        return self.header.documents

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the sources, by code."""
        return self.header.sources

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """All shards in canonical order."""
        rows = self._shard_table.to_pylist()
        return tuple(Shard(**{**row, "digest": row["digest"].hex()}) for row in rows)

    @cached_property
    def _geometry(self) -> Geometry:
        return Geometry(
            block_documents=self.block_column("documents"),
            block_tokens=self.block_column("tokens"),
        )

    @cached_property
    def _block_shard(self) -> Int64Array:
        return self.block_column("shard")

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the lengths belong to, made anew and checked."""
        return self.reader.tokenizer

    def geometry(self) -> Geometry:
        """Return documents and tokens per block."""
        return self._geometry

    def plan(
        self,
        *,
        seed: int,
        seq_len: int | None,
        window_blocks: int | None = None,
        lookahead: int = 0,
        holdout: Holdout | None = None,
    ) -> Plan:
        """Return a plan for this corpus with its tokenizer's separator and pad.

        Args:
            seed: of the order.
            seq_len: tokens per packed sample; None for one document per sample.
            window_blocks: blocks shuffled together; by default 16, or fewer so that no window
                holds more than 64M tokens.
            lookahead: 1 for the next token after each packed sample.
            holdout: documents kept out of training.
        """
        tokenizer = self.header.tokenizer
        return Plan(
            fingerprint=self.fingerprint,
            seed=seed,
            window_blocks=self._default_window() if window_blocks is None else window_blocks,
            seq_len=seq_len,
            separator=None if seq_len is None else tokenizer.separator,
            pad=tokenizer.pad,
            lookahead=lookahead,
            holdout=holdout,
        )

    def _default_window(self) -> int:
        largest = np.sort(self._geometry.block_tokens)[::-1][:DEFAULT_WINDOW].cumsum()
        return max(1, int(np.searchsorted(largest, WINDOW_TOKENS, side="right")))

    def block_column(self, name: str) -> Int64Array:
        """Return an integer column of `blocks.arrow`, one entry per block."""
        column: Int64Array = self._block_table[name].to_numpy().astype(np.int64, copy=False)
        return column

    def lengths(self, low: int, high: int) -> UInt32Array:
        """Return the token lengths of documents low..high-1, uint32[high - low]."""
        lengths: UInt32Array = self._lengths.read(low, high)
        return lengths

    def sources(self, low: int, high: int) -> UInt16Array:
        """Return the source codes of documents low..high-1, uint16[high - low]."""
        codes: UInt16Array = self._sources.read(low, high)
        return codes

    def sources_of(self, docs: Int64Array) -> UInt16Array:
        """Return the source codes of any documents, uint16[n]; one read per run of blocks."""
        first = self._geometry.first_document
        codes = np.empty(len(docs), np.uint16)
        blocks = self._geometry.block_of(docs)
        order = np.argsort(blocks, kind="stable")
        edges = np.flatnonzero(np.diff(blocks[order], prepend=-1, append=-1))
        for start, end in pairwise(edges.tolist()):
            chosen = order[start:end]
            low, high = (int(edge) for edge in first[blocks[chosen[0]] :][:2])
            codes[chosen] = self.sources(low, high)[docs[chosen] - low]
        return codes

    def shard_of(self, block: int) -> Shard:
        """Return the shard that holds `block`."""
        return self.shards[int(self._block_shard[block])]

    def span(self, block: int) -> Span:
        """Return where `block` lies within its shard."""
        table, first = self._block_table, int(self._geometry.first_document[block])
        return Span(
            index=table["index"][block].as_py(),
            first=first - self.shard_of(block).first_document,
            documents=int(self._geometry.block_documents[block]),
            offset=table["offset"][block].as_py(),
            size=table["size"][block].as_py(),
        )

    def block_digest(self, block: int) -> bytes:
        """Return the logical digest that `block` had when it was indexed, 16 bytes."""
        digest: bytes = self._block_table["digest"][block].as_py()
        return digest

    def locate(self, doc: int) -> Location:
        """Return where document `doc` lies.

        Raises:
            NotFound: `doc` is not an ordinal of this corpus.
        """
        self._check_docs(np.array([doc], np.int64))
        block = int(self._geometry.block_of(np.array([doc], np.int64))[0])
        shard = self.shard_of(block)
        return Location(
            doc=doc,
            shard_uri=shard.uri,
            row=doc - shard.first_document,
            block=block,
            source=self.source_names[int(self.sources(doc, doc + 1)[0])],
        )

    def open_block(self, block: int, into: NDArray[Any] | None = None) -> BlockData:
        """Return the tokens of `block`, checked against digest and lengths.

        They are decoded into `into` (of the manifest's token dtype, one entry per token) where
        the format allows; `values` of the result is that array then.

        Raises:
            CorruptBlock: the shard no longer holds what was indexed.
        """
        return self.reader.tokens(block, into)

    @property
    def has_text(self) -> bool:
        """Whether documents can be read as text: stored as such, or decoded from token ids."""
        return not self.has_token_ids or self.header.tokenizer.decodes

    @property
    def has_token_ids(self) -> bool:
        """Whether the shards hold token ids."""
        return self.header.schema.kind == "tokens"

    def block_text(self, block: int) -> pa.Array:
        """Return the text of `block` as an Arrow large_string array; token ids are decoded.

        Raises:
            CorpusError: the corpus holds ids of an unknown tokenizer and no text.
            MissingExtra: it holds ids that only the `tokenizers` package can decode.
        """
        return self.reader.text(block)

    def iter_text(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield (ordinal of the first document, text) block by block, in manifest order."""
        for block in range(self.header.blocks):
            yield int(self._geometry.first_document[block]), self.block_text(block)

    def documents(
        self, docs: Sequence[int] | Int64Array, columns: Sequence[str] = ("id", "text")
    ) -> pa.Table:
        """Return documents in the order asked for.

        Args:
            docs: ordinals.
            columns: which of `id` (null without an id column), `text` and `tokens` to read.

        Returns:
            A table of doc, the columns asked for, source, shard, row.

        Raises:
            NotFound: an ordinal is outside the corpus.
            CorpusError: `text` of a corpus of token ids of an unknown tokenizer.
            MissingExtra: `text` of ids that only the `tokenizers` package can decode.
        """
        wanted = np.asarray(docs, np.int64)
        self._check_docs(wanted)
        unknown = set(columns) - {"id", "text", "tokens"}
        if unknown:
            raise CorpusError(f"no document column {sorted(unknown)[0]!r}; use id, text or tokens")
        return self.reader.documents(wanted, columns)

    def _check_docs(self, docs: Int64Array) -> None:
        outside = docs[(docs < 0) | (docs >= self.header.documents)]
        if len(outside):
            raise NotFound(
                f"document {int(outside[0])} does not exist; this corpus has documents 0 to "
                f"{self.header.documents - 1}"
            )


def _check_table(path: Path, expected: str | None) -> None:
    found = file_digest(path) if path.is_file() else "no file"
    if found != expected:
        raise IntegrityError(
            f"{path} has digest {found}, the header says {expected}; "
            "restore it or index the corpus anew"
        )
