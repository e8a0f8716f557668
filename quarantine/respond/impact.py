"""What a revision would change, worked out before it is published, and how two revisions differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...loader.arrays import Int64Array
from ...loader.errors import UsageError
from ...loader.exclusion import Exclusion
from ...loader.order import EpochOrder, Layout
from ...loader.packing import WindowTable

if TYPE_CHECKING:
    from ...loader.cursor import Cursor
    from ...loader.manifest import Manifest
    from ...loader.plan import Plan
    from ...loader.revision import Revision

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Documents and skips that `after` leaves out and `before` does not, and the reverse."""

    before: int
    after: int
    added: tuple[int, ...]
    released: tuple[int, ...]
    skips_added: tuple[dict[str, Any], ...]
    skips_released: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Of one source or language: what would go, of how much; `share` is of its tokens."""

    name: str
    documents: int
    tokens: int
    of_tokens: int | None
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What publishing would do.

    `documents` and `tokens` are those left out anew. `samples` are samples from the cursor on,
    in its epoch, that hold a piece of them; `passed_over` those that vanish whole; `steps` the
    range of steps they fall into (None without a batch size); `blanked_share` the share of the
    epoch's remaining tokens.
    """

    difference: Difference
    documents: int
    tokens: int
    sources: tuple[Share, ...]
    groups: tuple[Share, ...]
    samples: int
    passed_over: int
    steps: int | None
    first_step: int | None
    blanked_tokens: int
    blanked_share: float

    def to_json(self) -> dict[str, Any]:
        """Return the impact as a JSON object, documents named only by number of them."""
        value = asdict(self)
        value["difference"] = {
            **value["difference"],
            "added": len(self.difference.added),
            "released": len(self.difference.released),
        }
        return value


def diff(before: Revision, after: Revision) -> Difference:
    """Return how `after` differs from `before`.

    Raises:
        UsageError: they are for different corpora.
    """
    if before.manifest != after.manifest:
        raise UsageError(
            f"revision {before.number} is for corpus {before.manifest[:12]}, revision "
            f"{after.number} for {after.manifest[:12]}; ordinals mean other documents there"
        )
    return Difference(
        before=before.number,
        after=after.number,
        added=tuple(np.setdiff1d(after.documents, before.documents).tolist()),
        released=tuple(np.setdiff1d(before.documents, after.documents).tolist()),
        skips_added=tuple(s.to_json() for s in after.skips if s not in before.skips),
        skips_released=tuple(s.to_json() for s in before.skips if s not in after.skips),
    )


