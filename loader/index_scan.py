"""One shard's share of a manifest: blocks with digests, token lengths and source codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from .arrays import UInt16Array
from .blocks import BlockData, logical_digest, token_dtype
from .errors import CorpusError, UsageError
from .sources import ShardReader, Span, open_shard
from .sources.columns import (
    check_sizes,
    check_sound,
    check_token_range,
    kind_of,
    text_block,
    token_block,
)
from .sources.contract import reading, require_columns
from .sources.opening import format_of, join, open_input
from .tokenizer_hf import HF_GRAMMAR
from .tokenizers import IDS_GRAMMAR, Tokenizer

DEFAULT_SOURCE = "default"
MAX_SOURCES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns to index; `id` and `source` may be None."""

    value: str
    id: str | None
    source: str | None

    def wanted(self) -> list[str]:
        """Return the distinct columns, the values first."""
        named = [self.value, self.id, self.source]
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardScan:
    """What one shard adds to the manifest.

    `digest` is the xxh3-128 of its bytes.
    """

    uri: str
    format: str
    size: int
    digest: bytes
    spans: tuple[Span, ...]
    digests: tuple[bytes, ...]
    block_tokens: tuple[int, ...]

    @property
    def documents(self) -> int:
        """Rows of the shard."""
        return sum(span.documents for span in self.spans)

    @property
    def tokens(self) -> int:
        """Tokens of the shard, separators not counted."""
        return sum(self.block_tokens)

    def blocks(self, shard: int) -> pa.Table:
        """Return this shard's rows of `blocks.arrow`."""
        return pa.table(
            {
                "shard": pa.array([shard] * len(self.spans), pa.int32()),
                "index": pa.array([span.index for span in self.spans], pa.int32()),
                "documents": pa.array([span.documents for span in self.spans], pa.int64()),
                "tokens": pa.array(self.block_tokens, pa.int64()),
                "offset": pa.array([span.offset for span in self.spans], pa.int64()),
                "size": pa.array([span.size for span in self.spans], pa.int64()),
                "digest": pa.array(self.digests, pa.binary(16)),
            }
        )


class SourceNames:
    """Codes of source names, in order of first appearance."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names by code."""
        return tuple(self._codes)

    def code(self, name: str) -> int:
        """Return the code of `name`, giving it the next one if it is new."""
        code = self._codes.setdefault(name, len(self._codes))
        if code >= MAX_SOURCES:
            raise CorpusError(
                f"more than {MAX_SOURCES} sources ({name!r} is one too many); the source column "
                "must name a handful of origins, not documents"
            )
        return code

    def column(self, values: pa.ChunkedArray) -> UInt16Array:
        """Return the code of each value, uint16[n]."""
        encoded = pc.dictionary_encode(values.cast(pa.string())).combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        table = np.array([self.code(name) for name in encoded.dictionary.to_pylist()], "<u2")
        return table[encoded.indices.to_numpy()] if len(table) else table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    span: Span
    digest: bytes
    tokens: int


