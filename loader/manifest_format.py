"""What a manifest directory holds, version 1: a JSON header, two Arrow tables, two sidecars.

The fingerprint is the SHA-256 of the header's canonical JSON without `fingerprint`, `created` and
`root`: it changes with any byte of the corpus, and not when the corpus moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash
from pyarrow import ipc

from .errors import FormatError, IntegrityError
from .formats import canonical_json, check_format, parse_json, sha256_hex
from .tokenizer_identity import TokenizerIdentity

NAME = "shardward.manifest"
VERSION = 1
HEADER = "manifest.json"
SHARDS = "shards.arrow"
BLOCKS = "blocks.arrow"
SOURCES = "sources.u16"
TOMBSTONES = "tombstones.i64"
"""Sorted ordinals, in a rebuilt manifest alone, of the documents whose content is gone."""

SHARD_SCHEMA = pa.schema(
    [
        pa.field("uri", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("digest", pa.binary(16), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        pa.field("first_document", pa.int64(), nullable=False),
        pa.field("first_block", pa.int64(), nullable=False),
        pa.field("blocks", pa.int64(), nullable=False),
        pa.field("format", pa.string(), nullable=False),
    ]
)
BLOCK_SCHEMA = pa.schema(
    [
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("digest", pa.binary(16), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One file of the corpus.

    Attributes:
        uri: path relative to the corpus root.
        size: bytes.
        digest: xxh3-128 of the file's bytes, 32 hex digits.
        documents: rows.
        first_document: ordinal of its first row.
        first_block: number of its first block.
        blocks: number of blocks.
        format: name of the source that reads it.
    """

    uri: str
    size: int
    digest: str
    documents: int
    first_document: int
    first_block: int
    blocks: int
    format: str

    def __post_init__(self) -> None:
        parts = self.uri.split("/")
        if "://" in self.uri or "\0" in self.uri or {"", ".", ".."} & set(parts):
            raise FormatError(
                f"the manifest names the shard {self.uri!r}, which may lie outside the corpus "
                "root; use the manifest that 'shardward corpus index' made"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSchema:
    """Which columns were indexed; `kind` is `text` or `tokens`."""

    kind: str
    column: str
    id_column: str | None
    source_column: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the header's `schema` object."""
        return {
            "kind": self.kind,
            "column": self.column,
            "id_column": self.id_column,
            "source_column": self.source_column,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """`manifest.json`: everything about a corpus that fits a page.

    Attributes:
        created: RFC 3339 time at which it was built.
        root: directory or URL that shard URIs are relative to.
        tokens: of all documents, separators not counted.
        sources: names that the codes of `sources.u16` stand for.
        parent: fingerprint of the manifest whose numbers of documents and blocks it keeps, for a
            rebuilt corpus, or None.
        tombstones: documents that keep their number and length and have no content.
        tables: file name → xxh3-128 of its bytes, 32 hex digits.
    """

    created: str
    root: str
    schema: CorpusSchema
    tokenizer: TokenizerIdentity
    documents: int
    tokens: int
    shards: int
    blocks: int
    sources: tuple[str, ...]
    tables: Mapping[str, str]
    parent: str | None = None
    tombstones: int = 0

    @property
    def fingerprint(self) -> str:
        """Identity of the corpus, 64 hex digits."""
        body = {k: v for k, v in self._body().items() if k not in ("created", "root")}
        return sha256_hex(canonical_json(body))

    def to_json(self) -> dict[str, Any]:
        """Return the object that `manifest.json` holds."""
        return {**self._body(), "fingerprint": self.fingerprint}

    def _body(self) -> dict[str, Any]:
        return {
            "format": NAME,
            "version": VERSION,
            "created": self.created,
            "root": self.root,
            "schema": self.schema.to_json(),
            "tokenizer": self.tokenizer.to_json(),
            "documents": self.documents,
            "tokens": self.tokens,
            "shards": self.shards,
            "blocks": self.blocks,
            "sources": list(self.sources),
            "parent": self.parent,
            "tombstones": self.tombstones,
            "tables": dict(self.tables),
        }


def lengths_name(tokenizer: TokenizerIdentity) -> str:
    """Return the name of the length sidecar that belongs to `tokenizer`."""
    return f"lengths-{tokenizer.digest[:12]}.u32"


def read_header(directory: Path) -> Header:
    """Read and check `manifest.json`.

    Raises:
        FormatError: there is none, or it is malformed or of another version.
        IntegrityError: its fingerprint is not that of its content.
    """
    path = directory / HEADER
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FormatError(
            f"{directory} holds no {HEADER}; build one with 'shardward corpus index … --out "
            f"{directory}', or name another manifest directory"
        ) from error
    value = parse_json(data, where=str(path))
    check_format(value, name=NAME, version=VERSION, where=str(path))
    header = _header(value, path)
    if header.fingerprint != value.get("fingerprint"):
        raise IntegrityError(
            f"{path} says fingerprint {value.get('fingerprint')}, its content has "
            f"{header.fingerprint}; it was edited: restore it or index the corpus anew"
        )
    return header


def table_bytes(table: pa.Table) -> bytes:
    """Return `table` as an uncompressed Arrow IPC file in one record batch, ready to be mapped."""
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def map_table(path: Path) -> pa.Table:
    """Return the Arrow IPC file at `path` without copying it."""
    try:
        with ipc.open_file(pa.memory_map(str(path))) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path} cannot be read ({error}); index the corpus anew") from error


def file_digest(path: Path) -> str:
    """Return the xxh3-128 of a file's bytes as 32 hex digits."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as handle:
        while chunk := handle.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()


def _header(value: Mapping[str, Any], path: Path) -> Header:
    try:
        return Header(
            created=value["created"],
            root=value["root"],
            schema=CorpusSchema(**value["schema"]),
            tokenizer=TokenizerIdentity.from_json(value["tokenizer"]),
            documents=value["documents"],
            tokens=value["tokens"],
            shards=value["shards"],
            blocks=value["blocks"],
            sources=tuple(value["sources"]),
            tables=value["tables"],
            parent=value["parent"],
            tombstones=value["tombstones"],
        )
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path} lacks or misnames a field ({error}); restore it") from error
