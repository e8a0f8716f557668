"""Find every relative of a few documents in the whole corpus, and say why it is one.

Near copies: 8-bit signatures of all documents are compared with the query's (through LSH bands
when there are many query documents), and each candidate is verified by exact Jaccard over its
shingles. Exact copies: equal bytes. Junk: a verdict of the culprits' own family, or features near
one of at most ten medoids of the culprits. Relatives of relatives are not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...loader.errors import UsageError
from .columns import TextChunk, text_chunks
from .corpus_scan import block_tasks
from .detectors import BINARY, Verdicts, verdicts
from .engine import executor
from .features import Features, measure
from .likeness import Likeness, learn
from .near import content_hash, least_matches
from .signature import Signatures, jaccard, shingle_set, sign

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

KINDS = ("near", "exact", "junk")
NEAR = 0.25
COMPARED_ALL = 128
"""Query documents up to which every signature is compared; beyond, only those sharing a band."""
AS_STRONG = 0.8
"""Share of the weakest culprit's strength that makes a document as guilty; any binary is."""
SAMPLE_BLOCKS = 16
SAMPLE_DOCUMENTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One relative: `doc` of the corpus, the query document it is like, how, and how much.

    `score` is the exact Jaccard index for near, 1 for exact, and for junk the detector's score or
    1 / (1 + distance / threshold).
    """

    doc: int
    query_doc: int
    kind: str
    score: float
    reason: str

    def to_json(self) -> dict[str, object]:
        """Return the hit as plain JSON values."""
        return {
            "doc": self.doc,
            "query_doc": self.query_doc,
            "kind": self.kind,
            "score": round(self.score, 6),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """The weakest query document of one junk family."""

    family: str
    doc: int
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The query documents as what a scan compares; small, and sent to every worker."""

    docs: tuple[int, ...]
    threshold: float
    kinds: tuple[str, ...]
    low: NDArray[np.uint8]
    bands: NDArray[np.uint32]
    sets: tuple[NDArray[np.uint64], ...]
    hashes: dict[bytes, int]
    lengths: NDArray[np.int64]
    culprits: tuple[Culprit, ...]
    likeness: Likeness | None


def search(
    manifest: Manifest,
    query_docs: Sequence[int] | np.ndarray,
    *,
    threshold: float = NEAR,
    workers: int = 0,
    kinds: Sequence[str] = KINDS,
    advance: Callable[[int], object] | None = None,
) -> list[Hit]:
    """Return the relatives of `query_docs`, in document order, without the query itself.

    `threshold` is the least exact Jaccard of a near copy. `advance(n)` hears of each n documents
    scanned.

    Raises:
        UsageError: an unknown kind, a threshold outside (0, 1], or no query documents.
        NotFound: a query document is outside the corpus.
    """
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown or not 0.0 < threshold <= 1.0 or not len(query_docs):
        raise UsageError(
            f"a search needs documents, kinds out of {', '.join(KINDS)} and a threshold in (0, 1]; "
            f"got {len(query_docs)} documents, kinds {', '.join(kinds)} and threshold {threshold}"
        )
    query = build_query(manifest, query_docs, threshold=threshold, kinds=tuple(kinds))
    hits: list[Hit] = []
    for documents, found in executor(workers).map_unordered(
        scan_blocks, block_tasks(manifest), (manifest, query)
    ):
        hits.extend(found)
        if advance is not None:
            advance(documents)
    return sorted(hits, key=lambda hit: (hit.doc, hit.kind, hit.query_doc))


def build_query(
    manifest: Manifest,
    query_docs: Sequence[int] | np.ndarray,
    *,
    threshold: float,
    kinds: tuple[str, ...],
) -> Query:
    """Read the query documents and a background sample; return what a scan compares."""
    docs = np.unique(np.asarray(query_docs, dtype=np.int64))
    table = manifest.documents(docs, columns=("text",))
    (chunk,) = text_chunks(table["text"].combine_chunks())
    signatures = sign(chunk)
    culprits: tuple[Culprit, ...] = ()
    likeness = None
    if "junk" in kinds:
        culprits, likeness = _junk_query(manifest, chunk, docs)
    return Query(
        docs=tuple(docs.tolist()),
        threshold=threshold,
        kinds=kinds,
        low=signatures.low,
        bands=signatures.bands(),
        sets=tuple(shingle_set(chunk.raw(row)) for row in range(len(chunk))),
        hashes={
            content_hash(chunk.raw(r)): int(docs[r]) for r in range(len(chunk)) if chunk.raw(r)
        },
        lengths=np.unique(np.diff(chunk.offsets)),
        culprits=culprits,
        likeness=likeness,
    )


def scan_blocks(
    blocks: tuple[int, int], broadcast: tuple[Manifest, Query]
) -> tuple[int, list[Hit]]:
    """Return the number of documents in the blocks and the hits among them."""
    manifest, query = broadcast
    documents, hits = 0, []
    for block in range(*blocks):
        first = int(manifest.geometry().first_document[block])
        for chunk in text_chunks(manifest.block_text(block)):
            hits.extend(scan_chunk(chunk, first, query))
            first += len(chunk)
            documents += len(chunk)
    return documents, hits


def scan_chunk(chunk: TextChunk, first: int, query: Query) -> list[Hit]:
    """Return the hits among the documents `first`, `first + 1`, … of a chunk."""
    known = set(query.docs)
    exact = _exact(chunk, first, query) if "exact" in query.kinds else {}
    near = _near(chunk, first, query, skip=known | set(exact)) if "near" in query.kinds else []
    junk = _junk(chunk, first, query) if "junk" in query.kinds else []
    return [hit for hit in [*exact.values(), *near, *junk] if hit.doc not in known]


