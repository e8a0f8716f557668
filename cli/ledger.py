"""`shardward ledger`: which documents fed which steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.errors import Busy, IntegrityError
from ..loader.run import Run
from ..quarantine.ledger.derive import Deriver
from ..quarantine.ledger.step_answer import StepAnswer, step_from_journals
from .ledger_history import diff, sample, timeline
from .ledger_options import (
    LARGEST,
    QUICK_SECONDS,
    SEGMENT_TABLE,
    answer,
    check_documents,
    corpus_of,
    ended_at_once,
    ledger_options,
    limit_option,
    named,
    opened,
    ordinals_of,
    show_option,
    step_range,
    view_from,
    view_json,
)
from .ledger_remote import mirror, publish
from .ledger_upkeep import export, ingest, rebuild, stats, verify
from .output import emit, json_option, run_option, say, table

STEP_TABLE = (
    "step",
    "piece",
    "ranks",
    "dp_size",
    "completed",
    "epoch",
    "first_position",
    "end_position",
    "samples",
    "segments",
    "revision",
)


@click.group()
def ledger() -> None:
    """Ask which documents fed which steps.

    The answer is about the history of the run's head unless --branch, --all or --at says
    otherwise. The first step is 1.

    \b
    Examples:
      shardward ledger step 41237 --run runs/7b
      shardward ledger doc 123456 --run runs/7b --all
      shardward ledger check --run runs/7b
    """


@ledger.command()
@click.argument("number", type=click.IntRange(min=1, max=LARGEST))
@show_option
@limit_option
@ledger_options
def step(
    *,
    number: int,
    show: bool,
    limit: int,
    run: Path,
    manifest: Path | None,
    as_json: bool,
    **history: Any,
) -> None:
    """Show every segment that fed step NUMBER.

    The title says which ranks have not recorded it yet. It is exact at once, however much of
    the journals has not been ingested. While another process holds the ledger, the journals
    alone answer and the exit code is 4.

    \b
    Examples:
      shardward ledger step 41237 --run runs/7b
      shardward ledger step 41237 --run runs/7b --show --limit 5
      shardward ledger step 41237 --run runs/7b --branch 2 --json
    """
    found = Run.open(run)
    view = view_from(found, **history)
    corpus = corpus_of(found, manifest)
    busy: Busy | None = None
    try:
        with opened(found, manifest, QUICK_SECONDS) as book:
            whole = book.step(number, view)
    except Busy as error:
        busy = error
        deriver = None if corpus is None else Deriver(found, corpus)
        whole = step_from_journals(found, view, number, deriver)
    rows, texts = named(corpus, whole.rows, show=show, most=None if as_json else limit)
    answer(
        as_json,
        {"command": "step", "step": number, **view_json(view)},
        rows,
        title=_step_title(number, whole),
        columns=SEGMENT_TABLE,
        texts=texts,
        limit=limit,
        extra={"deliveries": whole.deliveries},
    )
    if busy is not None:
        raise busy


def _step_title(number: int, whole: StepAnswer) -> str:
    """Return the title, with the ranks that are missing, if any."""
    short = [
        f"piece {one.piece}: {one.ranks} of {one.dp_size} ranks, missing "
        + ", ".join(str(rank) for rank in one.missing_ranks[:8])
        + (", …" if len(one.missing_ranks) > 8 else "")
        for one in whole.deliveries
        if not one.complete
    ]
    return "; ".join([f"step {number}", *(["INCOMPLETE"] if short else []), *short])


@ledger.command()
@click.argument("span", nargs=-1, required=True, metavar="FIRST..LAST")
@click.option("--documents", is_flag=True, help="List the documents of all steps, once each.")
@limit_option
@ledger_options
def steps(
    *,
    span: tuple[str, ...],
    documents: bool,
    limit: int,
    run: Path,
    manifest: Path | None,
    as_json: bool,
    **history: Any,
) -> None:
    """Show steps FIRST to LAST, both included, or the documents that fed them.

    \b
    Examples:
      shardward ledger steps 41230..41240 --run runs/7b
      shardward ledger steps 41230..41240 --documents --run runs/7b --json
    """
    first, last = step_range(span)
    found = Run.open(run)
    view = view_from(found, **history)
    with opened(found, manifest) as book:
        if documents:
            rows = book.window_documents(first, last, view)
        else:
            rows = book.steps(first, last, view)
    if documents:
        rows, _ = named(corpus_of(found, manifest), rows, show=False)
    answer(
        as_json,
        {
            "command": "steps",
            "first": first,
            "last": last,
            "documents": documents,
            **view_json(view),
        },
        rows,
        title=f"steps {first} to {last}",
        columns=None if documents else STEP_TABLE,
        limit=limit,
    )


@ledger.command()
@click.argument("docs", nargs=-1, required=True)
@click.option("--id", "by_id", is_flag=True, help="DOCS are the corpus's own ids, digits or not.")
@show_option
@limit_option
@ledger_options
def doc(
    *,
    docs: tuple[str, ...],
    by_id: bool,
    show: bool,
    limit: int,
    run: Path,
    manifest: Path | None,
    as_json: bool,
    **history: Any,
) -> None:
    """Show every step that documents DOCS fed.

    DOCS are ordinals, or the corpus's own ids, which are looked up in its id column. Exit 1 if the
    corpus has no such document.

    \b
    Examples:
      shardward ledger doc 123456 --run runs/7b
      shardward ledger doc 123456 123457 --run runs/7b --all --json
      shardward ledger doc wiki-en-8812 --run runs/7b
      shardward ledger doc 8812 --id --run runs/7b
    """
    found = Run.open(run)
    view = view_from(found, **history)
    ordinals = ordinals_of(found, manifest, docs, by_id=by_id)
    corpus = corpus_of(found, manifest)
    check_documents(corpus, ordinals)
    with opened(found, manifest) as book:
        rows = book.document_steps(ordinals, view)
    if not rows.num_rows:
        say("these documents fed no step of this history")
    rows, texts = named(corpus, rows, show=show, most=None if as_json else limit)
    answer(
        as_json,
        {"command": "doc", "docs": ordinals, **view_json(view)},
        rows,
        title="documents and their steps",
        columns=("doc", "step", *(name for name in SEGMENT_TABLE if name != "doc")),
        texts=texts,
        limit=limit,
    )


@ledger.command()
@click.argument("uri")
@limit_option
@ledger_options
def shard(
    *,
    uri: str,
    limit: int,
    run: Path,
    manifest: Path | None,
    as_json: bool,
    **history: Any,
) -> None:
    """Show the steps that the shard URI fed (its name, or how that ends).

    \b
    Examples:
      shardward ledger shard part-00017.parquet --run runs/7b
    """
    found = Run.open(run)
    view = view_from(found, **history)
    with opened(found, manifest) as book:
        rows = book.shard_steps(uri, view)
    answer(
        as_json,
        {"command": "shard", "shard": uri, **view_json(view)},
        rows,
        title=f"steps fed by {uri}",
        limit=limit,
    )


@ledger.command()
@click.argument("name")
@limit_option
@ledger_options
def source(
    *,
    name: str,
    limit: int,
    run: Path,
    manifest: Path | None,
    as_json: bool,
    **history: Any,
) -> None:
    """Show the steps that the source NAME fed.

    \b
    Examples:
      shardward ledger source wikipedia --run runs/7b
    """
    found = Run.open(run)
    view = view_from(found, **history)
    with opened(found, manifest) as book:
        rows = book.source_steps(name, view)
    answer(
        as_json,
        {"command": "source", "source": name, **view_json(view)},
        rows,
        title=f"steps fed by {name}",
        limit=limit,
    )


@ledger.command()
@ledger_options
def check(*, run: Path, manifest: Path | None, as_json: bool, **history: Any) -> None:
    """Look for samples delivered twice or not at all, gaps, disagreements and damage.

    Exit 5 if the record cannot be trusted as it is: also if a journal is missing, cut or garbage,
    or if a rank never recorded a step that a later piece went on from. Notes do not count, such as
    steps that some ranks have not recorded yet, or a journal's torn tail.

    \b
    Examples:
      shardward ledger check --run runs/7b
      shardward ledger check --run runs/7b --branch 2 --json
    """
    found = Run.open(run)
    view = view_from(found, **history)
    with opened(found, manifest) as book:
        problems = book.check(view)
        last = book.last_step(view)
    serious = [problem for problem in problems if problem.serious]

    def render(console: Console) -> None:
        rows = [
            (item.kind, "problem" if item.serious else "note", item.step, item.message)
            for item in problems
        ]
        if rows:
            console.print(table("", ("kind", "weight", "step", "what"), rows))
        console.print(
            f"{last} steps, {len(serious)} problems, {len(problems) - len(serious)} notes"
        )

    payload = {"question": {"command": "check", **view_json(view)}, "steps": last}
    emit(as_json, {**payload, "ok": not serious, "problems": problems}, render)
    if serious:
        raise IntegrityError(serious[0].message)


@ledger.command()
@click.argument("query")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True, max=86400),
    default=60,
    show_default=True,
    help="Seconds after which the query is stopped.",
)
@limit_option
@run_option
@json_option
def sql(*, query: str, timeout: float, limit: int, run: Path, as_json: bool) -> None:
    """Answer one SELECT over the ledger's tables and views; nothing can be changed.

    A table fetches --limit rows; --json prints all, so say LIMIT where there may be millions, or
    write them to a file with `shardward ledger export`.

    Views: step_documents, document_steps, effective_steps, telemetry, telemetry_wide, and
    all_step_documents, all_steps for every branch.

    \b
    Examples:
      shardward ledger sql "SELECT step, loss FROM telemetry_wide WHERE loss > 4" --run runs/7b
    """
    with opened(Run.open(run), None) as book, ended_at_once():
        rows = book.sql(query, most=None if as_json else limit + 1, seconds=timeout)
    answer(as_json, {"command": "sql", "query": query}, rows, title="", limit=limit, cut=True)


for command in (
    sample,
    diff,
    timeline,
    verify,
    export,
    stats,
    ingest,
    rebuild,
    publish,
    mirror,
):
    ledger.add_command(command)
