"""Reading blocks of an indexed corpus: open, decode, check against the manifest, tokenize."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .arrays import Int64Array
from .blocks import BlockData, logical_digest, token_dtype
from .errors import CorpusError, CorruptBlock, UnreachableShard
from .sources import ShardReader, open_shard
from .sources.columns import (
    check_sound,
    check_token_range,
    string_array,
    text_block,
    token_block,
    token_chunk,
)
from .sources.opening import join
from .tokenizers import Tokenizer, tokenizer_of
from .tombstones import spread_rows, spread_text, spread_tokens

if TYPE_CHECKING:
    from .manifest import Manifest
    from .manifest_format import Shard

OPEN_SHARDS = 16
"""Shards that one thread keeps open; each holds a file handle and a parsed footer."""
SLICE_TOKENS = 1 << 18
"""Tokens decoded at a time. Arrow takes about ten bytes for each; a whole block of them would go
through memory instead of the cache, and every block through fresh pages."""


class BlockReader:
    """Blocks of one manifest; every thread has its own open shards."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._local = threading.local()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The manifest's tokenizer."""
        return tokenizer_of(self._manifest.header.tokenizer, self._manifest.path)

    def tokens(self, block: int, into: NDArray[Any] | None = None) -> BlockData:
        """Return the checked tokens of `block` in the manifest's token dtype.

        Args:
            block: number of the block.
            into: its size; token ids that all survive are decoded into it, without a copy of the
                whole block besides.

        Raises:
            CorruptBlock: digest or lengths are not those that were indexed.
        """
        is_text = self._manifest.header.schema.kind == "text"
        if into is None or is_text or self._manifest.alive(block) is not None:
            raw = self._checked(block, self._decoded)
            data = self._spread(block, self.tokenizer.encode(raw) if is_text else raw)
        else:
            data = self._checked(block, partial(self._decoded_into, into))
        self._check_lengths(block, data)
        return data

    def stored(self, block: int) -> BlockData:
        """Return what the shard has of `block`, checked: bytes of text, or token ids."""
        return self._checked(block, self._decoded)

    def as_found(self, block: int) -> BlockData:
        """Return the tokens that the shard has in the place of `block`, whatever was indexed.

        Raises:
            CorruptBlock: they cannot be read, or are of another number of documents.
            UnreachableShard: the store does not hand the shard out.
        """
        raw = self._decoded(block)
        is_text = self._manifest.header.schema.kind == "text"
        return self._spread(block, self.tokenizer.encode(raw) if is_text else raw)

    def text(self, block: int, rows: Int64Array | None = None) -> pa.Array:
        """Return the checked text of `block`, or of these rows of it, as a large_string array.

        Raises:
            CorpusError: the block holds ids of an unknown tokenizer.
            MissingExtra: it holds ids that only the `tokenizers` package can decode.
        """
        if self._manifest.header.schema.kind == "tokens":
            # Filler stands for the tokens of tombstones, and decodes to nothing.
            tokens = self.tokens(block)
            wanted = tokens if rows is None else tokens.take(rows)
            return string_array(self.tokenizer.decode(wanted))
        whole = self._stored_text(block)
        return whole if rows is None else _rows_of(whole, rows)

    def _stored_text(self, block: int) -> pa.Array:
        found, alive = string_array(self.stored(block)), self._manifest.alive(block)
        return found if alive is None else spread_text(found, alive)

    def documents(self, docs: Int64Array, columns: Sequence[str]) -> pa.Table:
        """Return rows in the order of `docs`; see `Manifest.documents`."""
        geometry = self._manifest.geometry()
        blocks = geometry.block_of(docs)
        parts, order = [], []
        for block in np.unique(blocks):
            chosen = np.flatnonzero(blocks == block)
            parts.append(self._rows(int(block), docs[chosen], columns))
            order.append(chosen)
        if not parts:
            return _document_schema(columns).empty_table()
        found, places = pa.concat_tables(parts), np.concatenate(order)
        if (np.diff(places) > 0).all():
            return found
        return found.take(pa.array(np.argsort(places)))

    def raw(self, block: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of `block` as the shard has them, null for a tombstone.

        Raises:
            CorruptBlock: the shard cannot be read or has another number of rows there, or a column
                is damaged.
            UnreachableShard: the store does not hand it out.
        """
        place, first = self._place(block)
        found, alive = self._survivors(block, columns), self._manifest.alive(block)
        try:
            # No digest covers these columns, and a damaged one leads into any memory.
            for column in found.columns:
                check_sound(column, place, first)
        except CorpusError as error:
            raise CorruptBlock(str(error)) from error
        return found if alive is None else spread_rows(found, alive)

    def _survivors(self, block: int, columns: Sequence[str]) -> pa.Table:
        """Return the rows that the shard has of `block`; errors as in `raw`."""
        span, shard = self._manifest.span(block), self._manifest.shard_of(block)
        alive = self._manifest.alive(block)
        rows = span.documents if alive is None else int(alive.sum())
        if not rows:
            return self._nothing(columns)
        with self._reading(shard) as reader:
            table = reader.read(span, columns)
        self._check_count(block, table.num_rows, rows, "documents")
        return table

    @contextmanager
    def _reading(self, shard: Shard) -> Iterator[ShardReader]:
        """Open `shard`; let go of it, and say that the block is damaged, if it cannot be read."""
        try:
            yield self._shard(shard)
        except UnreachableShard:
            self._forget(shard)
            raise
        except CorpusError as error:
            self._forget(shard)
            raise CorruptBlock(str(error)) from error

    def _check_count(self, block: int, found: int, expected: int, what: str) -> None:
        if found != expected:
            shard, index = self._manifest.shard_of(block), self._manifest.span(block).index
            raise CorruptBlock(
                f"shard {shard.uri} block {index} has {found} {what}, the manifest says "
                f"{expected}; restore the shard or index the corpus anew"
            )

    def _nothing(self, columns: Sequence[str]) -> pa.Table:
        """Return no rows, for a block of which nothing survived and which no shard has."""
        schema = self._manifest.header.schema
        tokens = pa.large_list(pa.int64()) if schema.kind == "tokens" else pa.large_string()
        kinds = {name: tokens if name == schema.column else pa.string() for name in columns}
        return pa.schema(list(kinds.items())).empty_table()

    def _spread(self, block: int, data: BlockData) -> BlockData:
        """Return the tokens of the survivors in the places that all documents had."""
        alive = self._manifest.alive(block)
        if alive is None:
            return data
        low, high = self._manifest.geometry().first_document[block : block + 2]
        lengths = self._manifest.lengths(int(low), int(high))
        return spread_tokens(data, alive, lengths, self._manifest.header.tokenizer.pad)

    def _checked(self, block: int, decoded: Callable[[int], BlockData]) -> BlockData:
        try:
            data = decoded(block)
            self._check_digest(block, data)
        except CorpusError as error:
            # The shard may be restored under its name, and a store's client may keep what it read.
            self._forget(self._manifest.shard_of(block))
            if isinstance(error, (CorruptBlock, UnreachableShard)):
                raise
            raise CorruptBlock(str(error)) from error
        return data

    def _decoded(self, block: int) -> BlockData:
        header = self._manifest.header
        column = self._survivors(block, [header.schema.column])[header.schema.column]
        place, first = self._place(block)
        try:
            if header.schema.kind == "text":
                return text_block(column, place, first)
            found = token_block(column, place, first)
            self._check_range(found, place, first)
        except CorpusError as error:
            raise CorruptBlock(str(error)) from error
        values = found.values.astype(token_dtype(header.tokenizer.vocabulary), copy=False)
        return BlockData(values=values, offsets=found.offsets)

    def _decoded_into(self, into: NDArray[Any], block: int) -> BlockData:
        """Decode the token ids of `block` into `into`, a slice at a time."""
        span, shard = self._manifest.span(block), self._manifest.shard_of(block)
        place, first = self._place(block)
        offsets = np.zeros(span.documents + 1, np.int64)
        rows = max(1, span.documents * SLICE_TOKENS // max(len(into), 1))
        row = end = 0
        with self._reading(shard) as reader:
            for column in reader.slices(span, self._manifest.header.schema.column, rows):
                found = token_chunk(column, place, first + row)
                if found.values.dtype != into.dtype:
                    # Narrowing would turn an id beyond the vocabulary into one within.
                    self._check_range(found, place, first + row)
                low, start = row, end
                row, end = row + len(found), end + len(found.values)
                if row <= span.documents and end <= len(into):  # else it is only counted
                    into[start:end] = found.values
                    np.add(found.offsets[1:], start, out=offsets[low + 1 : row + 1])
        self._check_count(block, row, span.documents, "documents")
        self._check_count(block, end, len(into), "tokens")
        return BlockData(values=into, offsets=offsets)

    def _check_range(self, ids: BlockData, place: str, first: int) -> None:
        check_token_range(ids, self._manifest.header.tokenizer.vocabulary, place, first)

    def _check_digest(self, block: int, data: BlockData) -> None:
        found, expected = logical_digest(data), self._manifest.block_digest(block)
        if found != expected:
            place, first = self._place(block)
            if self._manifest.has_token_ids:
                self._check_range(data, place, first)
            raise CorruptBlock(
                f"{place} rows {first} to {first + len(data) - 1} have digest {found.hex()}, the "
                f"manifest says {expected.hex()}; restore the shard, or index the corpus anew"
            )

    def _check_lengths(self, block: int, data: BlockData) -> None:
        low, high = self._manifest.geometry().first_document[block : block + 2]
        expected = self._manifest.lengths(int(low), int(high))
        wrong = np.flatnonzero(data.lengths != expected)
        if len(wrong):
            place, first = self._place(block)
            row = int(wrong[0])
            raise CorruptBlock(
                f"{place} row {first + row} gives {int(data.lengths[row])} tokens, the manifest "
                f"says {int(expected[row])}; use the tokenizer it was indexed with"
            )

    def _rows(self, block: int, docs: Int64Array, columns: Sequence[str]) -> pa.Table:
        manifest = self._manifest
        shard = manifest.shard_of(block)
        first = int(manifest.geometry().first_document[block])
        rows = docs - first
        codes = manifest.sources(first, first + int(manifest.geometry().block_documents[block]))
        names = manifest.source_names
        data = {"doc": pa.array(docs)}
        for name in columns:
            data[name] = self._column(block, name, rows)
        data["source"] = pa.array([names[code] for code in codes[docs - first]], pa.string())
        data["shard"] = pa.array([shard.uri] * len(docs), pa.string())
        data["row"] = pa.array(docs - shard.first_document)
        return pa.table(data, schema=_document_schema(columns))

    def _column(self, block: int, name: str, rows: Int64Array) -> pa.Array:
        if name == "text":
            return self.text(block, rows)
        if name == "tokens":
            data = self.tokens(block).take(rows)
            values = pa.array(data.values.astype(np.int32, copy=False))
            return pa.LargeListArray.from_arrays(pa.array(data.offsets), values)
        wanted = self._manifest.header.schema.id_column
        if wanted is None:
            return pa.nulls(len(rows), pa.string())
        found = self.raw(block, [wanted])[wanted].cast(pa.string()).combine_chunks()
        return found.take(pa.array(rows))

    def _place(self, block: int) -> tuple[str, int]:
        return f"shard {self._manifest.shard_of(block).uri}", self._manifest.span(block).first

    def _shard(self, shard: Shard) -> ShardReader:
        opened = self._opened()
        if shard.uri not in opened:
            location = join(self._manifest.root, shard.uri)
            opened[shard.uri] = open_shard(shard.format, shard.uri, location)
            if len(opened) > OPEN_SHARDS:
                opened.popitem(last=False)[1].close()
        opened.move_to_end(shard.uri)
        return opened[shard.uri]

    def _opened(self) -> OrderedDict[str, ShardReader]:
        # A forked child shares file positions with its parent, so it opens shards of its own.
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process = os.getpid()
            self._local.opened = OrderedDict()
        opened: OrderedDict[str, ShardReader] = self._local.opened
        return opened

    def _forget(self, shard: Shard) -> None:
        """Let go of a shard that failed, so that a retry opens it anew."""
        reader = self._opened().pop(shard.uri, None)
        if reader is not None:
            reader.close()


def _rows_of(text: pa.Array, rows: Int64Array) -> pa.Array:
    """Return rows of a block's text: in place where they are most of it, else without the rest."""
    part = text.slice(int(rows[0]), len(rows))
    successive = (np.diff(rows) == 1).all()
    return part if successive and 2 * part.nbytes >= text.nbytes else text.take(pa.array(rows))


def _document_schema(columns: Sequence[str]) -> pa.Schema:
    kinds = {"id": pa.string(), "text": pa.large_string(), "tokens": pa.large_list(pa.int32())}
    fields = [pa.field("doc", pa.int64()), *(pa.field(name, kinds[name]) for name in columns)]
    tail = [("source", pa.string()), ("shard", pa.string()), ("row", pa.int64())]
    return pa.schema(fields + [pa.field(name, kind) for name, kind in tail])
