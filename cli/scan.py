"""`shardward scan`: rank junk and duplicates in a corpus or in a spike's window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import groupby
from pathlib import Path

import click
from rich.console import Console

from ..loader.errors import UsageError
from ..loader.manifest import Manifest
from ..quarantine.respond.acquittal import Acquittal
from ..quarantine.respond.narrative import count
from ..quarantine.respond.operations import branch_of_spike
from ..quarantine.respond.suspects import find_suspects
from ..quarantine.search.corpus_scan import examine_documents, run_scan
from ..quarantine.search.duplicates import Duplicates
from ..quarantine.search.findings import Finding, Suspect
from ..quarantine.search.incident_window import incident_window
from ..quarantine.search.opinions import panel
from ..quarantine.search.triage import triage
from ..quarantine.search.warm import warm
from ..quarantine.search.worker import start_quietly
from .documents import DocumentList, load_manifest
from .incident_options import find, history_option
from .ledger_options import opened as opened_ledger
from .output import emit, json_option, manifest_option, progress, run_option, say, table
from .respond_options import corpus_of

MOST_PLACES = 3
"""Places of a group of copies in its row of the table; --json has up to eight."""
MOST_REASONS = 2
"""Reasons in the row of a suspect; --json has all."""


@click.command()
@manifest_option
@click.option("--docs", type=DocumentList(), default=None, help="Only these documents.")
@click.option("--window", type=DocumentList(), default=None, help="Rank these as suspects.")
@click.option("--controls", type=DocumentList(), default=None, help="Set against the window.")
@click.option("--incident", metavar="ID", default=None, help="Rank the window of this incident.")
@run_option
@history_option
@click.option(
    "--thorough",
    is_flag=True,
    help="Also look for unfilled templates and mixed-up code pages, judge by Gopher's rules of "
    "quality and ask detectors of installed packages, as with --docs, --window and --incident.",
)
@click.option("--workers", type=click.IntRange(0, 256), default=0, help="Processes; 0: this one.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Rows shown.")
@json_option
def scan(
    *,
    manifest: Path | None,
    docs: list[int] | None,
    window: list[int] | None,
    controls: list[int] | None,
    incident: str | None,
    run: Path,
    history: int,
    thorough: bool,
    workers: int,
    limit: int,
    as_json: bool,
) -> None:
    """Rank junk and duplicates in a corpus.

    Without options the whole corpus is scanned: binary data, repetition, encoded text, numbers,
    markup and mojibake are found, with reasons, and groups of documents with the same bytes, with
    their shards and first places. Near copies of given documents are found by `similar`. Where
    shards cannot be read, or end their worker process twice, what the others hold is shown, then
    those are named, with exit code 1. A detector of an installed package that takes over 30 seconds
    on a document is reported and left out of the rest.

    With --window or --incident the documents are ranked against their controls: a detector that
    fires as often there explains nothing. Exact and near copies inside the window count as well.

    \b
    Examples:
      shardward scan --manifest manifest
      shardward scan --manifest manifest --docs 7,12-15 --json
      shardward scan --manifest manifest --window 120-180 --controls 0-119
      shardward scan --incident INC-0001 --run runs/7b
    """
    asked = [docs is not None, window is not None, incident is not None]
    if sum(asked) > 1 or (controls is not None and window is None):
        raise UsageError(
            "give one of --docs, --window and --incident; "
            "--controls needs the --window that they are controls for"
        )
    if incident is not None:
        corpus, eaten, suspects, free = _incident(run, incident, manifest, history)
        _emit_suspects(corpus, eaten, suspects, free, limit=limit, as_json=as_json)
    elif window is not None:
        corpus = _ready(load_manifest(manifest))
        suspects = triage(corpus, window, controls or [], tell=say)
        _emit_suspects(corpus, len(set(window)), suspects, (), limit=limit, as_json=as_json)
    else:
        _scan(
            _ready(load_manifest(manifest)),
            docs=docs,
            thorough=thorough,
            workers=workers,
            limit=limit,
            as_json=as_json,
        )


def _ready(corpus: Manifest) -> Manifest:
    """Load the kernels, and say what cannot be judged in this corpus."""
    if not corpus.has_text:
        say(
            "the tokenizer of these ids is not known, so nothing is said about their text: only "
            "repeats of tokens and copies are found"
        )
    warm(say)
    return corpus


def _incident(
    run: Path, incident_id: str, manifest: Path | None, history: int
) -> tuple[Manifest, int, list[Suspect], list[Acquittal]]:
    opened, incident = find(run, incident_id)
    window = incident_window(incident)
    corpus, branch = _ready(corpus_of(opened, manifest)), branch_of_spike(incident, opened)
    with opened_ledger(opened) as ledger:
        found = find_suspects(
            incident, ledger, corpus, window, branch=branch, history=history, tell=say
        )
    return corpus, len(set(window.docs)), *found


def _emit_suspects(
    corpus: Manifest,
    documents: int,
    suspects: list[Suspect],
    free: Sequence[Acquittal],
    *,
    limit: int,
    as_json: bool,
) -> None:
    def render(console: Console) -> None:
        rows = [
            (s.doc, _yes(s.verdict), s.score, s.source, s.loss, _why(s)) for s in suspects[:limit]
        ]
        names = ["doc", "verdict", "score", "source", "loss", "reasons"]
        console.print(table("suspects", names, rows))
        _say_more(console, len(suspects), limit)
        _say_flagged(console, sum(suspect.verdict for suspect in suspects), documents)

    payload = {
        "manifest": corpus.fingerprint,
        "suspects": [suspect.to_json() for suspect in suspects],
        "acquitted": [each.to_json() for each in free],
    }
    emit(as_json, payload, render)


def _why(suspect: Suspect) -> str:
    """Return the best reasons, and how many more there are."""
    more = len(suspect.reasons) - MOST_REASONS
    told = suspect.reasons[:MOST_REASONS]
    return "; ".join([*told, f"and {more} more"] if more > 0 else told)


def _scan(
    manifest: Manifest,
    *,
    docs: list[int] | None,
    thorough: bool,
    workers: int,
    limit: int,
    as_json: bool,
) -> None:
    opinions = panel() if thorough or docs is not None else None
    if docs is not None:
        report = examine_documents(manifest, docs, panel=opinions)
    else:
        start_quietly(workers)
        with progress("scanning", manifest.documents_count) as advance:
            report = run_scan(manifest, workers=workers, advance=advance, panel=opinions)
    problems = [*(opinions.problems if opinions else ()), *report.problems]
    for problem in problems:
        say(problem)
    findings = report.findings
    documents = len(docs) if docs is not None else manifest.documents_count
    flagged = _flagged(findings)
    payload = {
        "manifest": manifest.fingerprint,
        "documents": documents,
        "flagged": flagged,
        "findings": (finding.to_json() for finding in findings),
        "problems": problems,
        "failures": report.failures,
    }
    if report.duplicates is not None:
        payload["duplicates"] = report.duplicates.to_json()

    def render(console: Console) -> None:
        ranked = nsmallest(limit, findings, key=lambda f: (not f.verdict, -f.score, f.doc))
        rows = [(f.doc, _yes(f.verdict), f.score, f.detector, f.reason) for f in ranked]
        console.print(table("findings", ["doc", "verdict", "score", "detector", "reason"], rows))
        _say_more(console, len(findings), limit)
        if report.duplicates is not None:
            _show_copies(console, report.duplicates, limit)
        _say_flagged(console, flagged, documents)

    emit(as_json, payload, render)
    report.require_whole()


def _flagged(findings: Iterable[Finding]) -> int:
    """Return how many documents are flagged; findings of one document follow each other."""
    by_document = groupby(findings, key=lambda finding: finding.doc)
    return sum(any(finding.verdict for finding in group) for _, group in by_document)


def _show_copies(console: Console, found: Duplicates, limit: int) -> None:
    rows = [
        (
            group.documents,
            group.shards,
            ", ".join(f"{place.doc} in {place.shard}" for place in group.places[:MOST_PLACES]),
            group.hash,
        )
        for group in found.groups[:limit]
    ]
    if rows:
        names = ["documents", "shards", "first places", "content hash"]
        console.print(table("exact copies", names, rows))
        _say_more(console, found.count, limit)
    console.print(
        f"exact copies: {count(found.count, 'group')}, {count(found.copies, 'document')} beyond "
        f"the first of each; {_are(found.empty, 'document')} empty"
    )


def _say_more(console: Console, total: int, limit: int) -> None:
    if total > limit:
        console.print(f"{total - limit} more; raise --limit or use --json")


def _say_flagged(console: Console, flagged: int, documents: int) -> None:
    console.print(f"{flagged} of {_are(documents, 'document')} flagged")


def _are(number: int, noun: str) -> str:
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


def _yes(verdict: bool) -> str:
    return "yes" if verdict else "no"
