"""The `ledger` commands that look after the ledger: ingest, rebuild, stats, export."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ..loader.errors import IntegrityError
from ..loader.run import Run
from ..quarantine.ledger.export import FORMATS, ORDERS
from ..quarantine.ledger.location import ledger_path
from ..quarantine.ledger.rebuild import losses
from ..quarantine.ledger.rebuild import rebuild as rebuild_ledger
from .ledger_options import fail_on, opened
from .output import (
    acts,
    emit,
    json_option,
    manifest_option,
    mutation_options,
    progress,
    run_option,
    table,
)


@click.command()
@run_option
@json_option
def ingest(*, run: Path, as_json: bool) -> None:
    """Read everything new in the journals into the ledger.

    Questions do this by themselves; do it now and then to keep them quick. Exit 5 if ranks or
    replicas recorded a step differently, or if a journal is missing, cut or garbage.

    \b
    Examples:
      shardward ledger ingest --run runs/7b
    """
    with opened(Run.open(run), None, 0) as book, progress("reading journals (bytes)") as advance:
        report = book.ingest(advance=advance)
        damage = book.journal_problems()

    def render(console: Console) -> None:
        console.print(
            f"{report.records} records with {report.ids} segments read in {report.seconds:.1f} s"
        )

    emit(as_json, {"question": {"command": "ingest"}, "report": report}, render)
    if report.disagreements:
        raise IntegrityError(report.disagreements[0].message)
    fail_on(damage)


@click.command()
@click.option(
    "--force",
    is_flag=True,
    help="Give rows up whose journals are gone; the old file is set aside.",
)
@run_option
@mutation_options
@json_option
def rebuild(*, force: bool, run: Path, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Make the ledger anew from the journals; the answers stay the same.

    Exit 5, and nothing is changed, if the ledger has rows of journals that are gone or shorter
    than they were. A file that is damaged or of a later release is set aside.

    \b
    Examples:
      shardward ledger rebuild --run runs/7b
      shardward ledger rebuild --run runs/7b --yes
    """
    found = Run.open(run)
    path, journals = ledger_path(found), found.journals()
    size = sum(journal.stat().st_size for journal in journals)
    question = {"command": "rebuild", "ledger": str(path), "journals": len(journals)}
    if not acts(yes=yes, dry_run=dry_run):
        lost = losses(found, path)
        words = f"would make {path} anew from {len(journals)} journals ({size} bytes); say --yes"
        words += "".join(f"\nwould lose rows, so it needs --force: {one}" for one in lost)
        emit(
            as_json,
            {"question": question, "report": None, "losses": lost},
            lambda console: console.print(words),
        )
        return
    with progress("reading journals (bytes)", size) as advance:
        report = rebuild_ledger(found, path, force=force, advance=advance)

    def render(console: Console) -> None:
        done = report.ingested
        console.print(f"{done.records} records with {done.ids} segments; {report.old}")

    emit(as_json, {"question": question, "report": report}, render)


@click.command()
@run_option
@json_option
def stats(*, run: Path, as_json: bool) -> None:
    """Show how much the ledger and the journals hold.

    \b
    Examples:
      shardward ledger stats --run runs/7b --json
    """
    with opened(Run.open(run), None) as book:
        found = book.stats()
    emit(
        as_json,
        {"question": {"command": "stats"}, "report": found},
        lambda console: console.print(table("ledger", ("what", "value"), list(found.items()))),
    )


@click.command()
@click.option(
    "--table",
    "name",
    type=click.Choice(list(ORDERS)),
    default="step_documents",
    show_default=True,
    help="Table or view.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="parquet",
    show_default=True,
    help="File format.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New file to write.")
@run_option
@manifest_option
@json_option
def export(
    *, name: str, form: str, out: Path, run: Path, manifest: Path | None, as_json: bool
) -> None:
    """Write a table or view of the ledger to a file.

    \b
    Examples:
      shardward ledger export --run runs/7b --out segments.parquet
      shardward ledger export --table telemetry_wide --format csv --run runs/7b --out loss.csv
    """
    with opened(Run.open(run), manifest) as book:
        rows = book.export(name, form, out)
    payload = {"question": {"command": "export", "table": name}, "report": {"rows": rows}}
    emit(as_json, payload, lambda console: console.print(f"{rows} rows written to {out}"))
