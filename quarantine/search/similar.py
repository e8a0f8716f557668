"""Find every relative of a few documents in the whole corpus, and say why it is one.

Near copies: candidates by 8-bit signatures, through LSH bands at high thresholds, each verified by
exact Jaccard over its shingles. Exact copies: equal bytes. Junk: a rule of the culprits' own broken
as strongly with other features not far from theirs, or all features near one of at most ten medoids
of the culprits. Relatives of relatives are
not followed. Shards with a sidecar are read from it; of the others the text is read.
"""

from __future__ import annotations

import shlex
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
from .index_job import read_shard
from .markers import Markers
from .query import NEAR, Query, build_query
from .rows import EMPTY_HASH, IndexRows
from .sidecar import has_sidecar, usable_sidecar
from .signature import jaccard, shingle_set
from .texts import block_chunk

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

SMALLEST_TOLD = 0.0001
_EMPTY = np.frombuffer(EMPTY_HASH, dtype=np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardHits:
    """The hits in one shard, or why it could not be read.

    `cut` counts the candidates for near copies that were too many to be verified, `stale` says that
    its text was read because its sidecar is damaged or of another version.
    """

    shard: int
    documents: int
    hits: tuple[Hit, ...]
    cut: int = 0
    stale: bool = False
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

    `failures` say which shards could not be read; there are no hits in those. `stale` counts the
    shards whose sidecars were there but could not be used.
    """

    hits: list[Hit]
    cut: list[Cut]
    failures: tuple[str, ...] = ()
    shards: int = 0
    stale: int = 0

    def notes(self, manifest: Manifest) -> Iterator[str]:
        """Yield what the caller should hear of: what was cut, and sidecars to be made anew."""
        yield from map(str, self.cut)
        if self.stale:
            yield (
                f"the signatures of {self.stale} of {self.shards} shards are damaged or were made "
                "by another version, so their text was read; make them anew with shardward corpus "
                f"index --out {shlex.quote(str(manifest.path))} --signatures"
            )

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
        tell: hears of each shard that has more candidates than are verified, and of sidecars that
            could not be used; else a RuntimeWarning says it.

    Raises:
        UsageError: an unknown kind, a threshold outside (0, 1], or no query documents.
        NotFound: a query document is outside the corpus.
        CorpusError: shards could not be read, all of them named; the others were searched.
    """
    query = build_query(manifest, query_docs, threshold=threshold, kinds=kinds)
    found = run_query(manifest, query, workers=workers, advance=advance, work=work)
    found.require_whole()
    for note in found.notes(manifest):
        tell(note)
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
    stale = 0
    pool = executor(workers, lambda shard: manifest.shards[shard].uri, lost=failures.append)
    for result in pool.map_unordered(scan_shard, open_shards, (manifest, query)):
        stale += result.stale
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
        stale=stale,
    )


def scan_shard(shard: int, broadcast: tuple[Manifest, Query]) -> ShardHits:
    """Return the hits in shard number `shard`; a shard that cannot be read is a failure in it."""
    manifest, query = broadcast
    documents = manifest.shards[shard].documents
    first = manifest.shards[shard].first_document
    asked = {doc - first for doc in query.docs}
    rows = usable_sidecar(manifest, shard)
    stale = rows is None and has_sidecar(manifest, shard)
    try:
        rows = read_shard(manifest, shard) if rows is None else rows
        exact = {row: doc for row, doc in _exact(rows, query).items() if row not in asked}
        near = _candidates(rows, query, known=asked | exact.keys())
        hits = (
            *_exact_hits(first, exact),
            *_verified(manifest, first, near, query),
            *(hit for hit in _junk(rows, first, query) if hit.doc - first not in asked),
        )
    except CorpusError as error:
        return ShardHits(shard=shard, documents=documents, hits=(), failure=str(error))
    return ShardHits(shard=shard, documents=documents, hits=hits, cut=near.cut, stale=stale)


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
            here, there = _percent(score), _percent(culprit.strength)
            reason = f"{culprit.name}: {here} of it, {there} of document {match}"
        else:
            match = query.likeness.docs[int(distances[row].argmin())]
            score = 1.0 / (1.0 + float(least[row]) / query.likeness.threshold)
            reason = f"its characters and repeats are distributed like those of document {match}"
        yield Hit(doc=first + row, query_doc=match, kind="junk", score=score, reason=reason)


def _percent(share: float) -> str:
    """Return a share in percent, never as 0% where there is something."""
    if share < SMALLEST_TOLD:
        return f"under {SMALLEST_TOLD:.2%}"
    return f"{min(share, 1.0):.{0 if share >= 0.1 else 2}%}"