def impact(
    manifest: Manifest,
    plan: Plan,
    before: Revision,
    after: Revision,
    *,
    cursor: Cursor,
    batch: int | None = None,
    group_column: str | None = None,
) -> Impact:
    """Return what publishing `after` would change for a run that stands at `cursor`.

    Args:
        manifest, plan: of the run.
        before: in force now.
        after: as `build_revision` gave it.
        cursor: where the run stands.
        batch: global batch in samples.
        group_column: a column of the shards to count the documents by, such as the language; it
            is read of the whole corpus, for the share of each value.
    """
    changed = diff(before, after)
    added = np.array(changed.added, np.int64)
    lengths = lengths_of(manifest, added)
    touched = _Touched(manifest, plan, after, cursor)
    samples, gone = touched.samples(added)
    blanked = touched.tokens(added, lengths)
    remaining = touched.remaining_tokens()
    steps = np.unique((samples - cursor.position) // batch) if batch else None
    return Impact(
        difference=changed,
        documents=int(added.size),
        tokens=int(lengths.sum()),
        sources=_by_source(manifest, added, lengths),
        groups=_by_column(manifest, added, lengths, group_column) if group_column else (),
        samples=int(samples.size),
        passed_over=gone,
        steps=None if steps is None else int(steps.size),
        first_step=cursor.step + 1 + int(steps[0]) if steps is not None and steps.size else None,
        blanked_tokens=blanked,
        # Documents that the cursor cuts count whole, which may be more than what is ahead.
        blanked_share=min(blanked / remaining, 1.0) if remaining else 0.0,
    )


def lengths_of(manifest: Manifest, docs: Int64Array) -> Int64Array:
    """Return the token lengths of any documents, int64[n]; one read per block touched."""
    first = manifest.geometry().first_document
    blocks = manifest.geometry().block_of(docs)
    found = np.zeros(docs.size, np.int64)
    for block in np.unique(blocks):
        chosen = blocks == block
        low, high = int(first[block]), int(first[block + 1])
        found[chosen] = manifest.lengths(low, high)[docs[chosen] - low]
    return found


class _Touched:
    """The samples ahead of a cursor that documents fall into."""

    def __init__(self, manifest: Manifest, plan: Plan, after: Revision, cursor: Cursor) -> None:
        self._layout = Layout(plan, manifest.geometry(), manifest.lengths)
        self._order = EpochOrder(self._layout, cursor.epoch)
        self._exclusion = Exclusion(after, plan_id=plan.plan_id, mode="compact")
        self._cursor = cursor

    def samples(self, docs: Int64Array) -> tuple[Int64Array, int]:
        """Return the sample positions ahead, and how many of them vanish whole."""
        _, positions = self._order.positions_of(docs)
        ahead = np.unique(positions[positions >= self._cursor.position])
        gone = 0
        for window in np.unique([self._order.window_of(int(p)) for p in ahead]):
            table: WindowTable = self._order.window(int(window))
            passed = self._exclusion.passed(table, self._cursor.epoch)
            inside = (ahead >= table.first_position) & (ahead < table.end_position)
            gone += int(passed[ahead[inside] - table.first_position].sum())
        return ahead, gone

    def tokens(self, docs: Int64Array, lengths: Int64Array) -> int:
        """Return the tokens of the documents that are still ahead (a document cut is counted)."""
        index, positions = self._order.positions_of(docs)
        ahead = np.unique(index[positions >= self._cursor.position])
        return int(lengths[ahead].sum())

    def remaining_tokens(self) -> int:
        """Return the tokens from the cursor to the end of its epoch, before any exclusion."""
        left = max(self._order.positions - self._cursor.position, 0)
        total = int(self._layout.block_stream.sum())
        return round(total * left / max(self._order.positions, 1))


def _by_source(manifest: Manifest, docs: Int64Array, lengths: Int64Array) -> tuple[Share, ...]:
    if not docs.size:
        return ()
    names = manifest.source_names
    codes = manifest.sources_of(docs)
    totals = _source_tokens(manifest)
    return tuple(
        Share(
            name=names[code],
            documents=int((codes == code).sum()),
            tokens=int(lengths[codes == code].sum()),
            of_tokens=int(totals[code]),
            share=float(lengths[codes == code].sum() / totals[code]) if totals[code] else None,
        )
        for code in np.unique(codes).tolist()
    )


def _source_tokens(manifest: Manifest) -> Int64Array:
    totals = np.zeros(len(manifest.source_names), np.int64)
    for low in range(0, manifest.documents_count, _CHUNK):
        high = min(low + _CHUNK, manifest.documents_count)
        np.add.at(totals, manifest.sources(low, high), manifest.lengths(low, high))
    return totals


def _by_column(
    manifest: Manifest, docs: Int64Array, lengths: Int64Array, column: str
) -> tuple[Share, ...]:
    if not docs.size and manifest.header.blocks:
        manifest.reader.raw(0, [column])  # a column that is not there is refused all the same
    values = column_of(manifest, docs, column)
    counts: dict[str, list[int]] = {}
    for value, tokens in zip(values, lengths.tolist(), strict=True):
        entry = counts.setdefault(value, [0, 0])
        entry[0] += 1
        entry[1] += tokens
    totals = _column_tokens(manifest, column) if counts else Counter()
    return tuple(
        Share(
            name=name,
            documents=n,
            tokens=t,
            of_tokens=totals[name],
            share=t / totals[name] if totals[name] else None,
        )
        for name, (n, t) in sorted(counts.items(), key=lambda item: -item[1][1])
    )


def _column_tokens(manifest: Manifest, column: str) -> Counter[str]:
    """Return the tokens of each value of a column; it is read of the whole corpus."""
    first, totals = manifest.geometry().first_document, Counter[str]()
    for block in range(manifest.header.blocks):
        lengths = manifest.lengths(int(first[block]), int(first[block + 1]))
        values = manifest.reader.raw(block, [column])[column].cast(pa.string())
        rows = pa.table({"value": values, "tokens": lengths.astype(np.int64)})
        for row in rows.group_by("value").aggregate([("tokens", "sum")]).to_pylist():
            totals[str(row["value"])] += row["tokens_sum"]
    return totals


def column_of(manifest: Manifest, docs: Int64Array, column: str) -> list[str]:
    """Return a column of the shards for any documents, as text; one read per block touched."""
    first = manifest.geometry().first_document
    blocks = manifest.geometry().block_of(docs)
    found: dict[int, str] = {}
    for block in np.unique(blocks):
        rows = manifest.reader.raw(int(block), [column])[column].to_pylist()
        for doc in docs[blocks == block].tolist():
            found[doc] = str(rows[doc - int(first[block])])
    return [found[doc] for doc in docs.tolist()]
