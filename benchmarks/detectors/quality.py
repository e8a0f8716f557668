"""What the verdict catches and flags, per kind and language, and what junk likeness finds.

    python -m benchmarks.detectors --only quality --corpus ../shared/corpus

Prints one JSON object per line. The documents fall into two halves by a hash of their id. The
published lines started from the clean documents of half A; tables of half B were looked at and
lines changed after them, so half B, on which the verdict is reported, is no hold-out: see
`other_material.py` for one. Wilson 95 % intervals are given where a group has under 300 documents.
`fault` kinds are made from the clean texts of half B.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardward.quarantine.search.columns import chunk_of, text_chunks
from shardward.quarantine.search.features import measure
from shardward.quarantine.search.guilt import Culprit, as_guilty, culprits, strengths
from shardward.quarantine.search.likeness import Likeness, learn
from shardward.quarantine.search.rows import DECIDING, IndexRows, flags_of, index_chunk

from .faults import KINDS

ALLOWED = 7e-4
"""Share of the clean documents of half A beyond the quantile that is printed beside each line."""
DOCUMENTS = 200
ANCHORS = (5, 20)
DRAWS = 5
"""Sets of anchors drawn of each kind; hits are counted over all of them."""
BACKGROUND = 4096


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def row(what: str, group: str, hits: int, total: int) -> dict[str, object]:
    """Return one line of the table."""
    low, high = wilson(hits, total)
    interval = {} if total >= 300 else {"low": round(low, 4), "high": round(high, 4)}
    return {
        "benchmark": "detectors.quality",
        "what": what,
        "group": group,
        "flagged": hits,
        "documents": total,
        "share": round(hits / total, 5) if total else None,
        **interval,
    }


def halves(ids: list[str]) -> np.ndarray:
    """Return bool[N]: True for half B."""
    return np.array([hashlib.sha256(i.encode()).digest()[0] & 1 == 1 for i in ids])


def chosen_lines(chunk: object, clean_a: np.ndarray) -> Iterator[dict[str, object]]:
    """Yield for each rule the published line and what half A's clean documents would allow."""
    features = measure(chunk)  # type: ignore[arg-type]
    for rule in DECIDING:
        values = rule.values(features)[clean_a]
        yield {
            "benchmark": "detectors.lines",
            "rule": rule.name,
            "published": rule.line,
            "clean_quantile_half_a": round(float(np.quantile(values, 1 - ALLOWED)), 4),
            "clean_flagged_half_a": int((values >= rule.line).sum()),
        }


def verdict_tables(
    labels: np.ndarray, flagged: np.ndarray, half_b: np.ndarray
) -> Iterator[dict[str, object]]:
    """Yield the verdict's table on half B: all, per kind, per language."""
    junk = np.char.startswith(labels, "junk")
    clean = ~junk & ~np.char.startswith(labels, "edge")
    for name, group in (("junk", junk), ("clean", clean)):
        mask = group & half_b
        yield row("verdict", name, int(flagged[mask].sum()), int(mask.sum()))
    kinds = np.array([x if x.startswith("junk") else x.split("_")[0] for x in labels.tolist()])
    for kind in sorted(set(kinds.tolist())):
        mask = (kinds == kind) & half_b
        yield row("verdict by kind", kind, int(flagged[mask].sum()), int(mask.sum()))
    language = np.array([x.split("_", 1)[1] if "_" in x else "" for x in labels.tolist()])
    for name in sorted(set(language[clean].tolist()) - {""}):
        mask = (language == name) & clean & half_b
        yield row("verdict by language", name, int(flagged[mask].sum()), int(mask.sum()))


def fault_rows(texts: list[str], others: list[str]) -> dict[str, IndexRows]:
    """Return the rows of DOCUMENTS faults of each kind."""
    made = {}
    for name, maker in KINDS.items():
        rng = random.Random(name)
        faults = [
            maker(rng, rng.choice(texts), rng.choice(others)).encode("utf-8", "replace")
            for _ in range(DOCUMENTS)
        ]
        made[name] = index_chunk(chunk_of(faults))
    return made


