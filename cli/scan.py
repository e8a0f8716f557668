"""`shardward scan`: rank junk and duplicates in a corpus or in a spike's window."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ..loader.errors import UsageError
from ..loader.manifest import Manifest
from ..quarantine.search.corpus_scan import scan_corpus, scan_documents
from ..quarantine.search.findings import Finding, Suspect
from ..quarantine.search.triage import triage
from .documents import DocumentList, load_manifest
from .output import emit, json_option, manifest_option, progress, table


@click.command()
@manifest_option
@click.option("--docs", type=DocumentList(), default=None, help="Only these documents.")
@click.option("--window", type=DocumentList(), default=None, help="Rank these as suspects.")
@click.option("--controls", type=DocumentList(), default=None, help="Set against the window.")
@click.option("--workers", type=click.IntRange(0, 256), default=0, help="Processes; 0: this one.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Rows shown.")
@json_option
def scan(
    *,
    manifest: Path | None,
    docs: list[int] | None,
    window: list[int] | None,
    controls: list[int] | None,
    workers: int,
    limit: int,
    as_json: bool,
) -> None:
    """Rank junk and duplicates in a corpus.

    Binary data, repetition, encoded text, numbers and mojibake are found, with reasons.

    Without options the whole corpus is scanned. With --window the documents are ranked against
    --controls: a detector that fires as often in the controls explains nothing.

    \b
    Examples:
      shardward scan --manifest manifest
      shardward scan --manifest manifest --docs 7,12-15 --json
      shardward scan --manifest manifest --window 120-180 --controls 0-119
    """
    if controls is not None and window is None:
        raise UsageError("--controls needs the --window that they are controls for")
    loaded = load_manifest(manifest)
    if window is not None:
        suspects = triage(loaded, window, controls or [])
        emit(
            as_json,
            {"suspects": [suspect.to_json() for suspect in suspects]},
            lambda console: _show_suspects(console, suspects, limit),
        )
        return
    findings = _findings(loaded, docs, workers)
    emit(
        as_json,
        {
            "documents": len(docs) if docs is not None else loaded.documents_count,
            "flagged": len({finding.doc for finding in findings if finding.verdict}),
            "findings": [finding.to_json() for finding in findings],
        },
        lambda console: _show_findings(console, findings, limit),
    )


def _findings(manifest: Manifest, docs: list[int] | None, workers: int) -> list[Finding]:
    if docs is not None:
        return scan_documents(manifest, docs)
    with progress("scanning", manifest.documents_count) as advance:
        return scan_corpus(manifest, workers=workers, advance=advance)


def _show_findings(console: Console, findings: list[Finding], limit: int) -> None:
    ranked = sorted(findings, key=lambda f: (not f.verdict, -f.score, f.doc))
    rows = [
        (f.doc, "yes" if f.verdict else "no", f.score, f.detector, f.reason)
        for f in ranked[:limit]
    ]
    console.print(table("findings", ["doc", "verdict", "score", "detector", "reason"], rows))
    if len(findings) > limit:
        console.print(f"{len(findings) - limit} more; raise --limit or use --json")


def _show_suspects(console: Console, suspects: list[Suspect], limit: int) -> None:
    rows = [(s.doc, s.score, s.source, "; ".join(s.reasons)) for s in suspects[:limit]]
    console.print(table("suspects", ["doc", "score", "source", "reasons"], rows))
    if len(suspects) > limit:
        console.print(f"{len(suspects) - limit} more; raise --limit or use --json")
