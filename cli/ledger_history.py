"""The `ledger` commands about the run as a whole: two histories, the timeline, its health, SQL."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa
from rich.console import Console

from ..loader.errors import IntegrityError
from ..loader.run import Run
from .ledger_answer import answer
from .ledger_options import Asked, asks, ended_at_once, limit_option, opened
from .numbers import COUNT, Finite
from .output import emit, json_option, run_option, say, table

TIMELINE_TABLE = (
    "piece",
    "reason",
    "from",
    "steps",
    "kept_until",
    "incomplete",
    "ranks",
    "revision",
    "created",
)


@click.command()
@click.argument("piece", type=COUNT)
@click.argument("other", type=COUNT)
@limit_option
@run_option
@json_option
def diff(*, piece: int, other: int, limit: int, run: Path, as_json: bool) -> None:
    """Show the steps that the histories of PIECE and OTHER fed differently.

    Steps that both share, or that only one of them reached, are not listed.

    \b
    Examples:
      shardward ledger diff 1 3 --run runs/7b
    """
    with opened(Run.open(run), None) as book:
        rows = book.diff(piece, other)
    if not rows.num_rows:
        say(f"pieces {piece} and {other} fed every step that both have alike")
    answer(
        as_json,
        {"command": "diff", "piece": piece, "other": other},
        rows,
        title=f"steps that differ between the histories of pieces {piece} and {other}",
        limit=limit,
    )


@click.command()
@limit_option
@run_option
@json_option
def timeline(*, limit: int, run: Path, as_json: bool) -> None:
    """Show the branch pieces of a run: starts, restarts, rewinds and trials.

    `from` is the piece and step that a piece went on from, as --at takes it; `kept_until` the
    last of its steps that is still in the history of the head.

    \b
    Examples:
      shardward ledger timeline --run runs/7b
    """
    with opened(Run.open(run), None) as book:
        rows = book.timeline()
    answer(
        as_json,
        {"command": "timeline"},
        rows if as_json else _compact(rows),
        title="branch pieces",
        columns=TIMELINE_TABLE,
        limit=limit,
    )


def _compact(rows: pa.Table) -> pa.Table:
    """Return the pieces with the columns of `TIMELINE_TABLE`; `from` is what --at takes."""
    pieces = [
        {
            **row,
            "from": None if row["parent"] is None else f"{row['parent']}:{row['fork_step']}",
            "steps": "none" if row["first_step"] is None
            else f"{row['first_step']}..{row['last_step']}",
            "kept_until": "-" if row["kept_until"] is None else str(row["kept_until"]),
            "ranks": row["dp_size"],
        }
        for row in rows.to_pylist()
    ]  # fmt: skip
    return pa.Table.from_pylist(pieces) if pieces else rows


@click.command()
@asks
def check(*, asked: Asked) -> None:
    """Look for samples delivered twice or not at all, gaps, disagreements and damage.

    Exit 5 if the record cannot be trusted as it is: also if a journal is missing, cut or garbage,
    or if a rank never recorded a step that a later piece went on from. Notes do not count, such as
    steps that some ranks have not recorded yet, or a journal's torn tail.

    \b
    Examples:
      shardward ledger check --run runs/7b
      shardward ledger check --run runs/7b --branch 2 --json
    """
    with asked.opened() as book:
        problems = book.check(asked.view)
        last = book.last_step(asked.view)
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

    payload = {"question": asked.question("check"), "steps": last}
    emit(asked.as_json, {**payload, "ok": not serious, "problems": problems}, render)
    if serious:
        raise IntegrityError(serious[0].message)


@click.command()
@click.argument("query")
@click.option(
    "--timeout",
    type=Finite(min=0, min_open=True, max=86400),
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
    write them to a file with `shardward ledger export`. Rows that are too wide for a table are
    printed below each other, a column a line.

    Views: step_documents, document_steps, effective_steps, telemetry, telemetry_wide, and
    all_step_documents, all_steps for every branch.

    \b
    Examples:
      shardward ledger sql "SELECT step, loss FROM telemetry_wide WHERE loss > 4" --run runs/7b
    """
    with opened(Run.open(run), None) as book, ended_at_once():
        rows = book.sql(query, most=None if as_json else limit + 1, seconds=timeout)
    answer(as_json, {"command": "sql", "query": query}, rows, title="", limit=limit, typed=True)
