"""Find every relative of a few documents in the whole corpus, and say why it is one.

Near copies: candidates by 8-bit signatures, through LSH bands at high thresholds, each verified by
exact Jaccard over its shingles. Exact copies: equal bytes. Junk: a rule of the culprits' own broken
as strongly with other features not far from theirs, or all features near one of at most ten medoids
of the culprits. Relatives of relatives are
not followed. Shards with a sidecar are read from it; of the others the text is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...loader.errors import CorpusError
from .band_scan import MOST_CANDIDATES, Candidates, agreeing_rows, rows_sharing_a_band
from .engine import executor
from .guilt import as_guilty, strengths
from .hits import KINDS, Hit
from .index_job import rows_of_shard
from .markers import Markers
from .query import NEAR, Query, build_query
from .rows import EMPTY_HASH, IndexRows
from .signature import jaccard, shingle_set
from .texts import block_chunk

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

_EMPTY = np.frombuffer(EMPTY_HASH, dtype=np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardHits:
    """The hits in one shard, or why it could not be read.

    `cut` counts the candidates for near copies that were too many to be verified.
    """

    shard: int
    documents: int
    hits: tuple[Hit, ...]
    cut: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Candidates for near copies of one shard that were too many to be verified."""

    shard: str
    candidates: int

    def __str__(self) -> str:
        return (
            f"{self.shard}: {self.candidates} candidates for near copies beyond {MOST_CANDIDATES} "
            "were not verified; ask for a higher threshold or fewer documents"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relatives:
    """What a search found and what it left unverified, in the order of documents and shards.

    `failures` say which shards could not be read; there are no hits in those.
    """

    hits: list[Hit]
    cut: list[Cut]
    failures: tuple[str, ...] = ()
    shards: int = 0

    def require_whole(self) -> None:
        """Raise CorpusError, all of them named, where shards could not be read."""
        if self.failures:
            raise CorpusError(
                f"{len(self.failures)} of {self.shards} shards could not be searched: "
                + "; ".join(self.failures)
            )


def warn_of(line: str) -> None:
    """Tell the caller of `search` of `line` as a warning, so that nothing is cut in silence."""
    warnings.warn(line, RuntimeWarning, stacklevel=3)


def search(
    manifest: Manifest,
    query_docs: Sequence[int] | NDArray[np.int64],
    *,
    threshold: float = NEAR,
    workers: int = 0,
    kinds: Sequence[str] = KINDS,
    advance: Callable[[int], object] | None = None,
    work: Path | None = None,
    tell: Callable[[str], object] = warn_of,
) -> list[Hit]:
    """Return the relatives of `query_docs`, in document order, without the query itself.

    Args:
        manifest: the corpus.
        query_docs: ordinals.
        threshold: least exact Jaccard index of a near copy.
        workers: local processes; 0 for this one. The hits are the same.
        kinds: which of near, exact and junk.
        advance: hears of each n documents scanned.
        work: directory for what is done, so that a stopped search goes on.
        tell: hears of each shard that has more candidates than are verified; else a RuntimeWarning
            says it.

    Raises:
        UsageError: an unknown kind, a threshold outside (0, 1], or no query documents.
        NotFound: a query document is outside the corpus.
        CorpusError: shards could not be read, all of them named; the others were searched.
    """
    query = build_query(manifest, query_docs, threshold=threshold, kinds=kinds)
    found = run_query(manifest, query, workers=workers, advance=advance, work=work)
    found.require_whole()
    for cut in found.cut:
        tell(str(cut))
    return found.hits


def run_query(
    manifest: Manifest,
    query: Query,
    *,
    workers: int = 0,
    advance: Callable[[int], object] | None = None,
    work: Path | None = None,
) -> Relatives:
    """Return the hits of a built query, and which candidates were cut and shards not read.

    See `search`.
    """
    markers = Markers(work, query.digest)
    done = {shard: markers.load(shard) for shard in range(len(manifest.shards))}
    open_shards = [shard for shard, hits in done.items() if hits is None]
    hits = [hit for found in done.values() if found is not None for hit in found]
    failures: list[str] = []
    cut: dict[int, int] = {}
    pool = executor(workers, lambda shard: manifest.shards[shard].uri, lost=failures.append)
    for result in pool.map_unordered(scan_shard, open_shards, (manifest, query)):
        if result.failure:
            failures.append(result.failure)
        else:
            hits.extend(result.hits)
            if not result.cut:
                markers.save(result.shard, result.hits)
            else:
                cut[result.shard] = result.cut
        if advance is not None:
            advance(result.documents)
    return Relatives(
        hits=sorted(hits, key=lambda hit: (hit.doc, hit.kind, hit.query_doc)),
        cut=[Cut(shard=manifest.shards[n].uri, candidates=cut[n]) for n in sorted(cut)],
        failures=tuple(sorted(failures)),
        shards=len(manifest.shards),
    )


def scan_shard(shard: int, broadcast: tuple[Manifest, Query]) -> ShardHits:
    """Return the hits in shard number `shard`; a shard that cannot be read is a failure in it."""
    manifest, query = broadcast
    documents = manifest.shards[shard].documents
    first = manifest.shards[shard].first_document
    asked = {doc - first for doc in query.docs}
    try:
        rows = rows_of_shard(manifest, shard)
        exact = {row: doc for row, doc in _exact(rows, query).items() if row not in asked}
        near = _candidates(rows, query, known=asked | exact.keys())
        hits = (
            *_exact_hits(first, exact),
            *_verified(manifest, first, near, query),
            *(hit for hit in _junk(rows, first, query) if hit.doc - first not in asked),
        )
    except CorpusError as error:
        return ShardHits(shard=shard, documents=documents, hits=(), failure=str(error))
    return ShardHits(shard=shard, documents=documents, hits=hits, cut=near.cut)


def _exact_hits(first: int, exact: dict[int, int]) -> Iterator[Hit]:
    for row, doc in exact.items():
        reason = f"the same bytes as document {doc}"
        yield Hit(doc=first + row, query_doc=doc, kind="exact", score=1.0, reason=reason)


def _exact(rows: IndexRows, query: Query) -> dict[int, int]:
    """Return row → query document with the same content hash."""
    if "exact" not in query.kinds or not query.hashes or not len(rows):
        return {}
    words = np.frombuffer(b"".join(key[:8] for key in query.hashes), dtype=np.uint64)
    places = np.flatnonzero(np.isin(rows.words(), words)).tolist()
    matches = {row: query.hashes.get(rows.hashes[row].tobytes()) for row in places}
    return {row: doc for row, doc in matches.items() if doc is not None}


def _candidates(rows: IndexRows, query: Query, *, known: set[int]) -> Candidates:
    """Return the rows, but for those in `known`, whose signatures leave the threshold possible."""
    if "near" not in query.kinds or not len(query.compared):
        chosen = np.zeros(0, dtype=np.int64)
    elif query.banded:
        chosen = rows_sharing_a_band(rows.bands, query.bands)
        chosen = chosen[rows.counts[chosen] > 0]
    else:
        chosen = np.flatnonzero(rows.counts)
    chosen = np.setdiff1d(chosen, np.fromiter(known, dtype=np.int64, count=len(known)))
    return agreeing_rows(rows.low, chosen, query.low[query.compared], query.least)


def _verified(
    manifest: Manifest, first: int, candidates: Candidates, query: Query
) -> Iterator[Hit]:
    """Yield the best near hit of each candidate row, by exact Jaccard on its text."""
    docs = candidates.rows + first
    blocks = manifest.geometry().block_of(docs) if len(docs) else docs
    for block in np.unique(blocks).tolist():
        start = int(manifest.geometry().first_document[block])
        chunk = block_chunk(manifest, block)
        for i in np.flatnonzero(blocks == block).tolist():
            doc, chosen = int(docs[i]), candidates.places[i]
            shingles = shingle_set(chunk.view(doc - start).data)
            places = query.compared[chosen[chosen >= 0]].tolist()
            score, place = max((jaccard(shingles, query.sets[p]), -p) for p in places)
            if score >= query.threshold:
                match = query.docs[-place]
                reason = f"shares {score:.0%} of its word 5-grams with document {match}"
                yield Hit(doc=doc, query_doc=match, kind="near", score=score, reason=reason)


def _junk(rows: IndexRows, first: int, query: Query) -> Iterator[Hit]:
    if "junk" not in query.kinds or query.likeness is None or not len(rows):
        return
    values = strengths(rows.vectors, rows.flags)
    broken = np.flatnonzero(values.any(axis=1))
    guilty = np.full(len(rows), -1, dtype=np.int64)
    guilty[broken] = as_guilty(
        values[broken],
        query.culprits,
        query.likeness.nearest(rows.vectors[broken]),
        query.likeness.apart,
    )
    distances = query.likeness.distances(rows.vectors)
    least = distances.min(axis=1)
    near = (least <= query.likeness.threshold) & (rows.hashes != _EMPTY).any(axis=1)
    for row in np.flatnonzero((guilty >= 0) | near).tolist():
        if guilty[row] >= 0:
            culprit = query.culprits[int(guilty[row])]
            match, score = culprit.doc, min(1.0, float(values[row, culprit.kind]))
            reason = (
                f"{culprit.name} at {score:.2f}, as in document {match} at {culprit.strength:.2f}"
            )
        else:
            match = query.likeness.docs[int(distances[row].argmin())]
            score = 1.0 / (1.0 + float(least[row]) / query.likeness.threshold)
            reason = f"its characters and repeats are distributed like those of document {match}"
        yield Hit(doc=first + row, query_doc=match, kind="junk", score=score, reason=reason)
