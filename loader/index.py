"""Building a manifest: one pass over every shard, published whole under its name or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from .errors import CorpusError
from .files import full_disk_named, sync_directory, write_atomic
from .formats import canonical_json
from .index_scan import Columns, ShardScan, ShardScanner
from .manifest import Manifest
from .manifest_format import (
    BLOCK_SCHEMA,
    BLOCKS,
    HEADER,
    SHARD_SCHEMA,
    SHARDS,
    SOURCES,
    CorpusSchema,
    Header,
    file_digest,
    lengths_name,
    table_bytes,
)
from .sources.opening import find_shards, join
from .tokenizer_hf import HfTokenizer
from .tokenizers import DEFINITION, Tokenizer, resolve_tokenizer
from .unfinished import refuse_unfinished

Advance = Callable[[int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """What the pass over the shards added up to."""

    kind: str
    scans: tuple[ShardScan, ...]
    sources: tuple[str, ...]

    @property
    def documents(self) -> int:
        return sum(scan.documents for scan in self.scans)


def build_manifest(
    inputs: Sequence[str],
    out: Path | str,
    *,
    column: str = "text",
    id_column: str | None = None,
    source_column: str | None = None,
    tokenizer: str | Tokenizer | None = None,
    advance: Advance | None = None,
) -> Manifest:
    """Index shards and publish the manifest directory `out`.

    Args:
        inputs: shard files, directories (searched at any depth) or patterns, local or URLs.
        out: directory to make; it must not exist.
        column: holds text, or lists of token ids.
        id_column: the corpus's own ids, or None.
        source_column: names each document's source; without it, the first directory below the
            corpus root does, or `default`.
        tokenizer: `bytes`, `hf:FILE` for a Hugging Face tokenizer.json (copied into the manifest),
            or a Tokenizer: what text is to be encoded with, or what token ids were made with and
            are decoded with; `ids:VOCABULARY:SEPARATOR:PAD` for token ids that nothing decodes.
            None is `bytes` for text, and refused for token ids.
        advance: called with (1, uri) after each shard.

    Returns:
        The manifest, loaded from `out`. Two builds of one corpus differ in `created` alone.

    Raises:
        CorpusError: no documents, a shard that cannot be indexed, or a rebuild that has not
            finished; nothing is left under `out`.
    """
    target = Path(out).absolute()
    if target.exists():
        raise CorpusError(
            f"{out} exists, and manifests never change; use it with "
            f"Manifest.load({str(out)!r}), or choose a new directory"
        )
    refuse_unfinished(str(item) for item in inputs)
    root, uris = find_shards([str(item) for item in inputs])
    refuse_unfinished(join(root, uri) for uri in uris)
    encoder = resolve_tokenizer("bytes" if tokenizer is None else tokenizer)
    columns = Columns(value=column, id=id_column, source=source_column)
    with full_disk_named(target), published(target) as building:
        totals = _scan_all(
            root,
            uris,
            columns,
            encoder=encoder,
            named=tokenizer is not None,
            building=building,
            advance=advance,
        )
        _write_header(building, root, columns, encoder, totals)
    return Manifest.load(target)


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """Yield a temporary directory that becomes `target` when the block succeeds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        yield building
        building.chmod(0o755)
        sync_directory(building)
        try:
            building.rename(target)
        except OSError as error:
            raise CorpusError(
                f"{target} appeared while it was being built; choose a new directory"
            ) from error
        sync_directory(target.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _scan_all(
    root: str,
    uris: Sequence[str],
    columns: Columns,
    *,
    encoder: Tokenizer,
    named: bool,
    building: Path,
    advance: Advance | None,
) -> _Totals:
    lengths, sources = building / lengths_name(encoder.identity), building / SOURCES
    with lengths.open("wb") as lengths_file, sources.open("wb") as sources_file:
        scanner = ShardScanner(
            root=root,
            columns=columns,
            encoder=encoder,
            named=named,
            lengths=lengths_file,
            sources=sources_file,
        )
        scans = []
        for uri in uris:
            scans.append(scanner.scan(uri))
            if advance is not None:
                advance(1, uri)
        for handle in (lengths_file, sources_file):
            handle.flush()
            os.fsync(handle.fileno())
    if scanner.kind is None:
        raise CorpusError(
            f"the corpus is empty: {len(uris)} shards under {root} hold no document; "
            "check the inputs"
        )
    return _Totals(kind=scanner.kind, scans=tuple(scans), sources=scanner.names.names())


def _write_header(
    building: Path, root: str, columns: Columns, encoder: Tokenizer, totals: _Totals
) -> None:
    write_atomic(building / SHARDS, table_bytes(_shard_table(totals.scans)))
    blocks = pa.concat_tables([scan.blocks(shard) for shard, scan in enumerate(totals.scans)])
    write_atomic(building / BLOCKS, table_bytes(blocks.cast(BLOCK_SCHEMA)))
    tables = [SHARDS, BLOCKS, lengths_name(encoder.identity), SOURCES]
    if isinstance(encoder, HfTokenizer):
        write_atomic(building / DEFINITION, encoder.definition)
        tables.append(DEFINITION)
    header = Header(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        root=root,
        schema=CorpusSchema(
            kind=totals.kind,
            column=columns.value,
            id_column=columns.id,
            source_column=columns.source,
        ),
        tokenizer=encoder.identity,
        documents=totals.documents,
        tokens=sum(scan.tokens for scan in totals.scans),
        shards=len(totals.scans),
        blocks=blocks.num_rows,
        sources=totals.sources,
        tables={name: file_digest(building / name) for name in tables},
    )
    write_atomic(building / HEADER, canonical_json(header.to_json()) + b"\n")


def _shard_table(scans: Sequence[ShardScan]) -> pa.Table:
    rows, documents, blocks = [], 0, 0
    for scan in scans:
        rows.append(
            {
                "uri": scan.uri,
                "size": scan.size,
                "digest": scan.digest,
                "documents": scan.documents,
                "first_document": documents,
                "first_block": blocks,
                "blocks": len(scan.spans),
                "format": scan.format,
            }
        )
        documents, blocks = documents + scan.documents, blocks + len(scan.spans)
    return pa.Table.from_pylist(rows, schema=SHARD_SCHEMA)
