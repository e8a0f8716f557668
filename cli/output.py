"""What every command shares: tables or JSON on stdout, progress on stderr, the common options."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import date
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

SCHEMA_VERSION = 1
"""The version of every `--json` object; a field may be added, none changes its meaning."""

PIPE_WIDTH = 120
"""Columns of a table when stdout is not a terminal and COLUMNS is not set."""

MOST_MESSAGE = 4000
"""Characters of one line of a message."""

PIECES = 4096
"""Pieces of JSON, names and values for the most part, that are printed at once."""

ENCODER = json.JSONEncoder(indent=2, allow_nan=False)

Command = TypeVar("Command", bound=Callable[..., Any])


class Advance(Protocol):
    """Reports `n` more units of work done and, optionally, a word about them."""

    def __call__(self, n: int = 1, note: str = "") -> None: ...


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that never interprets document text as markup.

    `NO_COLOR` and `TERM=dumb` are honoured by rich itself.
    """
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def emit(
    as_json: bool, payload: Mapping[str, Any], render: Callable[[Console], None] | None = None
) -> None:
    """Print `payload` as one JSON object, or call `render` with the console of stdout.

    An iterator in it becomes a list, whose values are printed as they come.
    """
    if as_json or render is None:
        pieces = ENCODER.iterencode(_plain({"schema_version": SCHEMA_VERSION, **payload}))
        while some := "".join(islice(pieces, PIECES)):
            click.echo(some, nl=False)
        click.echo()
    else:
        render(console())


def json_text(value: object) -> str:
    """Return `value` as indented ASCII JSON; numbers that are not finite become null."""
    return ENCODER.encode(_plain(value))


def _plain(value: Any) -> Any:
    """Turn paths, dates, dataclasses and numpy values into what JSON knows."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, bytes):
        return value.hex()
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    if isinstance(value, Iterator):
        return _Passing(map(_plain, value))
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _plain(value.tolist())
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, date) else str(value)


class _Passing(list[Any]):
    """A list for the encoder, which asks once whether it is empty and then once for its values."""

    def __init__(self, values: Iterator[Any]) -> None:
        super().__init__(islice(values, 1))
        self._values = chain(self[:], values)

    def __iter__(self) -> Iterator[Any]:
        return self._values


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a rich table; columns whose every cell is a number are right-aligned.

    Cells pass through `clean`, so hostile text cannot move the cursor or forge a row.
    """
    result = Table(title=title or None, title_justify="left", header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        result.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        result.add_row(*(_cell(value) for value in row))
    return result


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else clean(str(value), limit=400)


def clean(text: str, *, limit: int = 80) -> str:
    """Return `text` on one printable line of at most `limit` characters."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "replace").decode()
        for char in cut
    )


def clean_lines(text: str, *, limit: int = MOST_MESSAGE) -> str:
    """Return `text` with its line ends, and every other character that does not print spelled out.

    Messages quote file names and what other programs said; neither may steer the terminal.
    """
    return "\n".join(clean(line, limit=limit) for line in text.split("\n"))


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Advance]:
    """Show work on stderr while the block runs: a bar on a terminal, else a line now and then.

    Args:
        description: what is being done.
        total: units of work, or None when it is not known.
    """
    if sys.stderr.isatty():
        with _bar(description, total) as advance:
            yield advance
    else:
        with _lines(description, total) as advance:
            yield advance


@contextmanager
def _bar(description: str, total: int | None) -> Iterator[Advance]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(n: int = 1, note: str = "") -> None:
            bar.advance(task, n)
            if note:
                bar.update(task, note=clean(note))

        yield advance


@contextmanager
def _lines(description: str, total: int | None, every: float = 5.0) -> Iterator[Advance]:
    started = last = time.monotonic()
    done = 0

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal done, last
        done += n
        if time.monotonic() - last >= every:
            last = time.monotonic()
            say(f"{description}: {done}/{total or '?'} {note}".rstrip())

    yield advance
    say(f"{description}: {done} done in {time.monotonic() - started:.1f} s")


def say(line: str) -> None:
    """Print one line about what happens on stderr."""
    click.echo(clean_lines(line), err=True)


def json_option(command: Command) -> Command:
    """Add `--json` as the parameter `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object instead of a table."
    )(command)


def run_option(command: Command) -> Command:
    """Add `--run DIR` as the parameter `run`."""
    return click.option(
        "--run",
        envvar="SHARDWARD_RUN",
        default=".",
        show_default="the current directory",
        show_envvar=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="Run directory.",
    )(command)


def manifest_option(command: Command) -> Command:
    """Add `--manifest DIR` as the parameter `manifest` (None when it is not given)."""
    return click.option(
        "--manifest",
        envvar="SHARDWARD_MANIFEST",
        default=None,
        show_envvar=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="Corpus manifest directory.",
    )(command)


def mutation_options(command: Command) -> Command:
    """Add `--yes` and `--dry-run` as the parameters `yes` and `dry_run`.

    A command changes something only with `--yes` and without `--dry-run`: see `acts`.
    """
    command = click.option("--dry-run", is_flag=True, help="Show what would happen; the default.")(
        command
    )
    return click.option("--yes", is_flag=True, help="Do it.")(command)


def acts(*, yes: bool, dry_run: bool) -> bool:
    """Return whether a command may change something."""
    return yes and not dry_run
