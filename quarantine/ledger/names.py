"""Putting names to documents: shard, row, source and, on demand, their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...loader.arrays import Int64Array
from ...loader.blocks import BlockData
from ...loader.errors import MismatchError, NotFound, UsageError
from ...loader.manifest import Manifest
from ...loader.run import Run
from ...loader.sources.columns import string_array, text_block, token_block
from ...loader.tokenizers import Tokenizer

CONTEXT = 60
LONGEST = 400
TOKEN_CHARACTERS = 6
"""Characters that one token is counted as, so that as much of the surroundings is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A span of a text between what stands before and after it."""

    before: str
    span: str
    after: str


def load_corpus(run: Run, path: Path | None = None) -> Manifest:
    """Return the manifest of `run`, from `path` or from where the run recorded it.

    Raises:
        NotFound: it is not there.
        MismatchError: it is the manifest of another corpus.
    """
    place = path or run.manifest_path
    if not place.exists():
        raise NotFound(f"the manifest {place} is gone; give its new place with --manifest")
    manifest = Manifest.load(place)
    if manifest.fingerprint != run.fingerprint:
        raise MismatchError(
            f"the manifest {place} is {manifest.fingerprint[:12]}, the run was made with "
            f"{run.fingerprint[:12]}; give the run's own manifest with --manifest"
        )
    return manifest


def name_documents(manifest: Manifest, docs: Int64Array) -> pa.Table:
    """Return shard, row and source of `docs`, one row each in their order, reading no shard.

    Documents outside the corpus have null shard and source, and row -1.
    """
    known = (docs >= 0) & (docs < manifest.documents_count)
    inside = docs[known]
    shard = manifest.block_column("shard")[manifest.geometry().block_of(inside)]
    first = np.array([item.first_document for item in manifest.shards], dtype=np.int64)
    uris = np.array([item.uri for item in manifest.shards], dtype=object)
    sources = np.array(manifest.source_names, dtype=object)
    columns = {
        "shard": np.full(len(docs), None, dtype=object),
        "row": np.full(len(docs), -1, dtype=np.int64),
        "source": np.full(len(docs), None, dtype=object),
    }
    if len(inside):
        columns["shard"][known] = uris[shard]
        columns["row"][known] = inside - first[shard]
        columns["source"][known] = sources[manifest.sources_of(inside)]
    return pa.table(
        {
            "shard": pa.array(columns["shard"], pa.string()),
            "row": columns["row"],
            "source": pa.array(columns["source"], pa.string()),
        }
    )


def find_ids(
    manifest: Manifest, ids: Sequence[str], advance: Callable[[int], object] | None = None
) -> list[int]:
    """Return the ordinals of the documents with the corpus's own `ids`; reads the id column once.

    Args:
        manifest: the corpus.
        ids: what its id column holds; one that several documents have gives them all.
        advance: called with 1 after each block.

    Raises:
        UsageError: the corpus has no id column.
        NotFound: no document has one of them.
        CorruptBlock: a shard no longer holds what was indexed.
    """
    column = manifest.header.schema.id_column
    if column is None:
        raise UsageError(
            "the corpus has no id column, so its documents have ordinals only; "
            "`shardward corpus index --id-column` names one"
        )
    wanted, found, seen = pa.array(sorted(set(ids)), pa.string()), [], set[str]()
    for block in range(manifest.header.blocks):
        names = manifest.reader.raw(block, [column])[column].cast(pa.string())
        rows = np.flatnonzero(pc.is_in(names, wanted).to_numpy())
        found += (int(manifest.geometry().first_document[block]) + rows).tolist()
        seen.update(names.take(pa.array(rows)).to_pylist())
        if advance is not None:
            advance(1)
    for missing in (name for name in ids if name not in seen):
        raise NotFound(f"no document of the corpus has the id {missing!r} in {column!r}")
    return found


def with_names(manifest: Manifest | None, rows: pa.Table) -> pa.Table:
    """Return `rows` with the columns shard, row and source of their column `doc`."""
    if manifest is None:
        return rows
    names = name_documents(manifest, rows["doc"].to_numpy())
    for name in names.column_names:
        rows = rows.append_column(name, names[name])
    return rows


def excerpts(manifest: Manifest, rows: pa.Table, *, context: int = CONTEXT) -> list[Excerpt | None]:
    """Return the text of each row's token span, marked within its surroundings.

    Tokens are decoded up to either edge of the span, so a character of which an edge cuts the
    bytes stands whole on the right of it. Ids of an unknown tokenizer are shown as words.

    Raises:
        MissingExtra: only the `tokenizers` package can decode the tokens.
        NotFound: a document is outside the corpus.
        CorruptBlock: a shard no longer holds what was indexed.
    """
    docs = np.unique(rows["doc"].to_numpy())
    data = _tokens(manifest, docs)
    near = context if manifest.header.tokenizer.name == "bytes" else context // TOKEN_CHARACTERS
    found: list[Excerpt | None] = []
    columns = (rows[name].to_pylist() for name in ("doc", "token_start", "token_end"))
    for doc, start, end in zip(*columns, strict=True):
        tokens = data.document(int(np.searchsorted(docs, doc)))
        parts = tokens[max(0, start - near) : start], tokens[start:end], tokens[end : end + near]
        if manifest.header.tokenizer.decodes:
            found.append(_decoded(manifest.tokenizer, parts))
        else:
            before, span, after = (" ".join(map(str, part.tolist())) for part in parts)
            found.append(Excerpt(before=before, span=_shortened(span), after=after))
    return found


def _tokens(manifest: Manifest, docs: Int64Array) -> BlockData:
    """Return the tokens of documents; bytes of a text corpus stay bytes, a quarter the size."""
    if manifest.header.tokenizer.name == "bytes" and not manifest.has_token_ids:
        return text_block(manifest.documents(docs, ("text",))["text"], "corpus", 0)
    column = manifest.documents(docs, ("tokens",))["tokens"]
    return token_block(column, "corpus", 0)


def _decoded(tokenizer: Tokenizer, parts: Sequence[NDArray[Any]]) -> Excerpt:
    # What ends within a character decodes to U+FFFD there, so the texts agree up to it alone.
    edges = np.cumsum([len(part) for part in parts])
    whole = np.concatenate(parts)
    three = BlockData(
        values=np.concatenate([whole[:edge] for edge in edges]),
        offsets=np.concatenate([[0], np.cumsum(edges)]),
    )
    before, upto, text = string_array(tokenizer.decode(three)).to_pylist()
    start, end = (_agreeing(part, text) for part in (before, upto))
    return Excerpt(before=text[:start], span=_shortened(text[start:end]), after=text[end:])


def _agreeing(part: str, text: str) -> int:
    """Return how many characters `part` and `text` begin with alike."""
    pairs = enumerate(zip(part, text, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(part), len(text)))


def _shortened(span: str) -> str:
    return span if len(span) <= LONGEST else f"{span[: LONGEST // 2]} … {span[-LONGEST // 2 :]}"
