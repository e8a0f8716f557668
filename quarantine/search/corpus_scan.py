"""Run the detectors over a whole corpus, or over some of its documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...loader.errors import CorpusError
from .detectors import detect_chunk, panel_findings
from .engine import executor
from .features import measure
from .findings import Finding
from .opinions import Panel
from .texts import block_chunk, documents_chunk
from .token_repeats import periods_of, token_findings
from .usage import Usage, judge, usage_of

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

TASK_DOCUMENTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPart:
    """Findings over some blocks, what is usual there, and what went wrong."""

    documents: int
    findings: tuple[Finding, ...]
    sources: dict[int, str]
    usage: Usage
    problems: tuple[str, ...] = ()
    failure: str = ""


@dataclass(slots=True, kw_only=True)
class ScanReport:
    """All findings in document order, and what went wrong with which detector."""

    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def scan_corpus(
    manifest: Manifest,
    *,
    workers: int = 0,
    advance: Callable[[int], object] | None = None,
    panel: Panel | None = None,
) -> ScanReport:
    """Return the findings over all documents, judged by what is usual for their source.

    `advance(n)` hears of each n documents scanned; `panel` adds detectors that read the text.

    Raises:
        CorpusError: shards could not be read, all of them named; the others were scanned.
    """
    report, usage, failures = ScanReport(), Usage(), []
    sources: dict[int, str] = {}
    tasks = block_tasks(manifest)
    for part in executor(workers).map_unordered(detect_blocks, tasks, (manifest, panel)):
        report.findings.extend(part.findings)
        report.problems.extend(part.problems)
        sources.update(part.sources)
        usage.add(part.usage)
        if part.failure:
            failures.append(part.failure)
        if advance is not None:
            advance(part.documents)
    if failures:
        raise CorpusError(f"{len(failures)} parts could not be read: {'; '.join(sorted(failures))}")
    report.findings = judge(report.findings, sources, usage.lines())
    report.findings.sort(key=lambda finding: finding.doc)
    report.problems.sort()
    return report


def scan_documents(manifest: Manifest, docs: Sequence[int] | NDArray[np.int64]) -> list[Finding]:
    """Return the findings of the built-in rules over the given documents; see `examine_documents`.

    Raises:
        NotFound: a document is outside the corpus.
    """
    return examine_documents(manifest, docs).findings


def examine_documents(
    manifest: Manifest, docs: Sequence[int] | NDArray[np.int64], *, panel: Panel | None = None
) -> ScanReport:
    """Return the findings over the given documents, in the order given, by the published lines.

    Raises:
        NotFound: a document is outside the corpus.
    """
    ordinals = np.asarray(docs, dtype=np.int64)
    chunk, sources = documents_chunk(manifest, ordinals)
    report = ScanReport(findings=periods_of(manifest, ordinals))
    if manifest.has_text:
        report.findings.extend(detect_chunk(chunk, measure(chunk), ordinals))
        if panel is not None:
            found, report.problems = panel_findings(chunk, ordinals, sources, panel)
            report.findings.extend(found)
    place = {doc: i for i, doc in enumerate(ordinals.tolist())}
    report.findings.sort(key=lambda finding: place[finding.doc])
    return report


def detect_blocks(blocks: tuple[int, int], broadcast: tuple[Manifest, Panel | None]) -> ScanPart:
    """Return the findings over the blocks of a range; a block that cannot be read is a failure."""
    manifest, panel = broadcast
    first, last = (int(manifest.geometry().first_document[block]) for block in blocks)
    findings: list[Finding] = []
    problems: list[str] = []
    usage = Usage()
    sources: dict[int, str] = {}
    failure = ""
    for block in range(*blocks):
        try:
            found, usual, names, wrong = _block(manifest, block, panel)
        except CorpusError as error:
            failure = str(error)
            continue
        findings.extend(found)
        problems.extend(wrong)
        usage.add(usual)
        sources.update({finding.doc: names[finding.doc] for finding in found})
    return ScanPart(
        documents=last - first,
        findings=tuple(findings),
        sources=sources,
        usage=usage,
        problems=tuple(problems),
        failure=failure,
    )


def _block(
    manifest: Manifest, block: int, panel: Panel | None
) -> tuple[list[Finding], Usage, dict[int, str], list[str]]:
    first, last = (int(d) for d in manifest.geometry().first_document[block : block + 2])
    docs = np.arange(first, last, dtype=np.int64)
    names = [manifest.source_names[code] for code in manifest.sources(first, last).tolist()]
    source_of, found = dict(zip(docs.tolist(), names, strict=True)), []
    if manifest.has_token_ids:
        data = manifest.open_block(block)
        found = list(token_findings(data.values, data.offsets, docs))
    if not manifest.has_text:
        return found, Usage(), source_of, []
    chunk = block_chunk(manifest, block)
    features = measure(chunk)
    found.extend(detect_chunk(chunk, features, docs))
    problems: list[str] = []
    if panel is not None:
        more, problems = panel_findings(chunk, docs, names, panel)
        found.extend(more)
    usage = usage_of(features, names)
    return found, usage, source_of, problems


def block_tasks(manifest: Manifest) -> Iterator[tuple[int, int]]:
    """Yield ranges of blocks of about TASK_DOCUMENTS documents each."""
    sizes = manifest.geometry().block_documents
    first, documents = 0, 0
    for block, size in enumerate(sizes.tolist()):
        documents += size
        if documents >= TASK_DOCUMENTS or block + 1 == len(sizes):
            yield first, block + 1
            first, documents = block + 1, 0
