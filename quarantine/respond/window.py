"""What a stretch of steps ate: steps → samples → segments → documents → shards, with controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...loader.errors import IncidentError
from .measures import TEXT_BYTES, Comparison, Piece, compare, measure, shares

if TYPE_CHECKING:
    from ...loader.manifest import Manifest


class StepSource(Protocol):
    """What is asked of the ledger."""

    def step_documents(self, step: int) -> pa.Table:
        """Return one row per segment: step, piece, rank, sample_position, doc, tokens from, to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Steps `first`..`last` with their segments, and earlier windows of the same length.

    `segments` has the columns of `step_documents`; `documents` one row per document: doc, id,
    source, shard, row, tokens, first_step, last_step, by tokens, most first. `controls` are the
    (first, last) of the control windows and `comparisons` how they compare.
    """

    first: int
    last: int
    segments: pa.Table
    documents: pa.Table
    shards: dict[str, float]
    sources: dict[str, float]
    controls: tuple[tuple[int, int], ...]
    control_documents: tuple[int, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def positions(self) -> list[int]:
        """The sample positions delivered in the window, sorted."""
        found: list[int] = pc.unique(self.segments["sample_position"]).to_pylist()
        return sorted(found)

    @property
    def unusual(self) -> bool | None:
        """Whether any measure is unusual; None when there are too few controls to say."""
        known = [c.unusual for c in self.comparisons if c.unusual is not None]
        return any(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """Return the window as the JSON evidence of `identify`, documents as columns."""
        return {
            "first": self.first,
            "last": self.last,
            "steps": self.last - self.first + 1,
            "samples": len(self.positions),
            "segments": self.segments.num_rows,
            "documents": self.documents.to_pydict(),
            "shards": self.shards,
            "sources": self.sources,
            "controls": [list(c) for c in self.controls],
            "control_documents": list(self.control_documents),
            "comparisons": [asdict(c) for c in self.comparisons],
            "unusual": self.unusual,
        }


def identify(
    ledger: StepSource,
    manifest: Manifest,
    *,
    first: int,
    last: int,
    controls: int = 4,
    gap: int | None = None,
    texts: bool = True,
) -> Window:
    """Return what steps `first`..`last` were fed, beside up to `controls` windows before it.

    Args:
        ledger: answers for the effective lineage.
        manifest: the corpus of the run.
        first, last: steps, both included.
        controls: control windows of the same length, the nearest ending `gap` steps before.
        gap: steps between the controls and the window; its own length by default.
        texts: also compare the texts (reads the documents of window and controls).

    Raises:
        IncidentError: the window is empty, or the ledger has no documents for it.
    """
    if not 1 <= first <= last:
        raise IncidentError(f"steps {first} to {last} are no window; the first step is 1")
    segments = _segments(ledger, first, last)
    if segments.num_rows == 0:
        raise IncidentError(
            f"the ledger has no documents for steps {first} to {last}; check the steps with "
            "ledger steps, or use a plan-derived record"
        )
    pieces = _pieces(segments, manifest, texts)
    spans = _control_spans(first, last, controls, gap)
    samples = [_pieces(_segments(ledger, a, b), manifest, texts) for a, b in spans]
    kept = [(span, sample) for span, sample in zip(spans, samples, strict=True) if sample]
    usual = shares([p for _, sample in kept for p in sample], "source")
    return Window(
        first=first,
        last=last,
        segments=segments,
        documents=_documents(segments, manifest),
        shards=shares(pieces, "shard"),
        sources=shares(pieces, "source"),
        controls=tuple(span for span, _ in kept),
        control_documents=tuple(sorted({p.doc for _, sample in kept for p in sample})),
        comparisons=tuple(
            compare(measure(pieces, usual), [measure(sample, usual) for _, sample in kept])
        ),
    )


def _segments(ledger: StepSource, first: int, last: int) -> pa.Table:
    return pa.concat_tables([ledger.step_documents(step) for step in range(first, last + 1)])


def _control_spans(first: int, last: int, controls: int, gap: int | None) -> list[tuple[int, int]]:
    length = last - first + 1
    end = first - 1 - (length if gap is None else gap)
    spans = []
    for _ in range(controls):
        if end - length + 1 < 1:
            break
        spans.append((end - length + 1, end))
        end -= length
    return spans[::-1]


def _tokens(segments: pa.Table) -> pa.Table:
    """Return doc, tokens, first and last step per document."""
    lengths = pc.subtract(segments["token_end"], segments["token_start"])
    table = pa.table({"doc": segments["doc"], "tokens": lengths, "step": segments["step"]})
    grouped = table.group_by("doc").aggregate([("tokens", "sum"), ("step", "min"), ("step", "max")])
    return pa.table(
        {
            "doc": grouped["doc"],
            "tokens": grouped["tokens_sum"],
            "first_step": grouped["step_min"],
            "last_step": grouped["step_max"],
        }
    )


def _documents(segments: pa.Table, manifest: Manifest) -> pa.Table:
    totals = _tokens(segments)
    rows = manifest.documents(totals["doc"].to_numpy(), columns=("id",))
    for name in ("tokens", "first_step", "last_step"):
        rows = rows.append_column(name, totals[name])
    return rows.sort_by([("tokens", "descending"), ("doc", "ascending")])


def _pieces(segments: pa.Table, manifest: Manifest, texts: bool) -> list[Piece]:
    totals = _tokens(segments)
    docs = totals["doc"].to_numpy()
    if not len(docs):
        return []
    with_text = texts and manifest.has_text
    rows = manifest.documents(docs, columns=("text",) if with_text else ())
    content: Sequence[str | None] = [None] * len(docs)
    if with_text:
        content = pc.utf8_slice_codeunits(rows["text"], 0, TEXT_BYTES).to_pylist()
    columns = zip(
        np.asarray(docs).tolist(),
        rows["shard"].to_pylist(),
        rows["source"].to_pylist(),
        totals["tokens"].to_pylist(),
        content,
        strict=True,
    )
    return [
        Piece(doc=doc, shard=shard, source=source, tokens=tokens, text=text)
        for doc, shard, source, tokens, text in columns
    ]
