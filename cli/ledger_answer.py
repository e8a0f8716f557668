"""How the `ledger` commands print an answer: a table, records where it is too wide, or JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click
import pyarrow as pa
from rich.console import Console

from ..loader.errors import NotFound
from ..loader.manifest import Manifest
from ..loader.records import finite_json
from ..quarantine.ledger.names import Excerpt, excerpts, with_names
from .output import SCHEMA_VERSION, clean, emit, json_text, table

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00")

SHOWN_ROWS = 40
ROWS_AT_ONCE = 4096
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
SPAN_MARKS = ("⟦", "⟧")
READABLE = 12
"""A column that has to be narrower, though its cells are longer, is no longer read with ease."""


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
    typed: bool = False,
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
        typed: of a query that someone typed: no more rows were fetched than tell that there are
            some, and columns may be too many for a table, which are then printed a line each.
    """
    if as_json:
        _print_json({"question": dict(question), **(extra or {})}, rows, texts)
        return

    def render(console: Console) -> None:
        shown = [name for name in (columns or rows.column_names) if name in rows.column_names]
        found = rows.slice(0, limit).to_pylist()
        cells = [[_cell(row[name]) for name in shown] for row in found]
        if not rows.num_rows:
            console.print("no rows")
        elif typed and not _fits(console.width, shown, cells):
            _print_records(console, shown, cells)
        else:
            console.print(table(title, shown, cells))
        if rows.num_rows > limit:
            number = "" if typed else f"{rows.num_rows - limit} "
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


def _fits(width: int, columns: Sequence[str], cells: Sequence[Sequence[object]]) -> bool:
    """Whether a table of `cells` can be read: no column is folded below `READABLE`."""
    widest = [
        max(len(name), *(len(str(row[index])) for row in cells), 0)
        for index, name in enumerate(columns)
    ]
    return sum(min(size, READABLE) + 3 for size in widest) + 1 <= width


def _print_records(
    console: Console, columns: Sequence[str], cells: Sequence[Sequence[object]]
) -> None:
    for number, row in enumerate(cells, start=1):
        console.print(f"row {number}", style="bold")
        size = max(map(len, columns))
        for name, value in zip(columns, row, strict=True):
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            console.print(f"  {clean(name):{size}}  {'' if value is None else clean(text)}")


def _print_text(console: Console, row: Mapping[str, Any], text: Excerpt | None) -> None:
    span = f"tokens {row['token_start']} to {row['token_end']}"
    console.print(f"\ndocument {row['doc']}, {span}", style="bold")
    if text is None:
        console.print("not in the corpus")
        return
    # A pipe or a file shows no reverse video.
    first, last = ("", "") if console.is_terminal else SPAN_MARKS
    console.print(clean(text.before, limit=200), style="dim", end="")
    console.print(f"{first}{clean(text.span, limit=1000)}{last}", style="reverse", end="")
    console.print(clean(text.after, limit=200), style="dim")


def _cell(value: object) -> object:
    if isinstance(value, str) and _TIME.fullmatch(value):
        return value[:19].replace("T", " ")
    return value.hex() if isinstance(value, bytes) else value
