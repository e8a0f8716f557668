"""The `ledger` commands about what was fed: documents, samples, shards and sources."""

from __future__ import annotations

import click
import pyarrow as pa

from ..quarantine.ledger.names import Excerpt
from .ledger_answer import SEGMENT_TABLE, answer, named
from .ledger_options import (
    Asked,
    asks,
    check_documents,
    limit_option,
    ordinals_of,
    show_option,
)
from .numbers import WHOLE
from .output import say

_UNLESS = ", as far as its damaged journals can be read"


@click.command()
@click.argument("docs", nargs=-1, required=True)
@click.option("--id", "by_id", is_flag=True, help="DOCS are the corpus's own ids, digits or not.")
@show_option
@limit_option
@asks
def doc(*, asked: Asked, docs: tuple[str, ...], by_id: bool, show: bool, limit: int) -> None:
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
    ordinals = ordinals_of(asked.run, asked.manifest, docs, by_id=by_id)
    corpus = asked.corpus()
    check_documents(corpus, ordinals)
    with asked.opened() as book:
        rows = book.document_steps(ordinals, asked.view)
        lost = book.losses(asked.view)
    if not rows.num_rows:
        say(f"these documents fed no step of this history{_UNLESS if lost else ''}")
    rows, texts = named(corpus, rows, show=show, most=asked.printed_rows(limit))
    answer(
        asked.as_json,
        asked.question("doc", docs=ordinals),
        rows,
        title="documents and their steps",
        columns=("doc", "step", *(name for name in SEGMENT_TABLE if name != "doc")),
        texts=texts,
        limit=limit,
    )


@click.command()
@click.argument("position", type=WHOLE)
@click.option(
    "--epoch",
    type=WHOLE,
    default=0,
    show_default=True,
    help="Epoch.",
)
@show_option
@limit_option
@asks
def sample(*, asked: Asked, position: int, epoch: int, show: bool, limit: int) -> None:
    """Show what was delivered at sample POSITION of an epoch, and at which step.

    Exit 1 if the epoch was never run, or has no such position.

    \b
    Examples:
      shardward ledger sample 1048576 --run runs/7b --show
    """
    with asked.opened() as book:
        rows = book.sample(position, epoch, asked.view)
        lost = book.losses(asked.view)
    if not rows.num_rows:
        unless = _UNLESS if lost else ""
        say(f"position {position} of epoch {epoch} was not delivered in this history{unless}")
    texts: list[Excerpt | None] = []
    if rows.num_rows and not rows["doc"].null_count:
        rows, texts = named(asked.corpus(), rows, show=show, most=asked.printed_rows(limit))
    answer(
        asked.as_json,
        asked.question("sample", position=position, epoch=epoch),
        rows,
        title=f"position {position} of epoch {epoch}",
        columns=("step", *SEGMENT_TABLE),
        texts=texts,
        limit=limit,
    )


@click.command()
@click.argument("uri")
@limit_option
@asks
def shard(*, asked: Asked, uri: str, limit: int) -> None:
    """Show the steps that the shard URI fed (its name, or how that ends).

    \b
    Examples:
      shardward ledger shard part-00017.parquet --run runs/7b
    """
    with asked.opened() as book:
        rows = book.shard_steps(uri, asked.view)
        lost = book.losses(asked.view)
    _print_steps(asked, "shard", uri, rows, limit, lost=bool(lost))


@click.command()
@click.argument("name")
@limit_option
@asks
def source(*, asked: Asked, name: str, limit: int) -> None:
    """Show the steps that the source NAME fed.

    \b
    Examples:
      shardward ledger source wikipedia --run runs/7b
    """
    with asked.opened() as book:
        rows = book.source_steps(name, asked.view)
        lost = book.losses(asked.view)
    _print_steps(asked, "source", name, rows, limit, lost=bool(lost))


def _print_steps(
    asked: Asked, command: str, name: str, rows: pa.Table, limit: int, *, lost: bool
) -> None:
    if not rows.num_rows:
        say(f"{command} {name} fed no step of this history{_UNLESS if lost else ''}")
    answer(
        asked.as_json,
        asked.question(command, **{command: name}),
        rows,
        title=f"steps fed by {command} {name}",
        limit=limit,
    )
