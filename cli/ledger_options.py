"""What the `ledger` commands share: the history asked about, the opened ledger, the printing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import pyarrow as pa
from rich.console import Console

from ..loader.errors import NotFound, ShardwardError, UsageError
from ..loader.manifest import Manifest
from ..loader.run import Run
from ..quarantine.ledger import ALL, EFFECTIVE, Ledger, View, at_checkpoint
from ..quarantine.ledger.names import Excerpt, excerpts, load_corpus, with_names
from .output import clean, emit, json_option, manifest_option, progress, run_option, say, table

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00")

Command = TypeVar("Command", bound=Callable[..., Any])

QUICK_SECONDS = 0.25
"""How long a question about single steps lets the ingest run before it is answered."""

SHOWN_ROWS = 40

SEGMENT_TABLE = (
    "piece",
    "rank",
    "sample_position",
    "doc",
    "token_start",
    "token_end",
    "shard",
    "row",
    "source",
)
limit_option = click.option(
    "--limit", type=int, default=SHOWN_ROWS, show_default=True, help="Rows of the table."
)
show_option = click.option("--show", is_flag=True, help="Print the texts with the span marked.")


def history_options(command: Command) -> Command:
    """Add `--effective`, `--branch`, `--all` and `--at` as the parameters of `view_from`."""
    command = click.option(
        "--at", default=None, metavar="[PIECE:]STEP", help="The history of this checkpoint."
    )(command)
    command = click.option(
        "--all", "everything", is_flag=True, help="Every branch, superseded and trial ones too."
    )(command)
    command = click.option(
        "--branch", type=int, default=None, metavar="PIECE", help="The history of this piece."
    )(command)
    return click.option(
        "--effective", is_flag=True, help="The history of the run's head; the default."
    )(command)


def ledger_options(command: Command) -> Command:
    """Add the options of every question: run, manifest, history and `--json`."""
    return run_option(manifest_option(history_options(json_option(command))))


def view_from(
    run: Run, *, effective: bool, branch: int | None, everything: bool, at: str | None
) -> View:
    """Return the history that the options name.

    Raises:
        UsageError: more than one is named.
    """
    if effective + (branch is not None) + everything + (at is not None) > 1:
        raise UsageError("--effective, --branch, --all and --at exclude each other; give one")
    if everything:
        return ALL
    if at is not None:
        return at_checkpoint(run, at)
    return EFFECTIVE if branch is None else View(piece=branch)


def view_json(view: View) -> dict[str, Any]:
    """Return the history as JSON."""
    name = "all" if view.everything else "effective" if view.piece is None else "branch"
    return {"history": name, "branch": view.piece, "until": view.step}


@contextmanager
def opened(run: Run, manifest: Path | None, seconds: float | None = None) -> Iterator[Ledger]:
    """Open the run's ledger, showing on stderr what is read and what was repaired."""
    unread = sum(path.stat().st_size for path in run.journals())
    if seconds is None and unread > 64 << 20:
        with (
            progress("reading journals (bytes)") as advance,
            Ledger.open(run, manifest=manifest, advance=advance) as ledger,
        ):
            yield _announced(ledger)
    else:
        with Ledger.open(run, manifest=manifest, ingest_seconds=seconds) as ledger:
            yield _announced(ledger)


def _announced(ledger: Ledger) -> Ledger:
    for notice in ledger.notices:
        say(notice)
    return ledger


def corpus_of(run: Run, manifest: Path | None) -> Manifest | None:
    """Return the run's manifest, or None with a word on stderr when it cannot be used.

    Raises:
        ShardwardError: a manifest was named and cannot be used.
    """
    try:
        return load_corpus(run, manifest)
    except ShardwardError as error:
        if manifest is not None:
            raise
        say(f"documents have no names: {error}")
        return None


def named(
    corpus: Manifest | None, rows: pa.Table, *, show: bool
) -> tuple[pa.Table, list[Excerpt | None]]:
    """Return `rows` with names, and the texts of their spans when they are to be shown.

    Raises:
        NotFound: texts were asked for and there is no manifest.
    """
    if not show:
        return with_names(corpus, rows), []
    if corpus is None:
        raise NotFound("there is no manifest to read texts with; give it with --manifest")
    return with_names(corpus, rows), excerpts(corpus, rows)


def answer(
    as_json: bool,
    question: Mapping[str, Any],
    rows: pa.Table,
    *,
    title: str,
    columns: Sequence[str] | None = None,
    texts: Sequence[Excerpt | None] = (),
    limit: int = SHOWN_ROWS,
) -> None:
    """Print rows as the JSON answer of `ledger-answer.v1.json`, or as a table.

    Args:
        as_json: print JSON.
        question: what was asked, part of the JSON.
        rows: the answer.
        title: of the table.
        columns: those of the table, by default all; the JSON has all.
        texts: one excerpt per row, printed below the table.
        limit: rows printed; the JSON has all.
    """
    found = rows.to_pylist()
    for row, text in zip(found, texts, strict=False):
        row["text"] = None if text is None else text
    payload = {"question": dict(question), "count": rows.num_rows, "rows": found}

    def render(console: Console) -> None:
        shown = [name for name in (columns or rows.column_names) if name in rows.column_names]
        cells = [[_cell(row[name]) for name in shown] for row in found[:limit]]
        console.print(table(title, shown, cells))
        if rows.num_rows > limit:
            console.print(f"{rows.num_rows - limit} more rows; --json or --limit shows them")
        for row, text in list(zip(found, texts, strict=False))[:limit]:
            _print_text(console, row, text)

    emit(as_json, payload, render)


def _print_text(console: Console, row: Mapping[str, Any], text: Excerpt | None) -> None:
    span = f"tokens {row['token_start']} to {row['token_end']}"
    console.print(f"\ndocument {row['doc']}, {span}", style="bold")
    if text is None:
        console.print("not in the corpus")
        return
    console.print(clean(text.before, limit=200), style="dim", end="")
    console.print(clean(text.span, limit=1000), style="reverse", end="")
    console.print(clean(text.after, limit=200), style="dim")


def _cell(value: object) -> object:
    if isinstance(value, str) and _TIME.fullmatch(value):
        return value[:19]
    return value.hex() if isinstance(value, bytes) else value


def step_range(words: tuple[str, ...]) -> tuple[int, int]:
    """Return the two ends of `FIRST..LAST`, `FIRST LAST`, or one step.

    Raises:
        UsageError: it is none of these.
    """
    parts = words[0].split("..") if len(words) == 1 else list(words)
    if len(parts) == 1:
        parts *= 2
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise UsageError(f"{' '.join(words)!r} is no range of steps; write FIRST..LAST")
    first, last = int(parts[0]), int(parts[1])
    if not 1 <= first <= last:
        raise UsageError(f"steps {first} to {last} are no range; the first step is 1")
    return first, last
