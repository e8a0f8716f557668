"""Run the detectors over a whole corpus, or over some of its documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...loader.errors import CorpusError
from .detectors import detect_chunk, panel_findings
from .duplicates import CopyFinder, Duplicates, Records, copy_records
from .engine import executor
from .features import measure
from .findings import Finding
from .kept_findings import KeptFindings
from .opinions import Failure, Panel, merged
from .rows import content_hashes
from .texts import block_chunk, documents_chunk
from .token_repeats import periods_of, token_findings
from .usage import Usage, usage_of

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

TASK_DOCUMENTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPart:
    """Findings over some blocks, their contents, what is usual there, and what went wrong.

    `failed` are detectors, `failures` say which blocks could not be read.
    """

    documents: int
    contents: tuple[Records, ...]
    findings: tuple[Finding, ...]
    sources: dict[int, str]
    usage: Usage
    failed: tuple[Failure, ...] = ()
    failures: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ScanReport:
    """All findings in document order, the exact copies, and what went wrong with which detector."""

    findings: Collection[Finding] = ()
    duplicates: Duplicates | None = None
    problems: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Which parts of the corpus could not be read."""

    def require_whole(self) -> None:
        """Raise CorpusError, all of them named, where parts could not be read."""
        if self.failures:
            raise CorpusError(
                f"{len(self.failures)} parts could not be read: {'; '.join(self.failures)}"
            )


def scan_corpus(
    manifest: Manifest,
    *,
    workers: int = 0,
    advance: Callable[[int], object] | None = None,
    panel: Panel | None = None,
) -> ScanReport:
    """Return the findings over all documents, judged by what is usual for their source, and copies.

    `advance(n)` hears of each n documents scanned; `panel` adds detectors that read the text.

    Raises:
        CorpusError: shards could not be read, all of them named; the others were scanned.
    """
    report = run_scan(manifest, workers=workers, advance=advance, panel=panel)
    report.require_whole()
    return replace(report, findings=list(report.findings))


def run_scan(
    manifest: Manifest,
    *,
    workers: int = 0,
    advance: Callable[[int], object] | None = None,
    panel: Panel | None = None,
) -> ScanReport:
    """Return the findings over what could be read, and what could not; see `scan_corpus`.

    The findings are held packed, and each is made when it is asked for.
    """
    report, usage, kept = ScanReport(), Usage(), KeptFindings()
    failures: set[str] = set()
    if panel is not None and workers:
        panel = panel.portable()
        report.problems.extend(panel.problems)
    elif panel is not None:
        panel = replace(panel)  # which was slow in another scan is asked again
    failed: list[Failure] = []
    tasks = block_tasks(manifest)
    pool = executor(workers, partial(_named, manifest), parts=_single_blocks, lost=failures.add)
    with CopyFinder(manifest) as copies:
        for part in pool.map_unordered(detect_blocks, tasks, (manifest, panel)):
            kept.add(part.findings, part.sources)
            failed.extend(part.failed)
            usage.add(part.usage)
            failures.update(part.failures)
            for records in part.contents:
                copies.add(records)
            if advance is not None:
                advance(part.documents)
        report.duplicates = copies.found()
    kept.judge_by(usage.lines())
    report.findings = kept
    report.problems.extend(str(failure) for failure in merged(failed))
    report.failures = sorted(failures)
    return report


def scan_documents(manifest: Manifest, docs: Sequence[int] | NDArray[np.int64]) -> list[Finding]:
    """Return the findings of the built-in rules over the given documents; see `examine_documents`.

    Raises:
        NotFound: a document is outside the corpus.
    """
    return list(examine_documents(manifest, docs).findings)


def examine_documents(
    manifest: Manifest, docs: Sequence[int] | NDArray[np.int64], *, panel: Panel | None = None
) -> ScanReport:
    """Return the findings over the given documents, in the order given, by the published lines.

    Raises:
        NotFound: a document is outside the corpus.
    """
    ordinals = np.asarray(docs, dtype=np.int64)
    chunk, sources = documents_chunk(manifest, ordinals)
    report, findings = ScanReport(), periods_of(manifest, ordinals)
    if manifest.has_text:
        findings.extend(detect_chunk(chunk, measure(chunk), ordinals))
        if panel is not None:
            found, failed = panel_findings(chunk, ordinals, sources, replace(panel))
            findings.extend(found)
            report.problems = [str(failure) for failure in merged(failed)]
    place = {doc: i for i, doc in enumerate(ordinals.tolist())}
    report.findings = sorted(findings, key=lambda finding: place[finding.doc])
    return report


def detect_blocks(blocks: tuple[int, int], broadcast: tuple[Manifest, Panel | None]) -> ScanPart:
    """Return the findings over the blocks of a range; a block that cannot be read is a failure."""
    manifest, panel = broadcast
    first, last = (int(manifest.geometry().first_document[block]) for block in blocks)
    found = []
    failures = []
    for block in range(*blocks):
        try:
            found.append(_block(manifest, block, panel))
        except CorpusError as error:
            failures.append(str(error))
    usage = Usage()
    for each in found:
        usage.add(each.usage)
    return ScanPart(
        documents=last - first,
        contents=tuple(each.contents for each in found),
        findings=tuple(finding for each in found for finding in each.findings),
        sources={
            finding.doc: each.source_of(finding.doc) for each in found for finding in each.findings
        },
        usage=usage,
        failed=merged(failure for each in found for failure in each.failed),
        failures=tuple(failures),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """What a block of a scan holds; `names` are the sources of its documents from `first` on."""

    first: int
    names: list[str]
    contents: Records
    findings: list[Finding]
    usage: Usage
    failed: list[Failure]

    def source_of(self, doc: int) -> str:
        return self.names[doc - self.first]


def _block(manifest: Manifest, block: int, panel: Panel | None) -> _Block:
    first, last = (int(d) for d in manifest.geometry().first_document[block : block + 2])
    docs = np.arange(first, last, dtype=np.int64)
    names = [manifest.source_names[code] for code in manifest.sources(first, last).tolist()]
    chunk = block_chunk(manifest, block)
    findings: list[Finding] = []
    failed: list[Failure] = []
    usage = Usage()
    if manifest.has_token_ids:
        data = manifest.open_block(block)
        findings.extend(token_findings(data.values, data.offsets, docs, manifest.alive(block)))
    if manifest.has_text:
        features = measure(chunk)
        usage = usage_of(features, names)
        findings.extend(detect_chunk(chunk, features, docs))
        if panel is not None:
            more, failed = panel_findings(chunk, docs, names, panel)
            findings.extend(more)
    return _Block(
        first=first,
        names=names,
        contents=copy_records(content_hashes(chunk), first, block, manifest.alive(block)),
        findings=findings,
        usage=usage,
        failed=failed,
    )


def _named(manifest: Manifest, blocks: tuple[int, int]) -> str:
    first, last = (int(manifest.geometry().first_document[block]) for block in blocks)
    return f"{manifest.shard_of(blocks[0]).uri} (documents {first} to {last - 1})"


def _single_blocks(blocks: tuple[int, int]) -> list[tuple[int, int]]:
    return [(block, block + 1) for block in range(*blocks)]


def block_tasks(manifest: Manifest) -> Iterator[tuple[int, int]]:
    """Yield ranges of blocks of about TASK_DOCUMENTS documents each."""
    sizes = manifest.geometry().block_documents
    first, documents = 0, 0
    for block, size in enumerate(sizes.tolist()):
        documents += size
        if documents >= TASK_DOCUMENTS or block + 1 == len(sizes):
            yield first, block + 1
            first, documents = block + 1, 0