class ShardScanner:
    """Reads shards in canonical order, appending lengths (u32) and source codes (u16).

    Args:
        root: corpus root.
        columns: what to index.
        encoder: counts the tokens.
        named: whether someone chose the encoder, so that it is known what token ids stand for.
        lengths, sources: binary files that the sidecars are written to.

    Attributes:
        kind: `text` or `tokens`, which all documents are; None before the first.
        names: of the sources.
    """

    def __init__(
        self,
        *,
        root: str,
        columns: Columns,
        encoder: Tokenizer,
        named: bool,
        lengths: BinaryIO,
        sources: BinaryIO,
    ) -> None:
        self._root = root
        self._columns = columns
        self._encoder = encoder
        self._named = named
        self.kind: str | None = None
        self._lengths = lengths
        self._sources = sources
        self.names = SourceNames()

    def scan(self, uri: str) -> ShardScan:
        """Read one shard whole and return its summary.

        Raises:
            CorpusError: a block cannot be indexed; shard, row and remedy are in the message.
        """
        location, kind = join(self._root, uri), format_of(uri)
        assert kind is not None
        size, digest = file_facts(uri, location)
        reader = open_shard(kind, uri, location)
        try:
            wanted = self._columns.wanted()
            require_columns(uri, reader.names() or wanted, wanted)
            blocks = [self._block(reader, uri, span) for span in reader.spans()]
        finally:
            reader.close()
        return ShardScan(
            uri=uri,
            format=kind,
            size=size,
            digest=digest,
            spans=tuple(block.span for block in blocks),
            digests=tuple(block.digest for block in blocks),
            block_tokens=tuple(block.tokens for block in blocks),
        )

    def _block(self, reader: ShardReader, uri: str, span: Span) -> _Block:
        table = reader.read(span, self._columns.wanted())
        if table.num_rows != span.documents:
            raise CorpusError(
                f"shard {uri} block {span.index} has {table.num_rows} rows where its footer says "
                f"{span.documents}; the file is damaged: restore it"
            )
        kind = self._kind_of(table, uri, span)
        column, place = table[self._columns.value], f"shard {uri}"
        if kind == "text":
            raw = text_block(column, place, span.first)
            lengths = self._encoder.count(raw)
        else:
            raw = _token_ids(column, self._encoder.identity.vocabulary, place, span.first)
            lengths = raw.lengths
        check_sizes(lengths, f"shard {uri}", span.first)
        self._lengths.write(lengths.astype("<u4").tobytes())
        codes = _codes(table, self._columns, self.names, uri, span)
        self._sources.write(codes.astype("<u2").tobytes())
        digest = logical_digest(raw)
        return _Block(span=span, digest=digest, tokens=int(lengths.sum()))

    def _kind_of(self, table: pa.Table, uri: str, span: Span) -> str:
        """Return `text` or `tokens`, which the tokenizer must be for and all blocks must be."""
        name = self._columns.value
        kind, only_ids = kind_of(table[name], uri, name), self._encoder.identity.name == "ids"
        if kind == "text" and only_ids:
            raise UsageError(
                f"shard {uri}: column {name!r} holds text, the tokenizer is for token ids; "
                "use the tokenizer 'bytes'"
            )
        if kind == "tokens" and not self._named:
            raise UsageError(
                f"shard {uri}: column {name!r} holds token ids; say of which tokenizer with "
                f"'{HF_GRAMMAR}' or 'bytes', or of which vocabulary with '{IDS_GRAMMAR}', for "
                "instance ids:50258:50256:50257"
            )
        if table.num_rows and self.kind not in (None, kind):
            raise CorpusError(
                f"shard {uri} row {span.first}: column {name!r} holds {kind}, the shards before "
                f"hold {self.kind}; index the two as corpora of their own"
            )
        self.kind = kind if table.num_rows else self.kind
        return kind


def _token_ids(column: pa.ChunkedArray, vocabulary: int, place: str, first: int) -> BlockData:
    block = token_block(column, place, first)
    check_token_range(block, vocabulary, place, first)
    values = block.values.astype(token_dtype(vocabulary), copy=False)
    return BlockData(values=values, offsets=block.offsets)


def _codes(
    table: pa.Table, columns: Columns, names: SourceNames, uri: str, span: Span
) -> UInt16Array:
    if columns.id is not None:
        _check_name(table[columns.id], columns.id, uri, span)
    if columns.source is None:
        folder, _, _ = uri.partition("/") if "/" in uri else (DEFAULT_SOURCE, "", "")
        return np.full(table.num_rows, names.code(folder), np.uint16)
    _check_name(table[columns.source], columns.source, uri, span)
    return names.column(table[columns.source])


def _check_name(column: pa.ChunkedArray, name: str, uri: str, span: Span) -> None:
    check_sound(column, f"shard {uri}", span.first)
    if column.null_count:
        row = span.first + int(pc.index(pc.is_null(column), True).as_py())
        raise CorpusError(
            f"shard {uri} row {row} has a null {name!r}; fill it in or leave the row out"
        )
    try:
        column.cast(pa.string())
    except pa.ArrowException as error:
        raise CorpusError(
            f"shard {uri}: column {name!r} is {column.type}, which does not read as text "
            f"({error}); cast it to string, or name another column"
        ) from error


def file_facts(uri: str, location: str) -> tuple[int, bytes]:
    """Return (bytes, xxh3-128) of the whole file."""
    digest, size = xxhash.xxh3_128(), 0
    with reading(uri), open_input(location) as handle:
        while chunk := handle.read(1 << 22):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.digest()
