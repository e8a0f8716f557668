"""What the `ledger` commands share: the history asked about, the opened ledger, the printing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import pyarrow as pa
from rich.console import Console

from ..loader.errors import IntegrityError, NotFound, ShardwardError, UsageError
from ..loader.manifest import Manifest
from ..loader.records import finite_json
from ..loader.run import Run
from ..quarantine.ledger import ALL, EFFECTIVE, Ledger, View, at_checkpoint
from ..quarantine.ledger.check import Problem
from ..quarantine.ledger.names import Excerpt, excerpts, find_ids, load_corpus, with_names
from ..quarantine.ledger.stoppable import Unstoppable
from .output import (
    SCHEMA_VERSION,
    clean,
    emit,
    json_option,
    json_text,
    manifest_option,
    progress,
    run_option,
    say,
    table,
)

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
LARGEST = (1 << 63) - 1
"""The largest step, position or document that the formats can hold."""

ROWS_AT_ONCE = 4096
EXIT_INTERRUPTED = 130
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=SHOWN_ROWS,
    show_default=True,
    help="Rows of the table.",
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
        "--branch",
        type=click.IntRange(min=1, max=LARGEST),
        default=None,
        metavar="PIECE",
        help="The history of this piece.",
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


def ordinals_of(run: Run, manifest: Path | None, words: Sequence[str], *, by_id: bool) -> list[int]:
    """Return the ordinals that `words` name: digits, or else ids of the corpus.

    Raises:
        UsageError: an ordinal is over 2^63 - 1, or the corpus has no id column.
        NotFound: there is no manifest to look ids up in, or no document has one of them.
    """
    digits = [word for word in words if not by_id and word.isascii() and word.isdigit()]
    ids = [word for word in words if word not in digits]
    for word in digits:
        if len(word) > len(str(LARGEST)) or int(word) > LARGEST:
            raise UsageError(f"document {word[:40]} is over the largest ordinal, 2^63 - 1")
    ordinals = [int(word) for word in digits]
    if ids:
        corpus = load_corpus(run, manifest)
        with progress("looking ids up (blocks)", corpus.header.blocks) as advance:
            ordinals += find_ids(corpus, ids, advance)
    return ordinals


def check_documents(corpus: Manifest | None, ordinals: Sequence[int]) -> None:
    """Refuse ordinals that the corpus does not reach to; without a manifest nobody knows.

    Raises:
        NotFound: the corpus has fewer documents.
    """
    if corpus is None or not ordinals or max(ordinals) < corpus.header.documents:
        return
    raise NotFound(
        f"there is no document {max(ordinals)}, the corpus has {corpus.header.documents}; "
        "the first is 0"
    )


def fail_on(problems: Sequence[Problem]) -> None:
    """Raise for the first serious problem, with the number of those behind it.

    Raises:
        IntegrityError: there is one.
    """
    serious = [problem.message for problem in problems if problem.serious]
    if serious:
        more = f" (and {len(serious) - 1} more)" if len(serious) > 1 else ""
        raise IntegrityError(f"{serious[0]}{more}; see `shardward ledger check`")


@contextmanager
def ended_at_once() -> Iterator[None]:
    """End the process when a query goes on although it was stopped.

    Closing the ledger would wait for the query. Nothing is lost: it only read, and what was
    ingested before it is committed.
    """
    try:
        yield
    except Unstoppable as error:
        say(f"error: {error}")
        sys.stdout.flush()
        os._exit(EXIT_INTERRUPTED if error.interrupted else error.exit_code)


def named(
    corpus: Manifest | None, rows: pa.Table, *, show: bool, most: int | None = None
) -> tuple[pa.Table, list[Excerpt | None]]:
    """Return `rows` with names, and the texts of the first `most` when they are to be shown.

    Raises:
        NotFound: texts were asked for and there is no manifest.
    """
    if not show:
        return with_names(corpus, rows), []
    if corpus is None:
        raise NotFound("there is no manifest to read texts with; give it with --manifest")
    shown = rows if most is None else rows.slice(0, most)
    return with_names(corpus, rows), excerpts(corpus, shown)


def answer(
    as_json: bool,
    question: Mapping[str, Any],
    rows: pa.Table,
    *,
    title: str,
    columns: Sequence[str] | None = None,
    texts: Sequence[Excerpt | None] = (),
    limit: int = SHOWN_ROWS,
    extra: Mapping[str, Any] | None = None,
    cut: bool = False,
) -> None:
    """Print rows as the JSON answer of `ledger-answer.v1.json`, or as a table.

    Rows become Python objects a few thousand at a time, and for a table only those that it shows.

    Args:
        as_json: print JSON.
        question: what was asked, part of the JSON.
        rows: the answer.
        title: of the table.
        columns: those of the table, by default all; the JSON has all.
        texts: one excerpt per row, printed below the table.
        limit: rows printed; the JSON has all.
        extra: more about the answer, for the JSON.
        cut: there are more rows than `rows` has.
    """
    if as_json:
        _print_json({"question": dict(question), **(extra or {})}, rows, texts)
        return

    def render(console: Console) -> None:
        shown = [name for name in (columns or rows.column_names) if name in rows.column_names]
        found = rows.slice(0, limit).to_pylist()
        console.print(table(title, shown, [[_cell(row[name]) for name in shown] for row in found]))
        if rows.num_rows > limit:
            number = "" if cut else f"{rows.num_rows - limit} "
            console.print(f"{number}more rows; --json or --limit shows them")
        for row, text in zip(found, texts, strict=False):
            _print_text(console, row, text)

    emit(False, {}, render)


def _print_json(head: Mapping[str, Any], rows: pa.Table, texts: Sequence[Excerpt | None]) -> None:
    payload = {"schema_version": SCHEMA_VERSION, **head, "count": rows.num_rows}
    click.echo(json_text(payload).removesuffix("\n}"), nl=False)
    click.echo(',\n  "rows": [', nl=False)
    for first in range(0, rows.num_rows, ROWS_AT_ONCE):
        found = rows.slice(first, ROWS_AT_ONCE).to_pylist()
        for row, text in zip(found, texts[first : first + ROWS_AT_ONCE], strict=False):
            row["text"] = text
        # NaN is a value that was recorded, null is none, so they must not look alike.
        parts = [json_text(finite_json(row)).replace("\n", "\n    ") for row in found]
        click.echo(",\n    ".join(["," * bool(first) + "\n    " + parts[0], *parts[1:]]), nl=False)
    click.echo("\n  ]\n}" if rows.num_rows else "]\n}")


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
    if not 1 <= first <= last <= LARGEST:
        raise UsageError(f"steps {first} to {last} are no range; the first step is 1")
    return first, last
