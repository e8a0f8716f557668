"""`shardward similar`: find every relative of given documents in the corpus."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import click
from rich.console import Console

from ..loader.errors import UsageError
from ..loader.manifest import Manifest
from ..quarantine.ledger import Ledger
from ..quarantine.respond.acquittal import Acquittal
from ..quarantine.respond.operations import branch_of_spike
from ..quarantine.respond.suspects import acquit_relatives
from ..quarantine.search.detectors import MOST_READ
from ..quarantine.search.hits import KINDS, Hit, RecallBin, recall_at, recall_bins
from ..quarantine.search.incident_window import culprits
from ..quarantine.search.passages import Passage, shared_passages
from ..quarantine.search.query import NEAR, Query, build_query
from ..quarantine.search.similar import run_query
from ..quarantine.search.texts import documents_chunk
from ..quarantine.search.warm import warm
from ..quarantine.search.worker import start_quietly
from .documents import DocumentList, load_manifest
from .incident_options import find, show_commands
from .numbers import Finite
from .output import clean, emit, json_option, manifest_option, progress, run_option, say, table
from .respond_options import corpus_of

MOST_TOLD = 12
MOST_COPIED = 5
"""Relatives whose texts, and those of the documents they are like, the next command shows."""

ASKED_AT = (0.3, 0.5, 0.7, 0.8, 0.9)


@click.command()
@manifest_option
@click.option("--docs", type=DocumentList(), default=None, help="The documents to find more of.")
@click.option("--incident", metavar="ID", default=None, help="Find more of its suspects.")
@run_option
@click.option(
    "--threshold",
    type=Finite(0.01, 1.0),
    default=NEAR,
    show_default=True,
    help="Least Jaccard index of a near copy.",
)
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only these; repeatable."
)
@click.option("--passages", is_flag=True, help="Show the longest passages shared with near hits.")
@click.option("--workers", type=click.IntRange(0, 256), default=0, help="Processes; 0: this one.")
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Keep what is done here, so that a stopped search goes on.",
)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Rows shown.")
@json_option
def similar(
    *,
    manifest: Path | None,
    docs: list[int] | None,
    incident: str | None,
    run: Path,
    threshold: float,
    kinds: tuple[str, ...],
    passages: bool,
    workers: int,
    work: Path | None,
    limit: int,
    as_json: bool,
) -> None:
    """Find documents like given ones.

    Near copies, exact copies and documents of the same kind of junk are found. The Jaccard index
    is over word 5-grams and verified on the text. Where shards cannot be read, or end their worker
    process twice, what the others hold is shown, then those are named, with exit code 1.

    \b
    Examples:
      shardward similar --manifest manifest --docs 7
      shardward similar --manifest manifest --docs 7,12-15 --kind near --threshold 0.7 --json
      shardward similar --incident INC-0001 --run runs/7b --passages
    """
    loaded, wanted = _question(manifest, docs, incident, run)
    if passages:
        _require_text(loaded)
    warm(say)
    query = build_query(loaded, wanted, threshold=threshold, kinds=kinds or KINDS)
    chances = _chances(query)
    start_quietly(workers)
    with progress("searching", loaded.documents_count) as advance:
        found = run_query(loaded, query, workers=workers, advance=advance, work=work)
    for note in found.notes(loaded):
        say(note)
    hits, free = _acquit(run, incident, loaded, found.hits)
    bins = recall_bins(hits, least=query.least, banded=query.banded)
    ranked = sorted(hits, key=lambda hit: (-hit.score, hit.doc))
    shown = _passages(loaded, ranked[:limit]) if passages else {}
    payload = {
        "manifest": loaded.fingerprint,
        "query": wanted,
        "threshold": threshold,
        "hits": [
            hit.to_json() | ({"passages": shown[hit.doc]} if hit.doc in shown else {})
            for hit in hits
        ],
        "candidates": chances,
        "cut": [{"shard": cut.shard, "candidates": cut.candidates} for cut in found.cut],
        "acquitted": [each.to_json() for each in free],
        "failures": list(found.failures),
        "recall": [asdict(b) for b in bins],
    }
    for each in free[:MOST_TOLD]:
        say(f"document {each.doc} {each.reason}")
    emit(as_json, payload, lambda console: _show(console, loaded, ranked, bins, shown, limit=limit))
    found.require_whole()


def _require_text(manifest: Manifest) -> None:
    if not manifest.has_text:
        raise UsageError(
            "--passages shows text, and the tokenizer of these ids is not known; leave it out, or "
            "index the corpus with its tokenizer"
        )


def _question(
    manifest: Path | None, docs: list[int] | None, incident: str | None, run: Path
) -> tuple[Manifest, list[int]]:
    if (docs is None) == (incident is None):
        raise UsageError("name the documents with --docs, or an incident with --incident")
    if docs is not None:
        return load_manifest(manifest), docs
    opened, found = find(run, incident or "")
    corpus = corpus_of(opened, manifest)
    return corpus, list(culprits(found, corpus))


def _acquit(
    run: Path, incident_id: str | None, manifest: Manifest, hits: list[Hit]
) -> tuple[list[Hit], list[Acquittal]]:
    """Leave out what is like copies that the run ate before the incident without harm."""
    if incident_id is None:
        return hits, []
    opened, incident = find(run, incident_id)
    branch = branch_of_spike(incident, opened)
    with Ledger.open(opened) as ledger:
        return acquit_relatives(incident, ledger, manifest, hits, branch=branch, tell=say)


def _chances(query: Query) -> list[dict[str, float]]:
    """Say and return P(a near copy becomes a candidate) by J, where near copies are asked for."""
    if "near" not in query.kinds:
        return []
    asked = sorted({query.threshold, *(j for j in ASKED_AT if j > query.threshold)})
    chances = {j: recall_at(j, least=query.least, banded=query.banded) for j in asked}
    told = ", ".join(f"{chance:.3f} at J {j:g}" for j, chance in chances.items())
    say(f"chance that a near copy becomes a candidate: {told}")
    return [{"jaccard": j, "chance": round(chance, 6)} for j, chance in chances.items()]


def _passages(manifest: Manifest, hits: list[Hit]) -> dict[int, list[dict[str, object]]]:
    near = [hit for hit in hits if hit.kind == "near"]
    wanted = sorted({doc for hit in near for doc in (hit.doc, hit.query_doc)})
    chunk, _ = documents_chunk(manifest, wanted)
    texts = {doc: chunk.text(row, MOST_READ) for row, doc in enumerate(wanted)}
    return {
        hit.doc: [
            _passage(texts[hit.doc], passage)
            for passage in shared_passages(texts[hit.doc], texts[hit.query_doc])
        ]
        for hit in near
    }


def _passage(text: str, passage: Passage) -> dict[str, object]:
    start, end = passage.left
    return {
        "words": passage.words,
        "here": list(passage.left),
        "there": list(passage.right),
        "text": clean(text[start:end], limit=240),
    }


def _show(
    console: Console,
    manifest: Manifest,
    ranked: list[Hit],
    bins: tuple[RecallBin, ...],
    shown: Mapping[int, list[dict[str, object]]],
    *,
    limit: int,
) -> None:
    found = [(h.doc, h.kind, h.score, h.query_doc, h.reason) for h in ranked[:limit]]
    console.print(table("relatives", ["doc", "kind", "score", "like", "reason"], found))
    if len(ranked) > limit:
        console.print(f"{len(ranked) - limit} more; raise --limit or use --json")
    if pairs := [(str(hit.doc), str(hit.query_doc)) for hit in ranked[:MOST_COPIED]]:
        docs = ",".join(dict.fromkeys(chain.from_iterable(pairs)))
        words = ["shardward", "corpus", "show", "--manifest", str(manifest.path), "--docs", docs]
        show_commands(console, [shlex.join(words)])
    shared = [(doc, p["words"], p["text"]) for doc, all_ in shown.items() for p in all_]
    if shared:
        console.print(table("shared passages", ["doc", "words", "text"], shared))
    if bins:
        rows = [(f"{b.low:.2f}-{b.high:.2f}", b.hits, b.recall, b.expected) for b in bins]
        names = ["J", "near hits", "recall", "expected there"]
        console.print(table("recall of near copies", names, rows))
