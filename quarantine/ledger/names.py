"""Putting names to documents: shard, row, source and, on demand, their text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...loader.arrays import Int64Array
from ...loader.errors import MismatchError, NotFound, ShardwardError, UsageError
from ...loader.manifest import Manifest
from ...loader.run import Run

CONTEXT = 60
LONGEST = 400


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

    Exact for byte tokens. Other tokenizers and corpora of token ids give the token ids as words,
    since token borders cannot be found in a text.

    Raises:
        NotFound: a document is outside the corpus.
        CorruptBlock: a shard no longer holds what was indexed.
    """
    docs = np.unique(rows["doc"].to_numpy())
    exact = manifest.header.tokenizer.name == "bytes"
    table = manifest.documents(docs, ("text",) if exact else ("tokens",))
    content: Mapping[int, object] = dict(
        zip(table["doc"].to_pylist(), table["text" if exact else "tokens"].to_pylist(), strict=True)
    )
    spans = zip(
        rows["doc"].to_pylist(),
        rows["token_start"].to_pylist(),
        rows["token_end"].to_pylist(),
        strict=True,
    )
    return [_excerpt(content.get(doc), start, end, context) for doc, start, end in spans]


def _excerpt(content: object, start: int, end: int, context: int) -> Excerpt | None:
    if isinstance(content, str):
        data = content.encode("utf-8", "surrogatepass")
        parts = data[max(0, start - context) : start], data[start:end], data[end : end + context]
        before, span, after = (part.decode("utf-8", "replace") for part in parts)
    elif isinstance(content, list):
        words = [str(token) for token in content]
        near = context // 6
        before = " ".join(words[max(0, start - near) : start])
        span = " ".join(words[start:end])
        after = " ".join(words[end : end + near])
    elif content is None:
        return None
    else:
        raise ShardwardError(f"a document is a {type(content).__name__}, not text or tokens")
    if len(span) > LONGEST:
        span = f"{span[: LONGEST // 2]} … {span[-LONGEST // 2 :]}"
    return Excerpt(before=before, span=span, after=after)
