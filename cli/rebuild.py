"""`shardward rebuild`: the corpus once more, without what a revision leaves out."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import numpy as np
from rich.console import Console

from ..loader.manifest import Manifest
from ..loader.revision_store import list_revisions
from ..loader.run import Run
from ..loader.tokenizers import spec_of
from ..quarantine.respond import kept_order
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.filing import attach_rebuild
from ..quarantine.respond.incident import IncidentStore
from ..quarantine.respond.rebuild import rebuild as rebuild_corpus
from ..quarantine.respond.rebuild_plan import condemned_documents
from ..quarantine.respond.rebuild_report import RebuildReport
from ..quarantine.respond.revisions import decision_anchors, load_revision
from ..quarantine.respond.status import Documents
from .numbers import WHOLE
from .output import (
    acts,
    emit,
    json_option,
    manifest_option,
    mutation_options,
    progress,
    run_option,
    say,
)
from .output import table as output_table
from .respond_options import actor_option, corpus_of


@click.command()
@run_option
@manifest_option
@click.option("--revision", type=WHOLE, help="Number of the revision; the newest by default.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="New directory for the shards.",
)
@click.option(
    "--only-condemned", is_flag=True, help="Remove what is condemned, not all that is out."
)
@click.option(
    "--keep-order",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also make this manifest, in which all numbers stay: the run goes on with it.",
)
@click.option("--incident", metavar="ID", help="Add the rebuild to this incident's postmortem.")
@actor_option
@mutation_options
@json_option
def rebuild(
    *,
    run: Path,
    manifest: Path | None,
    revision: int | None,
    out: Path,
    only_condemned: bool,
    keep_order: Path | None,
    incident: str | None,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the corpus without excluded documents.

    All that a revision leaves out is taken out, or with --only-condemned what is condemned. It
    can be stopped and started again; what is finished is not done twice.

    With --keep-order the run can go on with the rebuilt corpus, in the same order under the same
    revision or a later one: documents and blocks keep their numbers and lengths. corpus index makes
    a manifest with an order of its own, for a new run. A rebuilt corpus is rebuilt again with the
    --manifest that --keep-order made.

    A damaged block stops it where a document of it was to stay; one that goes need not be read.

    Parquet is rewritten row group by row group: codec, metadata, sorting and page index stay.

    \b
    Examples:
      shardward rebuild --run runs/7b --out corpus-clean --dry-run
      shardward rebuild --run runs/7b --out corpus-clean --yes
      shardward rebuild --run runs/7b --out corpus-clean --incident INC-0001 --yes
      shardward rebuild --run runs/7b --out corpus-clean --keep-order clean-manifest --yes
      shardward corpus index corpus-clean --out corpus-clean-manifest
    """
    opened = Run.open(run)
    about = None if incident is None else IncidentStore(opened.path).get(incident)
    corpus = corpus_of(opened, manifest)
    if keep_order is not None:
        kept_order.check_place(keep_order, corpus, out)
    number = max(list_revisions(opened.path), default=0) if revision is None else revision
    # A revision is what people decided only while the log it came from stands.
    DecisionLog(opened.path).verify(decision_anchors(opened.path, opened.fingerprint))
    chosen = load_revision(opened.path, number, manifest=corpus.fingerprint)
    documents = condemned_documents(opened.path, corpus, chosen) if only_condemned else None
    if not acts(yes=yes, dry_run=dry_run):
        _would(corpus, number, chosen.documents if documents is None else documents, out, as_json)
        return
    with progress("rebuilding", total=corpus.documents_count) as advance:
        report = rebuild_corpus(corpus, chosen, out, documents=documents, advance=advance, tell=say)
    if keep_order is not None:
        kept_order.keep_order(keep_order, corpus, out, report)
    if about is not None:
        attach_rebuild(about, opened, report, actor=actor)

    manifest_path = None if keep_order is None else str(keep_order)
    payload = {"done": True, **report.to_json(), "manifest": manifest_path}
    emit(as_json, payload, lambda console: _show(console, report, corpus, out, keep_order))


def _would(corpus: Manifest, revision: int, gone: Documents, out: Path, as_json: bool) -> None:
    removed = len(np.setdiff1d(gone, corpus.tombstones))
    total = corpus.documents_count - len(corpus.tombstones)
    payload = {"done": False, "revision": revision, "rows_in": total, "removed": removed}
    what = (
        f"would write {total - removed} of {total} documents to {out}, without the {removed} of "
        f"revision {revision}; say --yes to do it"
    )
    emit(as_json, payload, lambda console: console.print(what))


def _show(
    console: Console, report: RebuildReport, corpus: Manifest, out: Path, keep_order: Path | None
) -> None:
    names = ("uri", "rows_in", "rows_out", "size")
    rows = [
        [*(getattr(shard, name) for name in names), len(shard.removed)] for shard in report.shards
    ]
    title = f"{report.rows_in} in, {report.rows_out} out, {report.removed} removed"
    console.print(output_table(title, (*names, "removed"), rows))
    if keep_order is None:
        words = ["shardward", "corpus", "index", str(out), "--out", f"{out}-manifest"]
        schema = corpus.header.schema
        for option in ("column", "id_column", "source_column"):
            value = getattr(schema, option)
            words += [] if value is None else [f"--{option.replace('_', '-')}", value]
        words += ["--tokenizer", spec_of(corpus.header.tokenizer, corpus.path)]
        console.print(f"next: {shlex.join(words)}", soft_wrap=True)
    else:
        console.print(f"next: go on with Manifest.load({str(keep_order)!r})")