def _exact(chunk: TextChunk, first: int, query: Query) -> dict[int, Hit]:
    hits = {}
    for row in np.flatnonzero(np.isin(np.diff(chunk.offsets), query.lengths)).tolist():
        match = query.hashes.get(content_hash(chunk.view(row)))
        if match is not None:
            reason = f"the same bytes as document {match}"
            hits[first + row] = Hit(
                doc=first + row, query_doc=match, kind="exact", score=1.0, reason=reason
            )
    return hits


def _near(chunk: TextChunk, first: int, query: Query, skip: set[int]) -> Iterator[Hit]:
    signatures = sign(chunk)
    for row, candidates in _candidates(signatures, query).items():
        if first + row in skip:
            continue
        shingles = shingle_set(chunk.raw(row))
        scores = [(jaccard(shingles, query.sets[i]), -i) for i in candidates]
        score, place = max(scores)
        if score >= query.threshold:
            match = query.docs[-place]
            yield Hit(
                doc=first + row,
                query_doc=match,
                kind="near",
                score=score,
                reason=f"shares {score:.0%} of its word 5-grams with document {match}",
            )


def _candidates(signatures: Signatures, query: Query) -> dict[int, list[int]]:
    """Return row → query places whose signatures agree enough for the threshold."""
    low, least = signatures.low, least_matches(query.threshold)
    found: dict[int, list[int]] = {}
    rows = np.flatnonzero(signatures.counts > 0)
    if len(query.docs) > COMPARED_ALL:
        bands = signatures.bands()
        shared = [np.isin(bands[rows, i], query.bands[:, i]) for i in range(bands.shape[1])]
        rows = rows[np.logical_or.reduce(shared)]
    for place, row_set in enumerate(query.sets):
        if row_set.size:
            matches = (low[rows] == query.low[place]).sum(axis=1)
            for row in rows[matches >= least].tolist():
                found.setdefault(row, []).append(place)
    return found


def _junk(chunk: TextChunk, first: int, query: Query) -> Iterator[Hit]:
    if not query.culprits or query.likeness is None:
        return
    features = measure(chunk)
    verdict = verdicts(features)
    distances = query.likeness.distances(features)
    least = distances.min(axis=1)
    nearest = [query.likeness.docs[place] for place in distances.argmin(axis=1)]
    alike = [_alike(query, verdict, row) for row in range(len(chunk))]
    for row in range(len(chunk)):
        culprit = alike[row]
        if culprit is not None:
            score = float(verdict.score[row])
            reason = f"{culprit.family} like document {culprit.doc}"
            match = culprit.doc
        elif least[row] <= query.likeness.threshold and chunk.view(row).size:
            score = float(1.0 / (1.0 + least[row] / query.likeness.threshold))
            match = nearest[row]
            reason = f"its characters and repeats are distributed like those of document {match}"
        else:
            continue
        yield Hit(doc=first + row, query_doc=match, kind="junk", score=score, reason=reason)


def _alike(query: Query, verdict: Verdicts, row: int) -> Culprit | None:
    """Return the culprit whose family the row's verdict names as strongly, or None."""
    for culprit in query.culprits:
        strength = verdict.strengths[row, verdict.families.index(culprit.family)]
        needed = 0.0 if culprit.family == BINARY else AS_STRONG * culprit.strength
        if strength > 0 and strength >= needed:
            return culprit
    return None


def _junk_query(
    manifest: Manifest, chunk: TextChunk, docs: np.ndarray
) -> tuple[tuple[Culprit, ...], Likeness | None]:
    """Return the weakest culprit of each family, and the likeness to all; none if none is junk."""
    features = measure(chunk)
    verdict = verdicts(features)
    rows = np.flatnonzero(verdict.yes)
    if not len(rows):
        return (), None
    culprits = tuple(
        _weakest(verdict, place, docs)
        for place in range(len(verdict.families))
        if verdict.strengths[:, place].any()
    )
    background = _background(manifest)
    likeness = learn(
        _rows(features, rows),
        tuple(int(docs[row]) for row in rows),
        background,
        ~verdicts(background).yes,
    )
    return culprits, likeness


def _weakest(verdict: Verdicts, place: int, docs: np.ndarray) -> Culprit:
    strengths = np.where(verdict.strengths[:, place] > 0, verdict.strengths[:, place], np.inf)
    row = int(strengths.argmin())
    return Culprit(
        family=verdict.families[place], doc=int(docs[row]), strength=float(strengths[row])
    )


def _rows(features: Features, rows: np.ndarray) -> Features:
    return Features(values=features.values[rows], transitions=features.transitions[rows])


def _background(manifest: Manifest) -> Features:
    """Return the features of documents spread evenly over the corpus."""
    blocks = manifest.geometry().block_documents.size
    chosen = np.unique(np.linspace(0, blocks - 1, min(SAMPLE_BLOCKS, blocks)).astype(np.int64))
    share = max(1, SAMPLE_DOCUMENTS // len(chosen))
    parts = [
        measure(chunk)
        for block in chosen.tolist()
        for chunk in text_chunks(manifest.block_text(block).slice(0, share))
    ]
    return Features(
        values=np.concatenate([part.values for part in parts]),
        transitions=np.concatenate([part.transitions for part in parts]),
    )
