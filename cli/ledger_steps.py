"""The `ledger` commands about steps: one of them, or a stretch."""

from __future__ import annotations

import click
import pyarrow as pa

from ..loader.errors import Busy
from ..quarantine.ledger.derive import Deriver
from ..quarantine.ledger.step_answer import StepAnswer, step_from_journals
from .ledger_answer import SEGMENT_TABLE, answer, named
from .ledger_options import (
    QUICK_SECONDS,
    Asked,
    asks,
    limit_option,
    show_option,
    step_range,
)
from .numbers import COUNT
from .output import say

STEP_TABLE = (
    "step",
    "piece",
    "time",
    "ranks",
    "completed",
    "epoch",
    "positions",
    "samples",
    "segments",
    "revision",
)


@click.command()
@click.argument("number", type=COUNT)
@show_option
@limit_option
@asks
def step(*, asked: Asked, number: int, show: bool, limit: int) -> None:
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
    corpus = asked.corpus()
    busy: Busy | None = None
    try:
        with asked.opened(QUICK_SECONDS) as book:
            whole = book.step(number, asked.view)
    except Busy as error:
        busy = error
        deriver = None if corpus is None else Deriver(asked.run, corpus)
        whole = step_from_journals(asked.run, asked.view, number, deriver)
    rows, texts = named(corpus, whole.rows, show=show, most=asked.printed_rows(limit))
    answer(
        asked.as_json,
        asked.question("step", step=number),
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


@click.command()
@click.argument("span", nargs=-1, required=True, metavar="FIRST..LAST")
@click.option("--documents", is_flag=True, help="List the documents of all steps, once each.")
@limit_option
@asks
def steps(*, asked: Asked, span: tuple[str, ...], documents: bool, limit: int) -> None:
    """Show steps FIRST to LAST, both included, or the documents that fed them.

    \b
    Examples:
      shardward ledger steps 41230..41240 --run runs/7b
      shardward ledger steps 41230..41240 --documents --run runs/7b --json
    """
    first, last = step_range(span)
    with asked.opened() as book:
        ask = book.window_documents if documents else book.steps
        rows = ask(first, last, asked.view)
        reached = book.last_step(asked.view)
        lost = book.losses(asked.view)
    if not rows.num_rows:
        unless = "; whether its journals once had one is not known" if lost else ""
        reach = f"its last is {reached}{unless}"
        say(f"no step of {first} to {last} is recorded in this history, {reach}")
    if documents:
        rows, _ = named(asked.corpus(), rows, show=False)
    answer(
        asked.as_json,
        asked.question("steps", first=first, last=last, documents=documents),
        rows if asked.as_json or documents else _compact(rows),
        title=f"documents of steps {first} to {last}" if documents else f"steps {first} to {last}",
        columns=None if documents else STEP_TABLE,
        limit=limit,
    )


def _compact(rows: pa.Table) -> pa.Table:
    """Return the rows of steps with the columns of `STEP_TABLE`, ranks as 7/8 and so on."""
    steps = [
        {
            **row,
            "time": f"{row['time']:%Y-%m-%d %H:%M:%S}",
            "ranks": f"{row['ranks']}/{row['dp_size']}",
            "completed": "yes"
            if row["completed"]
            else f"{row['completed_ranks']}/{row['dp_size']}",
            "positions": f"{row['first_position']}..{row['end_position'] - 1}",
        }
        for row in rows.to_pylist()
    ]
    return pa.Table.from_pylist(steps) if steps else rows
