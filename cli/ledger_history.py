"""The `ledger` commands about the run as a whole: one sample, two histories, the timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..loader.run import Run
from ..quarantine.ledger.history import epochs_run
from ..quarantine.ledger.names import Excerpt
from .ledger_options import (
    LARGEST,
    SEGMENT_TABLE,
    answer,
    corpus_of,
    ledger_options,
    limit_option,
    named,
    opened,
    show_option,
    view_from,
    view_json,
)
from .output import json_option, run_option, say

TIMELINE_TABLE = (
    "piece",
    "reason",
    "parent",
    "fork_step",
    "first_step",
    "last_step",
    "kept_until",
    "revision",
    "created",
)


@click.command()
@click.argument("position", type=click.IntRange(min=0, max=LARGEST))
@click.option(
    "--epoch",
    type=click.IntRange(min=0, max=LARGEST),
    default=0,
    show_default=True,
    help="Epoch.",
)
@show_option
@limit_option
@ledger_options
def sample(
    *,
    position: int,
    epoch: int,
    show: bool,
    limit: int,
    run: Path,
    manifest: Path | None,
    as_json: bool,
    **history: Any,
) -> None:
    """Show what was delivered at sample POSITION of an epoch, and at which step.

    \b
    Examples:
      shardward ledger sample 1048576 --run runs/7b --show
    """
    found = Run.open(run)
    view = view_from(found, **history)
    with opened(found, manifest) as book:
        rows = book.sample(position, epoch, view)
        epochs = [] if rows.num_rows else epochs_run(book.database, book.spans(view))
    if not rows.num_rows:
        ran = ", ".join(map(str, epochs)) or "none"
        never = "" if epoch in epochs else f"; epoch {epoch} was never run, the epochs are: {ran}"
        say(f"position {position} of epoch {epoch} was not delivered in this history{never}")
    filled = rows.num_rows > 0 and rows["doc"].null_count == 0
    texts: list[Excerpt | None] = []
    if filled:
        rows, texts = named(
            corpus_of(found, manifest), rows, show=show, most=None if as_json else limit
        )
    answer(
        as_json,
        {"command": "sample", "position": position, "epoch": epoch, **view_json(view)},
        rows,
        title=f"position {position} of epoch {epoch}",
        columns=("step", *SEGMENT_TABLE),
        texts=texts,
        limit=limit,
    )


@click.command()
@click.argument("piece", type=click.IntRange(min=1, max=LARGEST))
@click.argument("other", type=click.IntRange(min=1, max=LARGEST))
@limit_option
@run_option
@json_option
def diff(*, piece: int, other: int, limit: int, run: Path, as_json: bool) -> None:
    """Show the steps that the histories of PIECE and OTHER fed differently.

    \b
    Examples:
      shardward ledger diff 1 3 --run runs/7b
    """
    with opened(Run.open(run), None) as book:
        rows = book.diff(piece, other)
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

    \b
    Examples:
      shardward ledger timeline --run runs/7b
    """
    with opened(Run.open(run), None) as book:
        rows = book.timeline()
    answer(
        as_json,
        {"command": "timeline"},
        rows,
        title="branch pieces",
        columns=TIMELINE_TABLE,
        limit=limit,
    )
