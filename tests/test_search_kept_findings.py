"""The findings of a whole corpus: held packed, judged when all are there, printed as they come."""

from __future__ import annotations

import json
import random
import tracemalloc

import numpy as np
from helpers_search import chunk

from shardward.cli.output import json_text
from shardward.quarantine.search.detectors import detect_chunk
from shardward.quarantine.search.features import measure
from shardward.quarantine.search.findings import Finding
from shardward.quarantine.search.kept_findings import KeptFindings
from shardward.quarantine.search.usage import judge


def found(count: int) -> list[Finding]:
    rng = random.Random(4)
    rows = chunk(*(f"{rng.getrandbits(4000):x} {number}" for number in range(count)))
    return list(detect_chunk(rows, measure(rows), np.arange(count)))


def test_findings_come_in_document_order_and_judged_by_the_lines_of_all_parts() -> None:
    findings = found(40)
    sources = {finding.doc: f"source{finding.doc % 2}" for finding in findings}
    lines = {("source1", finding.detector): 2.0 for finding in findings if finding.verdict}
    kept = KeptFindings()
    for first in (20, 0, 30, 10):
        part = [finding for finding in findings if first <= finding.doc < first + 10]
        last_first = sorted(part, key=lambda finding: -finding.doc)
        kept.add(last_first, {finding.doc: sources[finding.doc] for finding in part})
    kept.add([], {})

    assert len(kept) == len(findings) > 40
    assert list(kept) == findings
    kept.judge_by(lines)
    assert list(kept) == list(kept) == judge(findings, sources, lines) != findings


def test_a_finding_takes_little_room() -> None:
    findings, kept = found(2000), KeptFindings()
    tracemalloc.start()
    for start in range(0, len(findings), 500):
        kept.add(findings[start : start + 500], {})
    taken = tracemalloc.get_traced_memory()[0] / len(findings)
    tracemalloc.stop()

    assert taken < 100


def test_an_iterator_is_printed_as_the_list_that_it_would_be() -> None:
    for count in (0, 1, 3):
        rows = [{"row": row, "spans": [[row]]} for row in range(count)]
        assert json_text({"rows": iter(rows), "end": []}) == json.dumps(
            {"rows": rows, "end": []}, indent=2
        )