def junk_hits(
    rows: IndexRows,
    places: np.ndarray,
    values: np.ndarray,
    known: tuple[Culprit, ...],
    like: Likeness,
) -> tuple[np.ndarray, np.ndarray]:
    """Return bool[P] twice: which of the rows at `places` are found, and which by likeness."""
    vectors = rows.vectors[places]
    guilty = as_guilty(values[places], known, like.nearest(vectors), like.apart) >= 0
    near = like.distances(vectors).min(axis=1) <= like.threshold
    return guilty | near, near


def likeness_tables(
    rows: IndexRows, kinds: dict[str, IndexRows], clean: np.ndarray
) -> Iterator[dict[str, object]]:
    """Yield recall and clean hits of the junk search from a few anchors of each kind."""
    rng = np.random.default_rng(17)
    values = strengths(rows.vectors, rows.flags)
    background = rng.choice(len(rows), min(BACKGROUND, len(rows)), replace=False)
    innocent = ~values[background].any(axis=1)
    for name, members in kinds.items():
        theirs = strengths(members.vectors, members.flags)
        for count in ANCHORS:
            if len(members) < 2 * count:
                continue
            draws = []
            for _ in range(DRAWS):
                anchors = rng.choice(len(members), count, replace=False)
                rest = np.setdiff1d(np.arange(len(members)), anchors)
                guilty = anchors[theirs[anchors].any(axis=1)]
                if not len(guilty):
                    continue
                known = culprits(theirs[guilty], guilty.astype(np.int64))
                vectors = members.vectors[guilty]
                like = learn(vectors, tuple(guilty.tolist()), rows.vectors[background], innocent)
                found, _ = junk_hits(members, rest, theirs, known, like)
                wrong, near = junk_hits(rows, np.flatnonzero(clean), values, known, like)
                draws.append([int(x.sum()) for x in (found, wrong, near)] + [len(rest)])
            if draws:
                yield search_row(f"junk search from {count}", name, draws, int(clean.sum()))


def search_row(what: str, name: str, draws: list[list[int]], clean: int) -> dict[str, object]:
    """Return a line over draws, each [found, clean hits, those by likeness, documents searched].

    `least` is the lowest recall of a draw, `clean_hits` the mean and `most_clean_hits` the largest.
    """
    found, wrong, near, rest = (list(column) for column in zip(*draws, strict=True))
    return {
        **row(what, name, sum(found), sum(rest)),
        "draws": len(draws),
        "least": round(min(f / r for f, r in zip(found, rest, strict=True)), 4),
        "clean_hits": sum(wrong) / len(draws),
        "most_clean_hits": max(wrong),
        "clean_hits_by_likeness": sum(near) / len(draws),
        "clean_share": round(sum(wrong) / len(draws) / clean, 6),
    }


def main(folder: Path) -> None:
    """Print every table."""
    parts = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    table = pa.concat_tables(parts)
    (chunk,) = text_chunks(table["text"].combine_chunks())
    labels = np.array(table["label"].to_pylist())
    half_b = halves(table["id"].to_pylist())
    junk = np.char.startswith(labels, "junk")
    clean = ~junk & ~np.char.startswith(labels, "edge")
    rows = index_chunk(chunk)
    flagged = flags_of(measure(chunk)) & np.uint32(0x7FFFFFFF) > 0
    lines = [*chosen_lines(chunk, clean & ~half_b), *verdict_tables(labels, flagged, half_b)]
    spots = np.flatnonzero(clean & half_b & (np.diff(chunk.offsets) > 2500))
    texts = [chunk.text(i) for i in spots.tolist()]
    others = [t for t in texts if sum(c > "\x7f" for c in t[:500]) > 25]
    faults = fault_rows(texts, others)
    for name, made in faults.items():
        caught = int((made.flags & np.uint32(0x7FFFFFFF) > 0).sum())
        lines.append(row("verdict on faults", name, caught, len(made)))
    corpus_kinds = {
        str(kind): index_chunk(chunk_of([chunk.raw(i) for i in np.flatnonzero(labels == kind)]))
        for kind in sorted(set(labels[junk].tolist()))
    }
    lines += likeness_tables(rows, corpus_kinds | faults, clean)
    for line in lines:
        print(json.dumps(line))
