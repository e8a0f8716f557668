"""`shardward similar`: find every relative of given documents in the corpus."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ..quarantine.search.hits import KINDS, Hit
from ..quarantine.search.query import NEAR
from ..quarantine.search.similar import search
from .documents import DocumentList, load_manifest
from .output import emit, json_option, manifest_option, progress, table


@click.command()
@manifest_option
@click.option("--docs", type=DocumentList(), required=True, help="The documents to find more of.")
@click.option(
    "--threshold",
    type=click.FloatRange(0.01, 1.0),
    default=NEAR,
    show_default=True,
    help="Least Jaccard index of a near copy.",
)
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only these; repeatable."
)
@click.option("--workers", type=click.IntRange(0, 256), default=0, help="Processes; 0: this one.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Rows shown.")
@json_option
def similar(
    *,
    manifest: Path | None,
    docs: list[int],
    threshold: float,
    kinds: tuple[str, ...],
    workers: int,
    limit: int,
    as_json: bool,
) -> None:
    """Find documents like given ones.

    Near copies, exact copies and documents of the same kind of junk are found. --threshold is the least Jaccard index over word 5-grams, verified on the text.

    \b
    Examples:
      shardward similar --manifest manifest --docs 7
      shardward similar --manifest manifest --docs 7,12-15 --kind near --threshold 0.7 --json
    """
    loaded = load_manifest(manifest)
    with progress("searching", loaded.documents_count) as advance:
        hits = search(
            loaded,
            docs,
            threshold=threshold,
            workers=workers,
            kinds=kinds or KINDS,
            advance=advance,
        )
    emit(
        as_json,
        {"query": docs, "threshold": threshold, "hits": [hit.to_json() for hit in hits]},
        lambda console: _show(console, hits, limit),
    )


def _show(console: Console, hits: list[Hit], limit: int) -> None:
    ranked = sorted(hits, key=lambda hit: (-hit.score, hit.doc))
    rows = [(h.doc, h.kind, h.score, h.query_doc, h.reason) for h in ranked[:limit]]
    console.print(table("relatives", ["doc", "kind", "score", "like", "reason"], rows))
    if len(hits) > limit:
        console.print(f"{len(hits) - limit} more; raise --limit or use --json")
