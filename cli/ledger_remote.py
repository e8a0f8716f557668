"""The `ledger` commands that publish a run to an object store and fetch it elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from ..loader.errors import IntegrityError
from ..loader.journal_publish import mirror as mirror_run
from ..loader.journal_publish import publish_run
from ..loader.journal_store import ObjectStore
from ..loader.run import Run
from ..quarantine.ledger.restorable import silent_pieces
from .output import acts, emit, json_option, mutation_options, run_option


@click.command()
@click.argument("url")
@run_option
@mutation_options
@json_option
def publish(*, url: str, run: Path, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Publish plan, pieces, head and journals to URL: a directory or any fsspec URL.

    Journals go there as numbered segments that never change, so that `ledger mirror` finds
    what is new by number. A run that was made with a remote does this at each checkpoint; this
    command is for the others, and for the rest after the trainer's death. It may be repeated, and
    run while the trainer goes on. URL lies outside of the run's directory.

    \b
    Examples:
      shardward ledger publish s3://bucket/runs/7b --run runs/7b
      shardward ledger publish /nfs/runs/7b --run runs/7b --yes
    """
    found = Run.open(run)
    size = sum(journal.stat().st_size for journal in found.journals())
    question = {"command": "publish", "url": url, "journal_bytes": size}
    if not acts(yes=yes, dry_run=dry_run):
        words = f"would publish run {found.run_id} ({size} bytes of journals) to {url}; say --yes"
        emit(as_json, {"question": question, "report": None}, lambda c: c.print(words))
        return
    gained = publish_run(ObjectStore(url), found.path)
    done = f"{gained} bytes of journals published to {url}"
    report = {"published_bytes": gained}
    emit(as_json, {"question": question, "report": report}, lambda c: c.print(done))


@click.command()
@click.argument("url")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory of the copy: a new one, or an earlier copy to bring up to date.",
)
@json_option
def mirror(*, url: str, out: Path, as_json: bool) -> None:
    """Fetch what is new in the run published at URL into a directory.

    The copy is a run directory that every `ledger` command answers for. Nothing at URL is
    changed, nothing is listed there, and a reader never sees half of a segment. Journals that were
    cut or lost in the copy are fetched again. Exit 5 if the copy is no beginning of what is
    published, or if something published is gone or cut.

    \b
    Examples:
      shardward ledger mirror s3://bucket/runs/7b --out copies/7b
      shardward ledger step 41237 --run copies/7b
    """
    gained = mirror_run(ObjectStore(url), out)
    run = Run.open(out)
    done = f"{gained} bytes of journals fetched into {out}; run {run.run_id}"
    report = {"run_id": run.run_id, "fetched_bytes": gained, "journals": len(run.journals())}
    question = {"command": "mirror", "url": url, "out": str(out)}
    emit(as_json, {"question": question, "report": report}, lambda c: c.print(done))
    # The last piece may only just have started; from an earlier one a checkpoint was taken.
    last = {span.piece for span in run.lineage()[-1:]}
    gone = [str(piece) for piece in silent_pieces(run, ()) if piece not in last]
    if gone:
        raise IntegrityError(
            f"{url} has no journal of piece {', '.join(gone)}, which is in the history of the "
            "head: it is gone there or was never published; publish it from the run's own "
            "directory, or restore it from a copy of the store"
        )
