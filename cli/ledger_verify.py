"""`ledger verify`: is the corpus still what the run was fed?"""

from __future__ import annotations

import click
from rich.console import Console

from ..loader.errors import IntegrityError
from ..quarantine.ledger.as_found import ChangedDocument
from .ledger_options import Asked, asks, fail_on, step_range
from .output import emit, progress, table

VERIFY_TABLE = ("step", "piece", "rank", "document", "shard", "row", "which")


@click.command()
@click.option("--steps", default=None, metavar="FIRST..LAST", help="Only these steps.")
@click.option("--keep-going", is_flag=True, help="List every difference, not only the first.")
@asks
def verify(*, asked: Asked, steps: str | None, keep_going: bool) -> None:
    """Read the corpus again and compare it with the digests recorded in training.

    Exit 5 if a step's documents are no longer what they were, naming the first step and document,
    or if a journal is missing, cut or garbage, so that steps could not be compared. A document
    whose length changed is named for certain; of those that kept it, all that the step was fed
    from the changed block may be the one, and their number is given.

    \b
    Examples:
      shardward ledger verify --run runs/7b --steps 41200..41300
      shardward ledger verify --run runs/7b --keep-going --json
    """
    first, last = (1, None) if steps is None else step_range((steps,))
    with asked.opened() as book, progress("verifying steps") as advance:
        result = book.verify(
            asked.view,
            first=first,
            last=last,
            stop_after=1 << 62 if keep_going else 1,
            advance=advance,
        )
        damage = book.journal_problems()

    def render(console: Console) -> None:
        rows = [(d.step, d.piece, d.rank, *_document_cells(d.document)) for d in result.differences]
        if rows:
            console.print(table("", VERIFY_TABLE, rows))
        console.print(f"{result.records} records compared, {len(rows)} differ")

    emit(asked.as_json, {"question": asked.question("verify"), "report": result}, render)
    if result.differences:
        raise IntegrityError(str(result.differences[0]))
    fail_on(damage)


def _document_cells(first: ChangedDocument | None) -> tuple[object, ...]:
    if first is None:
        return (None, None, None, "every document is what was indexed")
    which = "certain" if first.among == 1 else f"one of {first.among} documents, the first"
    return (first.doc, first.shard, first.row, which)
