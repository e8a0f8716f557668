"""What the `ledger` commands share: the history asked about, and the opened ledger."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from ..loader.errors import IntegrityError, NotFound, ShardwardError, UsageError
from ..loader.manifest import Manifest
from ..loader.run import Run
from ..quarantine.ledger import ALL, EFFECTIVE, Ledger, View, at_checkpoint
from ..quarantine.ledger.check import Problem
from ..quarantine.ledger.names import find_ids, load_corpus
from ..quarantine.ledger.stoppable import Unstoppable
from .ledger_answer import SHOWN_ROWS
from .numbers import COUNT, LARGEST
from .output import json_option, manifest_option, progress, run_option, say

Command = TypeVar("Command", bound=Callable[..., Any])

QUICK_SECONDS = 0.25
"""How long a question about single steps lets the ingest run before it is answered."""

EXIT_INTERRUPTED = 130
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=SHOWN_ROWS,
    show_default=True,
    help="Rows of the table.",
)
show_option = click.option("--show", is_flag=True, help="Print the texts with the span marked.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The run and the history that a command is about, and how to print its answer."""

    run: Run
    manifest: Path | None
    view: View
    as_json: bool

    def opened(self, seconds: float | None = None) -> AbstractContextManager[Ledger]:
        """Open the run's ledger; see `opened`."""
        return opened(self.run, self.manifest, seconds, view=self.view)

    def corpus(self) -> Manifest | None:
        """Return the run's manifest; see `corpus_of`."""
        return corpus_of(self.run, self.manifest)

    def question(self, command: str, **terms: Any) -> dict[str, Any]:
        """Return what was asked, as JSON."""
        return {"command": command, **terms, **view_json(self.view)}

    def printed_rows(self, limit: int) -> int | None:
        """Return how many rows are printed at most, None for all."""
        return None if self.as_json else limit


def asks(command: Command) -> Callable[..., Any]:
    """Add the options of every question, and hand them to `command` as its parameter `asked`."""

    @wraps(command)
    def call(*, run: Path, manifest: Path | None, as_json: bool, **options: Any) -> Any:
        found = Run.open(run)
        names = ("effective", "branch", "everything", "at")
        view = view_from(found, **{name: options.pop(name) for name in names})
        asked = Asked(run=found, manifest=manifest, view=view, as_json=as_json)
        return command(asked=asked, **options)

    return run_option(manifest_option(history_options(json_option(call))))


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
        type=COUNT,
        default=None,
        metavar="PIECE",
        help="The history of this piece.",
    )(command)
    return click.option(
        "--effective", is_flag=True, help="The history of the run's head; the default."
    )(command)


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
def opened(
    run: Run,
    manifest: Path | None = None,
    seconds: float | None = None,
    *,
    view: View = ALL,
) -> Iterator[Ledger]:
    """Open the run's ledger, showing on stderr what is read, was repaired, and is missing.

    That is what is missing in `view`, the history that will be asked about.
    """
    unread = sum(path.stat().st_size for path in run.journals())
    if seconds is None and unread > 64 << 20:
        with (
            progress("reading journals (bytes)") as advance,
            Ledger.open(run, manifest=manifest, advance=advance) as ledger,
        ):
            yield _announced(ledger, view, whole=seconds is None)
    else:
        with Ledger.open(run, manifest=manifest, ingest_seconds=seconds) as ledger:
            yield _announced(ledger, view, whole=seconds is None)


def _announced(ledger: Ledger, view: View, *, whole: bool) -> Ledger:
    for notice in ledger.notices:
        say(notice)
    for words in ledger.lost_journals()[:3]:
        say(f"warning: {words}; answers may lack steps, see `shardward ledger check`")
    lost = [loss.words() for loss in ledger.losses(view)]
    if whole and not lost:
        lost = [problem.message for problem in ledger.lost_steps(view)]
    if lost:
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        say(f"warning: {lost[0]}{more}; see `shardward ledger check`")
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
