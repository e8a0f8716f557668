"""The query documents as what a scan compares: small, and sent to every worker once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...loader.errors import CorpusError, UsageError
from ...loader.formats import canonical_json, sha256_hex
from .band_scan import ValueSet, value_set
from .feature_names import FEATURES_VERSION
from .guilt import GUILT_VERSION, Culprit, culprits, strengths
from .hits import KINDS
from .likeness import Likeness, learn
from .near import least_matches
from .rows import DECIDING, EMPTY_HASH, IndexRows, index_chunk, join_rows
from .signature import current_scheme, shingle_set
from .texts import block_chunk, documents_chunk

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

NEAR = 0.25
BANDED_FROM = 0.7
"""Threshold from which a candidate must share a band: at J 0.7, 99 % of pairs share one."""
COMPARED_ALL = 128
"""Query documents up to which a lower threshold compares every signature."""
SAMPLE_BLOCKS = 16
SAMPLE_DOCUMENTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Q query documents, ready to compare.

    Attributes:
        docs: their ordinals.
        threshold: least exact Jaccard index of a near copy.
        least: equal signature slots below which that index is ruled out.
        banded: whether a near candidate must share a band.
        low: uint8[Q, 128] signatures.
        bands: the set of values of each band.
        sets: the shingles of each document.
        compared: int64, the places of the documents that near copies are looked for of: those with
            shingles, one of each content.
        hashes: content hash → document, without the empty document.
        culprits: the weakest query document of each junk rule broken.
        likeness: to the junk among them, or None.
        digest: identity of question and code; equal digests give equal hits.
    """

    docs: tuple[int, ...]
    kinds: tuple[str, ...]
    threshold: float
    least: int
    banded: bool
    low: NDArray[np.uint8]
    bands: tuple[ValueSet, ...]
    sets: tuple[NDArray[np.uint64], ...]
    compared: NDArray[np.int64]
    hashes: dict[bytes, int]
    culprits: tuple[Culprit, ...]
    likeness: Likeness | None
    digest: str


def build_query(
    manifest: Manifest,
    query_docs: Sequence[int] | NDArray[np.int64],
    *,
    threshold: float = NEAR,
    kinds: Sequence[str] = KINDS,
) -> Query:
    """Read the query documents and, if there is junk among them, a background sample.

    Raises:
        UsageError: an unknown kind, a threshold outside (0, 1], or no query documents.
        NotFound: a query document is outside the corpus.
    """
    if set(kinds) - set(KINDS) or not 0.0 < threshold <= 1.0 or not len(query_docs):
        raise UsageError(
            f"a search needs documents, kinds out of {', '.join(KINDS)} and a threshold in (0, 1]; "
            f"got {len(query_docs)} documents, kinds {', '.join(kinds)} and threshold {threshold}"
        )
    docs = np.unique(np.asarray(query_docs, dtype=np.int64))
    rows, sets = _read(manifest, docs)
    known, likeness, unread = _junk(manifest, rows, docs) if "junk" in kinds else ((), None, ())
    hashes = [rows.hashes[row].tobytes() for row in range(len(rows))]
    return Query(
        docs=tuple(docs.tolist()),
        kinds=tuple(kind for kind in KINDS if kind in kinds),
        threshold=threshold,
        least=least_matches(threshold),
        banded=threshold >= BANDED_FROM or len(docs) > COMPARED_ALL,
        low=rows.low,
        bands=tuple(value_set(band[rows.counts > 0]) for band in rows.bands),
        sets=sets,
        compared=_distinct(rows),
        hashes={
            key: doc for key, doc in zip(hashes, docs.tolist(), strict=True) if key != EMPTY_HASH
        },
        culprits=known,
        likeness=likeness,
        digest=_digest(manifest, docs, threshold, kinds, unread),
    )


def _read(
    manifest: Manifest, docs: NDArray[np.int64]
) -> tuple[IndexRows, tuple[NDArray[np.uint64], ...]]:
    """Return the rows and the shingles of documents, whose text is held no longer than this."""
    chunk, _ = documents_chunk(manifest, docs)
    rows = index_chunk(chunk, junk=manifest.has_text)
    return rows, tuple(shingle_set(chunk.view(row).data) for row in range(len(chunk)))


def _distinct(rows: IndexRows) -> NDArray[np.int64]:
    """Return the first row of each content that has shingles, ascending."""
    _, firsts = np.unique(rows.hashes, axis=0, return_index=True)
    return np.sort(firsts[rows.counts[firsts] > 0]).astype(np.int64)


def _digest(
    manifest: Manifest,
    docs: NDArray[np.int64],
    threshold: float,
    kinds: Sequence[str],
    unread: Sequence[int],
) -> str:
    question = {
        # A rebuilt manifest has its parent's fingerprint, and other documents in its shards.
        "manifest": manifest.header.fingerprint,
        "docs": docs.tolist(),
        "threshold": threshold,
        "kinds": sorted(kinds),
        "unread": list(unread),
        "scheme": asdict(current_scheme()),
        "features": FEATURES_VERSION,
        "guilt": GUILT_VERSION,
        "detectors": {rule.name: [rule.version, rule.line] for rule in DECIDING},
    }
    return sha256_hex(canonical_json(question))


def _junk(
    manifest: Manifest, rows: IndexRows, docs: NDArray[np.int64]
) -> tuple[tuple[Culprit, ...], Likeness | None, tuple[int, ...]]:
    """Return the culprits, the likeness to them, and the blocks of the sample that were unread."""
    values = strengths(rows.vectors, rows.flags)
    guilty = np.flatnonzero(values.any(axis=1))
    if not len(guilty):
        return (), None, ()
    background, unread = _background(manifest)
    likeness = learn(
        rows.vectors[guilty],
        tuple(docs[guilty].tolist()),
        background.vectors,
        np.asarray(~strengths(background.vectors, background.flags).any(axis=1)),
    )
    return culprits(values[guilty], docs[guilty]), likeness, unread


def _background(manifest: Manifest) -> tuple[IndexRows, tuple[int, ...]]:
    """Return the rows of documents spread evenly over the corpus, and the blocks left out of them.

    A block that cannot be read stops no search: the others are enough for a sample.

    Raises:
        CorpusError: none of them can be read.
    """
    blocks = manifest.geometry().block_documents.size
    chosen = np.unique(np.linspace(0, blocks - 1, min(SAMPLE_BLOCKS, blocks)).astype(np.int64))
    share = max(1, SAMPLE_DOCUMENTS // len(chosen))
    found, unread = [], []
    for block in chosen.tolist():
        try:
            found.append(index_chunk(block_chunk(manifest, block, share)))
        except CorpusError:
            unread.append(block)
            if len(unread) == len(chosen):
                raise
    return join_rows(found), tuple(unread)
